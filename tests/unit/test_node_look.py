"""Conclusions from a booting node's answers, and the commands that the node gets; answers are stand-ins, and no ssh runs."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from components.remote_scripts import facts, node_join, node_look, ssh_way

NODE = {"name": "b", "address": "10.0.0.2"}
PINNED = NODE | {"host_key": "ssh-ed25519 AAAAPinned"}
WAY = ssh_way.Way(["ssh"], [], "/nowhere/known", "me", ["m0", "m1", "m2"], True, "", [], [], "", False, False, 0.0)
DONE = 'status: done\n{"status": "done"}\n'
FACTS = {"gpu": "NVIDIA H100 80GB HBM3", "gpus": 8, "hca": [["m0", 400, "ib0", True], ["m1", 400, "ib1", False]], "mpi": "/mpi"}


class Answers:
    """Gives the same answer to every command, and records the commands and the notes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: int, out: str, err: str = "") -> None:
        self.asked: list[tuple[str, str]] = []
        self.shared: list[bool] = []
        self.notes: list[str] = []
        self.answer = (status, out, err)
        monkeypatch.setattr(node_look, "call", self._call)
        monkeypatch.setattr(node_look, "host_key", lambda *_: "ssh-ed25519 AAAAScanned")

    def _call(self, _node: Any, way: ssh_way.Way, command: str, stdin: str) -> tuple[int, str, str]:
        self.asked.append((command, stdin))
        self.shared.append(way.shares)
        return self.answer

    def look(self, node: dict[str, str] = PINNED, **changes: Any) -> node_look.Seen | None:
        return node_look.look(node, WAY._replace(**changes), self.notes.append)


def test_a_node_is_ready_when_its_first_boot_is_done_and_all_its_rails_are_up(monkeypatch):
    answers = Answers(monkeypatch, 0, f"{DONE}m2 m0 m1\n")
    assert answers.look() == node_look.Seen("ssh-ed25519 AAAAPinned", {})
    assert answers.look(NODE) == node_look.Seen("ssh-ed25519 AAAAScanned", {})
    assert answers.notes == []
    assert [command for command, _ in answers.asked] == ["sh -s", "sh -s"]
    assert "rails='m0 m1 m2'" in answers.asked[0][1]


@pytest.mark.parametrize(
    ("out", "note"),
    [
        ("\n{}\n\n", "first boot is running"),
        ("status: running\n{}\nm0 m1 m2\n", "first boot is running"),
        ('status: running\n{"status": "done"}\nm0 m1 m2\n', "first boot is running"),
        ("status: done\n{}\nm0 m1 m2\n", "first boot is running"),
        (f"{DONE}m1\n", "2 of 3 rails are not active, or have no address: m0, m2"),
        (f"{DONE}\n", "3 of 3 rails are not active, or have no address: m0, m1, m2"),
        (
            f"{DONE}m2! m0 m1!\n",
            "2 of 3 rails are not authenticated (802.1X; wpa_cli status), so they carry no traffic: m1, m2",
        ),
    ],
)
def test_a_note_says_why_a_node_is_not_ready(monkeypatch, out, note):
    answers = Answers(monkeypatch, 0, out)
    assert answers.look() is None
    assert answers.notes == [note]


def test_a_half_written_boot_json_means_not_ready_and_leaves_no_note(monkeypatch):
    answers = Answers(monkeypatch, 0, 'status: done\n{"status": "do\nm0 m1 m2\n')
    assert answers.look() is None
    assert answers.notes == []


def test_a_first_boot_step_that_failed_with_only_a_warning_is_noted_and_the_node_is_ready(monkeypatch):
    answers = Answers(monkeypatch, 0, 'status: done\n{"status": "done", "warned": " lustre \\n"}\nm0 m1 m2\n')
    assert answers.look()
    said = "first boot is done, but these steps failed: lustre; see the node's /var/log/cloud-init-output.log"
    assert answers.notes == [said]


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        (
            '\n{"status": "failed", "step": "mount"}\n\nfirst \n\n last\n',
            "its first boot failed in step mount; /var/log/cloud-init-output.log ends: first | last",
        ),
        ("status: error - a reason \n{}\n\n", "cloud-init ended in error: status: error - a reason"),
    ],
)
def test_a_failed_first_boot_stops_the_wait_with_its_step_and_its_log(monkeypatch, out, sentence):
    with pytest.raises(node_look.Failed) as refused:
        Answers(monkeypatch, 0, out).look()
    assert str(refused.value) == sentence


