"""The program that sets up the exporter on a node: what it writes and runs, and in which order. Commands are only recorded."""

from __future__ import annotations

import http.client
import io
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.remote_scripts import exporter_on_node, exporter_on_nodes, wait_for_answer

READER, OTHER = "10.20.1.5", "10.30.0.0/16"
ASK = {"exporter": True, "port": 9879, "readers": [OTHER]}


class Machine:
    """A machine whose commands are recorded; `answers` has the results of some commands, by their first words."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.answers: dict[str, tuple[int, str, str]] = {
            "systemctl --version": (0, "systemd 249 (249.11)\n", ""),
            "firewall-cmd --state": (252, "", "not running"),
        }
        self.program, self.unit, self.rules = folder / "lib/busbar/x.py", folder / "units/x.service", folder / "rules.v4"
        patch.setattr(exporter_on_node, "PROGRAM", str(self.program))
        patch.setattr(exporter_on_node, "UNIT_FILE", str(self.unit))
        patch.setattr(exporter_on_node, "_RULES", str(self.rules))
        patch.setattr(exporter_on_node, "_run", self._run)
        patch.setattr(exporter_on_node, "wait_for_answer", lambda address, _: self.calls.append(f"wait {address}"))
        patch.setattr(sys, "argv", ["-", f"{READER} 4711 10.20.1.11 22", READER])

    def _run(self, *argv: str) -> tuple[int, str, str]:
        said = " ".join(argv)
        self.calls.append(said)
        return next((answer for begin, answer in self.answers.items() if said.startswith(begin)), (0, "", ""))

    def main(self, capsys: pytest.CaptureFixture[str], **changes: Any) -> Any:
        self.calls.clear()
        exporter_on_node.main("the program\n", ASK | changes)
        return json.loads(capsys.readouterr().out)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


STARTED = [
    "systemctl daemon-reload",
    "systemctl enable busbar-rdma-exporter",
    "systemctl restart busbar-rdma-exporter",
    "firewall-cmd --state",
    "wait http://10.20.1.11:9879/metrics",
]


def test_systemd_reads_the_unit_after_it_is_written_and_success_is_reported_after_the_exporter_answers(machine, capsys):
    assert machine.main(capsys) == {"there": True}
    assert machine.calls == ["systemctl --version", *STARTED]
    assert machine.program.read_text() == "the program\n"
    assert machine.program.stat().st_mode & 0o777 == 0o644
    start = f"{sys.executable} -IS {machine.program} --listen 10.20.1.11 --port 9879 --allow {READER} --allow {OTHER}"
    assert f"ExecStart={start}\nDynamicUser=yes\nUser=busbar-rdma\n" in machine.unit.read_text()
    assert not list(machine.unit.parent.glob("*.new"))


@pytest.mark.parametrize(
    ("connection", "reader", "sentence"),
    [
        (f"{READER} 4711 8.8.8.8 22", READER, "at 8.8.8.8, which is not a private address; the exporter is never public"),
        ("fd00::5 4711 fd00::11 22", READER, f"at fd00::11 from {READER}, but the exporter supports only IPv4 addresses"),
        (
            f"{READER} 4711 10.20.1.11 22",
            "fd00::5",
            "at 10.20.1.11 from fd00::5, but the exporter supports only IPv4 addresses",
        ),
        ("", READER, f"at no address from {READER}, but the exporter supports only IPv4 addresses"),
    ],
)
def test_at_a_public_address_or_without_an_ipv4_address_nothing_is_installed(
    machine, monkeypatch, connection, reader, sentence
):
    monkeypatch.setattr(sys, "argv", ["-", connection, reader])
    with pytest.raises(SystemExit) as ended:
        exporter_on_node.main("the program\n", ASK)
    assert str(ended.value) == f"SSH reaches this machine {sentence}"
    assert not machine.calls
    assert not machine.unit.exists()


def test_removal_from_a_machine_without_an_exporter_changes_nothing(machine, capsys):
    assert machine.main(capsys, exporter=False) == {"there": False}
    assert not machine.calls


ADDED = "useradd --system --no-create-home --shell /sbin/nologin busbar-rdma"


@pytest.mark.parametrize(("there", "made"), [(0, []), (1, [ADDED])])
def test_if_systemd_is_too_old_to_create_the_exporters_user_the_set_up_creates_the_missing_user(machine, capsys, there, made):
    machine.answers |= {"systemctl --version": (0, "systemd 219\n", ""), "id busbar-rdma": (there, "", "")}
    assert machine.main(capsys) == {"there": True}
    assert machine.calls == ["systemctl --version", "id busbar-rdma", *made, *STARTED]


@pytest.mark.parametrize(("version", "asked"), [(234, ["id busbar-rdma"]), (235, [])])
def test_systemd_of_version_235_or_later_creates_the_exporters_user(machine, capsys, version, asked):
    machine.answers |= {"systemctl --version": (0, f"systemd {version}\n", "")}
    assert machine.main(capsys) == {"there": True}
    assert machine.calls == ["systemctl --version", *asked, *STARTED]


def test_firewalld_opens_the_port_now_and_for_the_next_boot_and_closes_the_port_when_the_exporter_is_removed(machine, capsys):
    machine.answers["firewall-cmd --state"] = (0, "running", "")
    machine.main(capsys)
    assert machine.calls[-3:-1] == ["firewall-cmd --add-port=9879/tcp", "firewall-cmd --permanent --add-port=9879/tcp"]
    assert machine.main(capsys, exporter=False) == {"there": False}
    assert machine.calls == [
        "firewall-cmd --state",
        "firewall-cmd --remove-port=9879/tcp",
        "firewall-cmd --permanent --remove-port=9879/tcp",
        "systemctl disable --now busbar-rdma-exporter",
        "systemctl daemon-reload",
    ]
    assert not machine.unit.exists()
    assert not machine.program.parent.exists()


def test_other_programs_in_the_exporters_folder_stay_when_the_exporter_is_removed(machine, capsys):
    machine.main(capsys)
    (machine.program.parent / "elastic.pyz").write_text("Slurm's")
    machine.main(capsys, exporter=False)
    assert [one.name for one in machine.program.parent.iterdir()] == ["elastic.pyz"]


def test_iptables_gets_one_rule_for_each_reader_and_keeps_the_rules_for_the_next_boot(machine, capsys):
    machine.rules.write_text("old")
    machine.answers |= {"iptables -C": (1, "", ""), "iptables-save": (0, "new", "")}
    machine.main(capsys)
    rules = [f"INPUT -s {one} -p tcp --dport 9879 -j ACCEPT" for one in (READER, OTHER)]
    asked = [f"iptables {verb} {rule}" for rule in rules for verb in ("-C", "-I")]
    assert machine.calls[-6:-1] == [*asked, "iptables-save"]
    assert machine.rules.read_text() == "new"
    machine.answers["iptables -C"] = (0, "", "")
    machine.main(capsys)
    changed = [call for call in machine.calls if call.startswith(("iptables -I", "iptables -D"))]
    assert not changed, "a rule that exists was added again or was deleted"
    machine.main(capsys, exporter=False)
    assert [call for call in machine.calls if call.startswith("iptables -D")] == [f"iptables -D {rule}" for rule in rules]


def test_a_new_port_closes_the_previous_port(machine, capsys):
    machine.answers["firewall-cmd --state"] = (0, "running", "")
    machine.main(capsys)
    machine.main(capsys, port=9999)
    changed = [call for call in machine.calls if "-port=" in call and "--permanent" not in call]
    assert changed == ["firewall-cmd --remove-port=9879/tcp", "firewall-cmd --add-port=9999/tcp"]


def test_a_reader_that_is_no_longer_listed_loses_its_firewall_rule_also_on_the_previous_port(machine, capsys):
    machine.rules.write_text("old")
    machine.answers |= {"iptables -C": (1, "", ""), "iptables-save": (0, "new", "")}
    machine.main(capsys)
    machine.answers["iptables -C"] = (0, "", "")
    machine.main(capsys, readers=[])
    assert f"iptables -D INPUT -s {OTHER} -p tcp --dport 9879 -j ACCEPT" in machine.calls
    machine.main(capsys)
    machine.main(capsys, readers=[], port=9999)
    assert f"iptables -D INPUT -s {OTHER} -p tcp --dport 9879 -j ACCEPT" in machine.calls


def test_the_port_in_the_unit_is_closed_whatever_port_the_stack_file_has_now(machine, capsys):
    machine.answers["firewall-cmd --state"] = (0, "running", "")
    machine.main(capsys)
    machine.main(capsys, exporter=False, port=1)
    assert "firewall-cmd --remove-port=9879/tcp" in machine.calls


def test_the_files_are_readable_by_the_exporters_user_whatever_the_umask_is(machine, capsys):
    before = os.umask(0o077)
    try:
        machine.main(capsys)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (machine.program, machine.unit)] == [0o644, 0o644]


def test_a_command_returns_its_status_and_output_and_a_missing_command_has_status_127():
    run = exporter_on_node._run  # noqa: SLF001
    assert run("sh", "-c", "echo out; echo err >&2; exit 3") == (3, "out\n", "err\n")
    assert run("/nowhere/firewall-cmd", "--state") == (127, "", "[Errno 2] No such file or directory: '/nowhere/firewall-cmd'")


def test_a_failing_command_stops_the_set_up_with_the_message_of_the_command(machine, capsys):
    machine.answers["systemctl enable"] = (1, "", "first\nFailed to enable unit: no such file\n")
    with pytest.raises(SystemExit, match=r"^systemctl enable busbar-rdma-exporter: Failed to enable unit: no such file$"):
        machine.main(capsys)
    machine.answers["systemctl enable"] = (3, "", "")
    with pytest.raises(SystemExit, match=r"^systemctl enable busbar-rdma-exporter: exit status 3$"):
        machine.main(capsys)


class Answering:
    """An exporter that answers after several tries, and a clock that each pause advances."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.now, self.tried = refusals, 1000.0, []
        self.handlers: list[Any] = []
        self.error: type[Exception] = OSError

    def build_opener(self, handler: Any) -> Answering:
        self.handlers.append(handler)
        return self

    def open(self, address: str, timeout: float) -> Any:
        self.tried.append((address, timeout))
        if len(self.tried) <= self.refusals:
            raise self.error(f"refused {len(self.tried)} times")
        return io.BytesIO(b"text")

    def sleep(self, seconds: float) -> None:
        self.now += seconds


