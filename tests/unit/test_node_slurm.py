"""A node's report for Slurm's configuration, and the set-up of Slurm's files and daemons, in a folder of the test."""

from __future__ import annotations

import base64
import json
import pwd
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler import node_setup, slurm_facts

COUNTED = "NodeName=gpu-1 CPUs=224 Boards=1 SocketsPerBoard=2 CoresPerSocket=56 ThreadsPerCore=2 RealMemory=2063937\nUpTime=1\n"
KEY = bytes(range(256)) * 4


class Node:
    """A machine on which the programs in `has` exist; `said` has the output, status or exception of each command."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.has = {"slurmd", "srun", "munged", "systemctl", "slurmctld"}
        self.said: dict[str, Any] = {"slurmd -C": COUNTED, "slurmd -V": "slurm-wlm 22.05.8\n", "sudo -n true": 0}
        self.user, self.there, self.devices = 1000, set[str](), ["nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "sda"]
        self.users = {"slurm": 64030}
        self.conf = folder / "slurm.conf"
        patch.setattr(slurm_facts, "_CONF", str(self.conf))
        patch.setattr(slurm_facts.shutil, "which", lambda name, path: (name in self.has and "sbin" in path) or None)
        patch.setattr(slurm_facts.subprocess, "run", self._run)
        patch.setattr(slurm_facts.os, "getuid", lambda: self.user)
        patch.setattr(slurm_facts.os, "listdir", lambda path: self.devices if path == "/dev" else [])
        patch.setattr(slurm_facts.os.path, "exists", lambda path: path in self.there)
        patch.setattr(slurm_facts.socket, "gethostname", lambda: "gpu-1.example.org")
        patch.setattr(slurm_facts.pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid=self.users[name]))

    def _run(self, argv: list[str], **_: Any) -> Any:
        found = self.said.get(" ".join(argv))
        if found is None:
            raise FileNotFoundError(argv[0])
        if isinstance(found, BaseException):
            raise found
        is_status = isinstance(found, int)
        return SimpleNamespace(returncode=found if is_status else 0, stdout=b"" if is_status else found.encode())


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Node:
    return Node(monkeypatch, tmp_path)


@pytest.mark.usefixtures("node")
def test_a_node_reports_its_hostname_and_hardware_and_the_version_of_slurm():
    assert slurm_facts.facts() == {
        "lacks": [],
        "controls": True,
        "version": "22.05.8",
        "hostname": "gpu-1",
        "uid": 1000,
        "slurm_uid": 64030,
        "root": True,
        "cores": [2, 56, 2],
        "memory_mib": 2063937,
        "devices": [2, 10],
        "cgroups": 0,
        "first_line": None,
        "running": {},
    }


@pytest.mark.parametrize("program", ["slurmd", "srun", "munged", "systemctl"])
def test_a_node_that_lacks_a_program_reports_only_that_program(node, program):
    node.has.remove(program)
    assert slurm_facts.facts() == {"lacks": [program]}


def test_a_node_without_slurmctld_is_a_complete_compute_node_but_cannot_be_the_controller(node):
    node.has.remove("slurmctld")
    assert (slurm_facts.facts()["lacks"], slurm_facts.facts()["controls"]) == ([], False)


@pytest.mark.parametrize(
    ("user", "sudo", "root"),
    [(0, 1, True), (1000, 0, True), (1000, 1, False), (1000, None, False), (1000, subprocess.TimeoutExpired("", 1), False)],
)
def test_root_means_uid_0_or_sudo_without_a_password(node, user, sudo, root):
    node.user, node.said["sudo -n true"] = user, sudo
    assert slurm_facts.facts()["root"] is root


def test_cores_and_memory_are_reported_as_zero_if_slurmd_reports_no_hardware(node):
    node.said["slurmd -C"] = ""
    found = slurm_facts.facts()
    assert (found["cores"], found["memory_mib"]) == ([0, 0, 0], 0)


def test_a_slurmd_that_does_not_report_its_version_counts_as_missing(node):
    node.said = {"sudo -n true": 0}
    assert slurm_facts.facts() == {"lacks": ["slurmd that reports its version (slurmd -V)"]}


def test_if_the_user_slurm_is_missing_the_report_has_no_uid_for_the_user(node):
    node.users = {}
    assert slurm_facts.facts()["slurm_uid"] is None


_VERSION_1 = {f"/sys/fs/cgroup/{name}/tasks" for name in ("freezer", "devices", "cpuset")}


@pytest.mark.parametrize(
    ("there", "version"),
    [
        ({"/sys/fs/cgroup/cgroup.controllers"}, 2),
        ({"/sys/fs/cgroup/cgroup.controllers"} | _VERSION_1, 2),
        (_VERSION_1, 1),
        (_VERSION_1 - {"/sys/fs/cgroup/devices/tasks"}, 0),
        (set(), 0),
    ],
)
def test_control_groups_have_the_version_whose_files_exist(node, there, version):
    node.there = there
    assert slurm_facts.facts()["cgroups"] == version


def test_the_first_line_of_slurm_conf_is_reported(node):
    node.conf.write_text("# Written by busbar\nClusterName=x\n")
    assert slurm_facts.facts()["first_line"] == "# Written by busbar"
    node.conf.write_text("")
    assert slurm_facts.facts()["first_line"] == ""


def test_a_running_daemon_is_reported_with_the_first_line_of_its_unit_file(node, monkeypatch, tmp_path):
    monkeypatch.setattr(slurm_facts, "_UNITS", str(tmp_path))
    node.said |= {"systemctl is-active --quiet slurmd": 0, "systemctl is-active --quiet slurmctld": 3}
    assert slurm_facts.facts()["running"] == {"slurmd": None}
    (tmp_path / "slurmd.service").write_text("# Written by busbar\n[Unit]\n")
    assert slurm_facts.facts()["running"] == {"slurmd": "# Written by busbar"}


class Setup:
    """A machine on which root writes files below a folder; `calls` lists its commands, `active` says if its units run."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.calls, self.active, self._capsys = folder, [], True, capsys
        self.refuses = ""
        self.owners: dict[str, str] = {}
        patch.setattr(node_setup, "_KEY", str(folder / "munge.key"))
        patch.setattr(node_setup, "_UNITS", str(folder / "units"))
        patch.setattr(node_setup, "give", lambda path, owner: self.owners.__setitem__(Path(path).name, owner))
        patch.setattr(node_setup.subprocess, "run", self._run)

    def _run(self, argv: tuple[str, ...], **_: Any) -> Any:
        said = " ".join(argv)
        self.calls.append(said)
        if said == self.refuses:
            return SimpleNamespace(returncode=1, stdout=b"first\nJob for munge.service failed.\n")
        return SimpleNamespace(returncode=0 if "is-active" not in said or self.active else 3, stdout=b"")

    def main(self, **changes: Any) -> Any:
        self.calls.clear()
        conf = str(self.folder / "slurm")
        given = {
            "key": base64.b64encode(KEY).decode(),
            "conf": conf,
            "mark": "# ours",
            "folders": [str(self.folder / "spool"), str(self.folder / "logs")],
            "files": {"slurm.conf": "# ours\nClusterName=x\n", "gres.conf": "# ours\n"},
            "units": {"slurmd.service": "# ours\n[Unit]\n"},
        }
        node_setup.main(json.dumps(given | changes))
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Setup:
    return Setup(tmp_path, monkeypatch, capsys)