@pytest.mark.parametrize("status", [124, 255])
def test_the_wait_continues_after_a_timeout_and_after_errors_of_ssh_itself(monkeypatch, status):
    answers = Answers(monkeypatch, status, "", "first\nlast words\n")
    assert answers.look() is None
    assert answers.notes == ["SSH does not accept logins yet (last words)"]


@pytest.mark.parametrize("status", [1, 123, 125, 126, 127, 254])
def test_a_command_that_fails_on_the_node_ends_the_wait(monkeypatch, status):
    with pytest.raises(node_look.Failed) as refused:
        Answers(monkeypatch, status, "", "").look()
    assert str(refused.value) == "'sh -s' failed on the node: no output"


def test_a_changed_host_key_that_was_scanned_is_retried_but_a_pinned_one_is_refused(monkeypatch):
    said = "Host key for 10.0.0.2 has changed and you have requested strict checking."
    assert Answers(monkeypatch, 255, "", said).look(NODE) is None
    with pytest.raises(node_look.Failed, match=r"the host key of 10\.0\.0\.2 is not the key in knownHosts"):
        Answers(monkeypatch, 255, "", said).look()


def test_a_refused_login_is_retried_unless_the_nodes_host_key_is_pinned(monkeypatch):
    said = "me@10.0.0.2: Permission denied (publickey)."
    assert Answers(monkeypatch, 255, "", said).look(NODE) is None
    with pytest.raises(node_look.Failed, match="Does your SSH agent have a key that the machine accepts"):
        Answers(monkeypatch, 255, "", said).look()


def test_the_facts_program_gets_the_nodes_address_and_only_the_last_line_of_the_programs_output_is_read(monkeypatch):
    answers = Answers(monkeypatch, 0, f"a banner\n{json.dumps(FACTS)}\n")
    found = answers.look(first_boot=False, facts="PROGRAM", mpi=["/mpi*"], hcas=["m0"])
    assert found == node_look.Seen("ssh-ed25519 AAAAPinned", FACTS)
    ((command, stdin),) = answers.asked
    assert command == "python3 -IS -"
    called: list[dict[str, Any]] = []
    exec(stdin.replace("PROGRAM", ""), {"json": json, "main": lambda **given: called.append(given)})  # noqa: S102 - the tests' text
    assert called == [{"address": "10.0.0.2", "mpi": ["/mpi*"]}]
    assert answers.look(first_boot=False, facts="PROGRAM", hcas=["m0", "m1", "m9"]) is None
    assert answers.notes == ["2 of 3 rails are not active: m1, m9"]


def test_a_booting_node_gets_its_own_connection_and_a_running_node_gets_a_shared_connection(monkeypatch):
    answers = Answers(monkeypatch, 0, f"{DONE}m2 m0 m1\n")
    assert answers.look(shares=True)
    answers.answer = (0, json.dumps(FACTS), "")
    assert answers.look(shares=True, first_boot=False, facts="PROGRAM", hcas=[])
    assert answers.shared == [False, True]


@pytest.mark.parametrize(("shares", "words"), [(True, ["-o", "ControlMaster=auto", "-o", "ControlPersist=10"]), (False, [])])
def test_only_a_shared_connection_is_kept_for_the_next_call(monkeypatch, shares, words):
    ran: list[list[str]] = []
    monkeypatch.setattr(ssh_way, "run_here", lambda argv, *_: (ran.append(argv), (0, "", ""))[1])
    assert ssh_way.call(NODE, WAY._replace(shares=shares), "true", "") == (0, "", "")
    assert ran == [["ssh", *words, "me@10.0.0.2", "true"]]


