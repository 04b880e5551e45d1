"""What brings the exporter onto a machine, run here with every command recorded: files, commands and their order."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from components.remote_scripts import exporter_on_node

READER, OTHER = "10.20.1.5", "10.30.0.0/16"
ASK = {"exporter": True, "port": 9879, "readers": [OTHER]}


class Machine:
    """A machine whose commands are recorded; `answers` says how some end, by their first words."""

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
        patch.setattr(exporter_on_node, "_wait", lambda address: self.calls.append(f"wait {address}"))
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


def test_the_unit_is_written_before_systemd_reads_it_and_the_exporter_answers_before_it_is_said_to_be_there(machine, capsys):
    assert machine.main(capsys) == {"there": True}
    assert machine.calls == ["systemctl --version", *STARTED]
    assert machine.program.read_text() == "the program\n"
    assert machine.program.stat().st_mode & 0o777 == 0o644
    start = f"{sys.executable} -IS {machine.program} --listen 10.20.1.11 --port 9879 --allow {READER} --allow {OTHER}"
    assert f"ExecStart={start}\nDynamicUser=yes\nUser=busbar-rdma\n" in machine.unit.read_text()
    assert not list(machine.unit.parent.glob("*.new"))


ADDED = "useradd --system --no-create-home --shell /sbin/nologin busbar-rdma"


@pytest.mark.parametrize(("there", "made"), [(0, []), (1, [ADDED])])
def test_a_systemd_that_makes_no_user_by_itself_gets_one_unless_it_is_there(machine, capsys, there, made):
    machine.answers |= {"systemctl --version": (0, "systemd 219\n", ""), "id busbar-rdma": (there, "", "")}
    assert machine.main(capsys) == {"there": True}
    assert machine.calls == ["systemctl --version", "id busbar-rdma", *made, *STARTED]


@pytest.mark.parametrize(("version", "asked"), [(234, ["id busbar-rdma"]), (235, [])])
def test_systemd_makes_the_user_by_itself_since_235(machine, capsys, version, asked):
    machine.answers |= {"systemctl --version": (0, f"systemd {version}\n", "")}
    assert machine.main(capsys) == {"there": True}
    assert machine.calls == ["systemctl --version", *asked, *STARTED]


def test_firewalld_opens_the_port_now_and_for_the_next_boot_and_closes_it_again(machine, capsys):
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


def test_iptables_lets_in_each_reader_once_and_what_it_holds_is_kept_for_the_next_boot(machine, capsys):
    machine.rules.write_text("old")
    machine.answers |= {"iptables -C": (1, "", ""), "iptables-save": (0, "new", "")}
    machine.main(capsys)
    rules = [f"INPUT -s {one} -p tcp --dport 9879 -j ACCEPT" for one in (READER, OTHER)]
    asked = [f"iptables {verb} {rule}" for rule in rules for verb in ("-C", "-I")]
    assert machine.calls[-6:-1] == [*asked, "iptables-save"]
    assert machine.rules.read_text() == "new"
    machine.answers["iptables -C"] = (0, "", "")
    machine.main(capsys)
    assert not [call for call in machine.calls if call.startswith("iptables -I")], "it is there already"
    machine.main(capsys, exporter=False)
    assert [call for call in machine.calls if call.startswith("iptables -D")] == [f"iptables -D {rule}" for rule in rules]


def test_another_port_closes_the_one_before(machine, capsys):
    machine.answers["firewall-cmd --state"] = (0, "running", "")
    machine.main(capsys)
    machine.main(capsys, port=9999)
    changed = [call for call in machine.calls if "-port=" in call and "--permanent" not in call]
    assert changed == ["firewall-cmd --remove-port=9879/tcp", "firewall-cmd --add-port=9999/tcp"]


def test_the_port_of_the_unit_is_closed_whatever_the_stack_file_says_now(machine, capsys):
    machine.answers["firewall-cmd --state"] = (0, "running", "")
    machine.main(capsys)
    machine.main(capsys, exporter=False, port=1)
    assert "firewall-cmd --remove-port=9879/tcp" in machine.calls


def test_a_command_that_fails_ends_it_with_its_words(machine, capsys):
    machine.answers["systemctl enable"] = (1, "", "first\nFailed to enable unit: no such file\n")
    with pytest.raises(SystemExit, match=r"^systemctl enable busbar-rdma-exporter: Failed to enable unit: no such file$"):
        machine.main(capsys)
    machine.answers["systemctl enable"] = (3, "", "")
    with pytest.raises(SystemExit, match=r"^systemctl enable busbar-rdma-exporter: exit status 3$"):
        machine.main(capsys)