WAIT = wait_for_answer.wait_for_answer


def waiting(patch: pytest.MonkeyPatch, refusals: int) -> Answering:
    found = Answering(refusals)
    patch.setattr(exporter_on_node, "wait_for_answer", WAIT)
    patch.setattr(wait_for_answer.urllib.request, "build_opener", found.build_opener)
    patch.setattr(wait_for_answer, "time", SimpleNamespace(monotonic=lambda: found.now, sleep=found.sleep))
    return found


def test_the_set_up_waits_for_a_slow_exporter_and_reaches_the_exporter_without_a_proxy(machine, capsys, monkeypatch):
    found = waiting(monkeypatch, refusals=3)
    assert machine.main(capsys) == {"there": True}
    assert found.tried == [("http://10.20.1.11:9879/metrics", 5)] * 4
    assert [handler.proxies for handler in found.handlers] == [{}]


def test_an_exporter_that_does_not_answer_before_the_timeout_is_reported_with_the_last_error(machine, capsys, monkeypatch):
    found = waiting(monkeypatch, refusals=1000)
    with pytest.raises(SystemExit) as ended:
        machine.main(capsys)
    said = f"http://10.20.1.11:9879/metrics did not answer with success within 15 s: refused {len(found.tried)} times"
    assert str(ended.value) == f"{said}; see journalctl -u busbar-rdma-exporter"
    assert 14.5 <= found.now - 1000 <= 15.5