@pytest.mark.parametrize(
    ("model", "number", "fits"),
    [
        ("NVIDIA H100 80GB HBM3", 8, True),
        ("NVIDIA H100 80GB HBM3 SXM5", 8, True),
        ("NVIDIA H100 80GB HBM30", 8, False),
        ("NVIDIA H100", 8, False),
        ("NVIDIA H100 80GB HBM3", 7, False),
        ("", 0, False),
    ],
)
def test_a_machine_must_have_the_requested_number_and_model_of_gpus(monkeypatch, model, number, fits):
    answers = Answers(monkeypatch, 0, json.dumps(FACTS | {"gpu": model, "gpus": number}))
    ask = {"first_boot": False, "facts": "PROGRAM", "hcas": [], "row": ["HGX-H100.8", 8, "NVIDIA H100 80GB HBM3"]}
    if fits:
        assert answers.look(**ask)
        return
    with pytest.raises(node_look.Failed) as refused:
        answers.look(**ask)
    said = f"it has {number} x {model or 'no GPU'}, but shape HGX-H100.8 has 8 x NVIDIA H100 80GB HBM3"
    assert str(refused.value) == f"{said}; name the hosts' shape, or set shape: detect"


def test_the_ssh_configuration_trusts_only_known_host_keys_and_offers_only_the_agents_keys(tmp_path):
    known = str(tmp_path / "known")
    ssh = ssh_way.pinned_ssh(str(tmp_path), known, [PINNED, NODE | {"address": "10.0.0.3"}], {"address": "j", "host_key": "K"})
    assert ssh == ["ssh", "-F", f"{tmp_path}/config"]
    assert Path(known).read_text() == "10.0.0.2 ssh-ed25519 AAAAPinned\nj K\n"
    said = dict(line.strip().split(" ", 1) for line in (tmp_path / "config").read_text().splitlines())
    assert said == {
        "Host": "*",
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UserKnownHostsFile": known,
        "GlobalKnownHostsFile": "/dev/null",
        "UpdateHostKeys": "no",
        "IdentityFile": "none",
        "ConnectTimeout": "10",
        "ServerAliveInterval": "15",
        "ControlPath": f"{tmp_path}/%C",
    }


@pytest.mark.parametrize(("err", "last"), [("one\ntwo\n\n", "two"), ("", "no output"), (" \n", "no output")])
def test_the_message_of_a_failed_command_is_the_last_line_of_its_error_output(err, last):
    assert ssh_way.words(err) == last


def test_a_node_on_which_public_keys_cannot_be_installed_is_named_with_its_output(monkeypatch):
    def call(node: dict[str, str], _way: Any, command: str, _stdin: str) -> tuple[int, str, str]:
        if command == "sh -s":
            return 0, "ssh-ed25519 HEAD busbar-head\n", ""
        return (0, "", "") if node["name"] == "a" else (1, "", "No space left on device\n")

    monkeypatch.setattr(node_join, "call", call)
    with pytest.raises(SystemExit) as ended:
        node_join.join([NODE | {"name": "a"}, NODE], WAY, ["key-a", "key-b"], 2)
    assert str(ended.value) == "public keys could not be installed on b: No space left on device"


def test_a_head_node_that_makes_no_key_is_named_with_its_output(monkeypatch):
    monkeypatch.setattr(node_join, "call", lambda *_: (1, "", "Read-only file system\n"))
    with pytest.raises(SystemExit) as ended:
        node_join.join([NODE | {"name": "a"}, NODE], WAY, ["key-a", "key-b"], 2)
    assert str(ended.value) == "no key could be made on the head node a: Read-only file system"


def test_every_node_learns_each_host_key_by_address_and_name_and_accepts_the_keys_of_head_node_and_operator(monkeypatch):
    calls: list[tuple[str, str, str]] = []

    def call(node: dict[str, str], _way: Any, command: str, stdin: str) -> tuple[int, str, str]:
        calls.append((node["name"], command, stdin))
        return 0, "ssh-ed25519 HEAD busbar-head\n", ""

    monkeypatch.setattr(node_join, "call", call)
    same = {"name": "10.0.0.1", "address": "10.0.0.1"}
    node_join.join([same, NODE], WAY._replace(accept="ssh-ed25519 MINE me"), ["key-a", "key-b"], 2)
    assert [(name, command) for name, command, _ in calls if command == "sh -s"] == [("10.0.0.1", "sh -s")]
    joined = [(command, stdin) for _, command, stdin in calls if command != "sh -s"]
    assert len(joined) == 2
    for command, stdin in joined:
        assert "for key in '\"'\"'ssh-ed25519 MINE me'\"'\"' '\"'\"'ssh-ed25519 HEAD busbar-head'\"'\"'; do" in command
        assert stdin == "10.0.0.1 key-a\n10.0.0.2,b key-b\n"
    calls.clear()
    node_join.join([NODE], WAY, ["key-b"], 1)
    assert calls == []