MUNGE = ["systemctl enable munge", "systemctl restart munge"]
SLURMD = ["systemctl enable slurmd.service", "systemctl restart slurmd.service"]


def test_setup_writes_files_with_their_owners_and_starts_the_daemons(machine):
    assert machine.main() == {}
    assert machine.calls == [*MUNGE, "systemctl daemon-reload", *SLURMD]
    assert (machine.folder / "munge.key").read_bytes() == KEY
    assert (machine.folder / "munge.key").stat().st_mode & 0o777 == 0o400
    assert (machine.folder / "slurm/gres.conf").read_text() == "# ours\n"
    assert (machine.folder / "slurm/slurm.conf").stat().st_mode & 0o777 == 0o644
    assert (machine.folder / "units/slurmd.service").read_text() == "# ours\n[Unit]\n"
    assert machine.owners == {
        "munge.key.busbar": "munge",
        "spool": "slurm",
        "logs": "slurm",
        "slurm.conf.busbar": "root",
        "gres.conf.busbar": "root",
        "slurmd.service.busbar": "root",
    }
    assert not list(machine.folder.rglob("*.busbar"))


ACTIVE = ["systemctl is-active --quiet munge", "systemctl is-active --quiet slurmd.service"]


def test_a_nodes_name_is_set_only_once_and_is_written_to_the_hostname_file(machine, monkeypatch):
    named: list[str] = []
    monkeypatch.setattr(node_setup, "_HOSTNAME", str(machine.folder / "hostname"))
    monkeypatch.setattr(node_setup.socket, "gethostname", lambda: (named or ["ip-10-0-0-1"])[-1])
    monkeypatch.setattr(node_setup.socket, "sethostname", lambda name: named.append(name) or machine.calls.clear())
    for _ in range(2):
        machine.main(hostname="gpu-dy-p5-1")
        assert (machine.folder / "hostname").read_text() == "gpu-dy-p5-1\n"
    assert named == ["gpu-dy-p5-1"]