def test_an_answer_that_is_not_http_is_tried_again_and_then_reported(machine, capsys, monkeypatch):
    found = waiting(monkeypatch, refusals=1000)
    found.error = http.client.BadStatusLine
    with pytest.raises(SystemExit, match="did not answer with success within 15 s: refused 75 times; see journalctl"):
        machine.main(capsys)


def test_the_saved_rules_are_not_overwritten_when_iptables_save_fails(machine, capsys):
    machine.rules.write_text("old")
    machine.answers |= {"iptables -C": (1, "", ""), "iptables-save": (1, "half", "")}
    machine.main(capsys)
    assert machine.rules.read_text() == "old"


NODES = [{"name": f"gpu-{number}", "address": f"10.20.1.{number}"} for number in range(1, 21)]


class Fan:
    """The head node's ssh: `calls` records the commands, `ends` sets how the command for an address ends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[list[str], bytes]] = []
        self.ends: dict[str, Any] = {}
        patch.setenv("SSH_CONNECTION", "192.0.2.5 4711 10.20.1.1 22")
        patch.setattr(exporter_on_nodes.subprocess, "run", self._run)

    def _run(self, argv: list[str], **given: Any) -> Any:
        self.calls.append((argv, given["input"]))
        end = self.ends.get(argv[-2], (0, b""))
        if isinstance(end, BaseException):
            raise end
        return SimpleNamespace(returncode=end[0], stderr=end[1], stdout=b"")


@pytest.fixture
def fan(monkeypatch: pytest.MonkeyPatch) -> Fan:
    return Fan(monkeypatch)


def test_the_program_runs_locally_on_the_head_node_while_other_nodes_run_it_over_ssh_with_pinned_keys(fan, capsys):
    exporter_on_nodes.main(NODES[:3], "the program", there=True)
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "kind": "exporter", "nodes": 3, "there": True}
    command = "sudo -n python3 -IS - \"$SSH_CONNECTION\" '192.0.2.5'"
    found = sorted((argv for argv, _ in fan.calls), key=len)
    assert found[0] == ["sh", "-c", command]
    assert sorted(argv[-2] for argv in found[1:]) == ["10.20.1.2", "10.20.1.3"]
    for argv in found[1:]:
        assert argv[0] == "ssh"
        assert argv[-1] == command
        assert {"BatchMode=yes", "StrictHostKeyChecking=yes"} <= set(argv)
    assert {program for _, program in fan.calls} == {b"the program"}


def test_pods_are_entered_by_a_program_that_replaces_ssh_and_gets_each_pods_address(fan, monkeypatch):
    monkeypatch.setattr(exporter_on_nodes, "_OWN_SHELL", "/busbar/in-pod")
    exporter_on_nodes.main(NODES[:2], "the program", there=True)
    found = sorted(argv for argv, _ in fan.calls)
    assert found == [["/busbar/in-pod", "10.20.1.2", "python3 -IS - 10.20.1.2"], ["sh", "-c", "python3 -IS - 10.20.1.1"]]


@pytest.mark.parametrize(
    ("there", "what"),
    [(True, "have no exporter of RDMA counters"), (False, "still have the exporter of RDMA counters")],
)
def test_nodes_where_the_command_failed_are_named_with_their_last_output(fan, there, what):
    fan.ends = {"10.20.1.2": (1, b"first\nsudo: a password is required\n"), "10.20.1.3": (255, b""), "-c": OSError("no sh")}
    with pytest.raises(SystemExit) as ended:
        exporter_on_nodes.main(NODES[:4], "", there=there)
    said = ["gpu-1 (10.20.1.1): no sh", "gpu-2 (10.20.1.2): sudo: a password is required", "gpu-3 (10.20.1.3): exit status 255"]
    assert str(ended.value) == f"3 of 4 nodes {what}: {'; '.join(said)}"


def test_at_most_sixteen_failed_nodes_are_named_and_the_other_failed_nodes_are_counted(fan):
    fan.ends = {node["address"]: (255, b"") for node in NODES}
    with pytest.raises(SystemExit) as ended:
        exporter_on_nodes.main(NODES[:17], "", there=True)
    assert str(ended.value).count("exit status 255") == 16
    assert "and" not in str(ended.value)
    with pytest.raises(SystemExit) as ended:
        exporter_on_nodes.main(NODES[:18], "", there=True)
    assert str(ended.value).startswith("17 of 18 nodes have no exporter")
    assert str(ended.value).count("exit status 255") == 16
    assert str(ended.value).endswith("; and 1 more")