@pytest.fixture
def says(tmp_path, monkeypatch, capsys):
    """Return a function that writes programs to PATH and returns the facts of this machine; sysfs is below `tmp_path`."""

    def run(**programs: str) -> dict[str, Any]:
        for name, script in programs.items():
            (tmp_path / name.replace("_", "-")).write_text(f"#!/bin/sh\n{script}\n")
            (tmp_path / name.replace("_", "-")).chmod(0o755)
        facts.main("192.0.2.7", ["/nowhere/*"])
        return dict(json.loads(capsys.readouterr().out))

    def below(real: Any) -> Any:
        return lambda path: real(path.replace("/sys/class/infiniband", f"{tmp_path}/sys"))

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("_read", "_entries"):
        monkeypatch.setattr(facts, name, below(getattr(facts, name)))
    monkeypatch.setattr(facts.os.path, "realpath", below(facts.os.path.realpath))
    return run


def test_output_of_a_program_that_fails_is_ignored(says):
    """nvidia-smi without a driver fails and prints its complaint where GPUs are expected."""
    found = says(nvidia_smi="echo NVIDIA-SMI has failed; exit 9", ip="exit 1")
    assert (found["gpu"], found["gpus"], found["front"], found["network"]) == ("", 0, "lo", "127.0.0.0/8")
    assert (found["hca"], found["mpi"]) == ([], None)
    found = says(nvidia_smi="printf ' NVIDIA A100 \\nNVIDIA A100\\n'")
    assert (found["gpu"], found["gpus"]) == ("NVIDIA A100", 2)


@pytest.mark.parametrize(
    ("cidr", "network"),
    [
        ("10.9.130.7/20", "10.9.128.0/20"),
        ("10.9.130.7/32", "10.9.130.7/32"),
        ("10.9.130.7", "10.9.130.7/32"),
        ("10.9.130.7/0", "0.0.0.0/0"),
        ("192.168.255.254/31", "192.168.255.254/31"),
    ],
)
def test_the_network_follows_from_the_prefix_length_of_the_interfaces_address(says, cidr, network):
    found = says(nvidia_smi="exit 9", ip=f"echo '2: eth0    inet {cidr} scope global eth0'")
    assert (found["front"], found["network"]) == ("eth0", network)


def test_an_rdma_device_is_described_by_its_rate_and_interface_and_state_and_driver(says, tmp_path):
    base = tmp_path / "sys/m0"
    for folder in ("ports/1", "device/net/ib1", "device/net/ib0"):
        (base / folder).mkdir(parents=True)
    (base / "device/driver").symlink_to(tmp_path / "drivers/mlx5_core")
    (base / "ports/1/rate").write_text("400 Gb/sec (4X NDR)\n")
    (base / "ports/1/state").write_text("4: ACTIVE\n")
    assert says(nvidia_smi="exit 9", ip="exit 1")["hca"] == [["m0", 400, "ib0", True, "mlx5_core"]]
    (base / "ports/1/rate").write_text("no rate\n")
    (base / "ports/1/state").write_text("1: DOWN\n")
    for name in ("ib0", "ib1"):
        (base / "device/net" / name).rmdir()
    assert says()["hca"] == [["m0", 0, None, False, "mlx5_core"]]


@pytest.mark.parametrize(
    ("errors", "said"),
    [([], "status: done"), (["Failed to start", "[]"], "status: error extended_status: error "), (None, "status: error ")],
)
def test_a_node_asks_cloud_init_unless_the_result_file_of_cloud_init_has_an_empty_list_of_errors(tmp_path, errors, said):
    result = {"v1": {"datasource": "DataSourceOracle", **({} if errors is None else {"errors": errors})}}
    (tmp_path / "result.json").write_text(json.dumps(result, indent=1, sort_keys=True, separators=(",", ": ")))
    program = tmp_path / "cloud-init"
    program.write_text("#!/bin/sh\n[ \"$*\" = 'status --long' ] && printf 'status: error\\nextended_status: error\\n'\n")
    program.chmod(0o755)
    script = node_look.STATE.replace("/run/cloud-init", str(tmp_path)).replace("HCAS", "").replace("SUPPLICANT", "")
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shown = subprocess.run(["sh", "-s"], input=script, env=path, capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown.splitlines()[0].startswith(said)