def test_the_set_up_makes_a_script_executable(machine):
    machine.main(files={"prolog.d/00_x": "#!/bin/sh\n"})
    assert (machine.folder / "slurm/prolog.d/00_x").stat().st_mode & 0o777 == 0o755


def test_the_hosts_file_lists_the_other_nodes_and_keeps_foreign_lines_but_drops_former_nodes(machine, monkeypatch):
    hosts = machine.folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n10.0.0.9 gpu-dy-p5-1 # mine")
    monkeypatch.setattr(node_setup, "_HOSTS", str(hosts))
    machine.main(others={"gpu-dy-p5-2": "10.0.0.2", "gpu-dy-p5-1": "10.0.0.1"})
    machine.main(others={"gpu-dy-p5-1": "10.0.0.7"})
    assert hosts.read_text() == "127.0.0.1 localhost\n10.0.0.9 gpu-dy-p5-1 # mine\n10.0.0.7 gpu-dy-p5-1 # a node of busbar\n"


def test_running_daemons_with_unchanged_files_are_not_restarted_but_stopped_daemons_are_started(machine):
    machine.main()
    machine.main()
    assert machine.calls == [MUNGE[0], ACTIVE[0], SLURMD[0], ACTIVE[1]]
    machine.active = False
    machine.main()
    assert machine.calls == [MUNGE[0], ACTIVE[0], MUNGE[1], SLURMD[0], ACTIVE[1], SLURMD[1]]


def test_a_changed_file_restarts_slurm_and_a_changed_key_restarts_all_daemons(machine):
    machine.main()
    machine.main(files={"slurm.conf": "# ours\nClusterName=y\n"})
    assert machine.calls == [MUNGE[0], ACTIVE[0], *SLURMD]
    machine.main(files={}, units={"slurmd.service": "# ours\n[Service]\n"})
    assert machine.calls == [MUNGE[0], ACTIVE[0], "systemctl daemon-reload", *SLURMD]
    machine.main(files={}, units={"slurmd.service": "# ours\n[Service]\n"}, key=base64.b64encode(KEY[::-1]).decode())
    assert machine.calls == [*MUNGE, *SLURMD]


def test_a_controller_makes_its_own_munge_key_once_and_does_not_trust_the_key_in_the_image(machine):
    (machine.folder / "munge.key").write_bytes(b"of the image")
    made = base64.b64decode(machine.main(key="")["key"])
    assert len(made) == 1024
    assert (machine.folder / "munge.key").read_bytes() == made
    assert base64.b64decode(machine.main(key="")["key"]) == made
    (machine.folder / "slurm/slurm.conf").write_text("# somebody else's\n")
    assert base64.b64decode(machine.main(key="")["key"]) != made


def test_a_daemon_that_does_not_start_is_reported_with_its_last_output(machine):
    machine.refuses = "systemctl restart munge"
    with pytest.raises(SystemExit) as ended:
        machine.main()
    assert str(ended.value) == "systemctl restart munge: Job for munge.service failed."


def test_a_half_written_file_is_rewritten_completely(tmp_path, monkeypatch):
    monkeypatch.setattr(node_setup, "give", lambda _path, _owner: None)
    path = tmp_path / "conf"
    (tmp_path / "conf.busbar").write_text("half of a much longer text")
    assert node_setup.put(str(path), b"new", 0o644, "root")
    assert not node_setup.put(str(path), b"new", 0o644, "root")
    assert path.read_bytes() == b"new"
    assert [each.name for each in tmp_path.iterdir()] == ["conf"]


def test_a_file_gets_a_user_as_owner_and_that_users_group(tmp_path, monkeypatch):
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr(node_setup.os, "chown", lambda *words: given.append(words))
    monkeypatch.setattr(node_setup.pwd, "getpwnam", lambda _: pwd.struct_passwd(("slurm", "x", 7, 8, "", "/", "/bin/sh")))
    node_setup.give(str(tmp_path), "slurm")
    assert given == [(str(tmp_path), 7, 8)]


def test_the_error_names_a_user_that_the_packages_did_not_create(tmp_path):
    with pytest.raises(SystemExit) as ended:
        node_setup.give(str(tmp_path), "no-such-user")
    assert str(ended.value) == "there is no user no-such-user, which the packages of Slurm and munge create"
