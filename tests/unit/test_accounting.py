"""Slurm's database of jobs: the text of its files, and the steps of its set-up, run on files in a temporary folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler import accounting, accounting_setup, commands, node_setup
from scheduler.cluster import Cluster, Cores, Gpus, Hardware, NodeSet, Queue
from scheduler.files import files

NODES = NodeSet("h100", Hardware(Cores(2, 56, 2), 2_000_000, Gpus("h100", 8, "/dev/nvidia[0-7]")), [], 16)
CLUSTER = Cluster("busbar", "head", "10.0.0.2", [Queue("gpu", [NODES], default=True)], cgroups=True)


def test_accounting_adds_exactly_its_own_lines_to_slurm_conf_and_changes_no_other_file():
    without = files(CLUSTER)
    assert not [line for line in "".join(without.values()).splitlines() if line.startswith(("Accounting", "JobAcct"))]
    having = files(CLUSTER._replace(accounting=True))
    new = set(having["slurm.conf"].splitlines()) - set(without["slurm.conf"].splitlines())
    assert new == {
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=10.0.0.2",
        "AccountingStorageTRES=gres/gpu",
        "JobAcctGatherType=jobacct_gather/cgroup",
        "JobAcctGatherFrequency=30",
    }
    assert set(without["slurm.conf"].splitlines()) < set(having["slurm.conf"].splitlines())
    assert {name: text for name, text in having.items() if name != "slurm.conf"} == {
        name: text for name, text in without.items() if name != "slurm.conf"
    }


def test_without_control_groups_the_usage_of_jobs_is_gathered_from_their_processes():
    conf = files(CLUSTER._replace(accounting=True, cgroups=False))["slurm.conf"]
    assert "JobAcctGatherType=jobacct_gather/linux" in conf.splitlines()


def test_mariadb_does_not_listen_on_the_network_and_no_file_has_a_password():
    document = accounting.document(CLUSTER, "# mark")
    text = "".join(document.values()) + accounting.statements()
    assert "Pass" not in text
    assert "identified by" not in text
    assert "identified via unix_socket" in accounting.statements()
    assert "skip-networking" in document["mariadb_conf"].splitlines()
    assert {"StorageHost=localhost", "DbdHost=head", "DbdAddr=10.0.0.2"} <= set(document["slurmdbd_conf"].splitlines())


class Machine:
    """A controller.

    Attributes:
        has: names of the programs that are installed.
        calls: the commands that ran, in order.
        answers: program -> its next answers.
    """

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.has = {"mariadb", "slurmdbd", "sacctmgr"}
        self.calls: list[str] = []
        self.answers: dict[str, list[tuple[int, str]]] = {}
        self.now = 0.0
        (folder / "conf.d").mkdir()
        patch.setattr(accounting, "CONF", str(folder / "slurmdbd.conf"))
        patch.setattr(accounting_setup, "_UNITS", str(folder / "units"))
        patch.setattr(accounting_setup, "_MARIADB_CONF", (str(folder / "none"), str(folder / "conf.d")))
        patch.setattr(accounting_setup.shutil, "which", lambda name: name if name in self.has else None)
        patch.setattr(accounting_setup.time, "monotonic", lambda: self.now)
        patch.setattr(accounting_setup.time, "sleep", self._sleep)
        patch.setattr(node_setup.pwd, "getpwnam", lambda _: SimpleNamespace(pw_uid=os.getuid(), pw_gid=os.getgid()))
        patch.setattr(commands, "run", self._run)
        patch.setattr(node_setup, "run", lambda *words, **_: self._run(list(words)).returncode)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _run(self, words: list[str], given: str = "") -> Any:
        self.calls.append(" ".join(words) + (" < statements" if given == accounting.statements() else ""))
        left = self.answers.get(words[0], [])
        status, said = left.pop(0) if len(left) > 1 else (left or [(0, "")])[0]
        return SimpleNamespace(returncode=status, stdout=said.encode())

    def set_up(self) -> None:
        self.calls.clear()
        accounting_setup.set_up(accounting.document(CLUSTER, "# mark"))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_the_first_set_up_starts_slurmdbd_and_adds_the_cluster_but_the_second_restarts_nothing(machine, tmp_path):
    machine.set_up()
    order = ["systemctl restart mariadb", "mariadb --batch < statements", "systemctl restart slurmdbd.service"]
    at = [machine.calls.index(call) for call in [*order, "sacctmgr --immediate add cluster busbar"]]
    assert at == sorted(at)
    assert stat.S_IMODE((tmp_path / "slurmdbd.conf").stat().st_mode) == 0o600
    document, unit = accounting.document(CLUSTER, "# mark"), tmp_path / "units" / accounting.UNIT
    assert unit.read_text() == document["unit"]
    assert stat.S_IMODE(unit.stat().st_mode) == 0o644
    assert (tmp_path / "conf.d" / "90-busbar.cnf").read_text() == document["mariadb_conf"]
    assert machine.calls.index("systemctl daemon-reload") < at[2]
    machine.set_up()
    assert not [call for call in machine.calls if "restart" in call]


def test_set_up_waits_for_a_mariadb_and_a_slurmdbd_that_start_slowly(machine):
    machine.answers = {
        "mariadb": [(1, "no socket")] * 9 + [(0, "")],
        "sacctmgr": [(1, "refused")] * 9 + [(1, " already exists\n")],
    }
    machine.set_up()
    assert machine.calls.count("mariadb --batch < statements") == 10
    assert machine.calls.count("sacctmgr --immediate add cluster busbar") == 10


def test_an_old_mariadb_gets_the_plugin_unix_socket_before_the_statements_are_run_again(machine):
    machine.answers = {"mariadb": [(1, "ERROR 1524 (HY000): Plugin 'unix_socket' is not loaded"), (0, ""), (0, "")]}
    machine.set_up()
    asked = [call for call in machine.calls if call.startswith("mariadb")]
    assert asked == ["mariadb --batch < statements", "mariadb --batch", "mariadb --batch < statements"]


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("mariadb", "MariaDB did not create Slurm's database within 60 s: it is broken"),
        ("sacctmgr", "slurmdbd did not answer within 60 s: it is broken; see /var/log/slurm/slurmdbd.log"),
    ],
)
def test_a_program_that_keeps_failing_ends_the_set_up_with_the_last_line_of_its_output(machine, program, sentence):
    machine.answers = {program: [(1, "first\nit is broken\n")]}
    with pytest.raises(SystemExit) as ended:
        machine.set_up()
    assert str(ended.value) == sentence


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        ("mariadb", "there is no mariadb, which Slurm's database of jobs needs; install mariadb-server"),
        ("slurmdbd", "there is no slurmdbd, which Slurm's database of jobs needs; install slurmdbd"),
        ("sacctmgr", "there is no sacctmgr, which Slurm's database of jobs needs; install slurm-client"),
    ],
)
def test_a_missing_program_is_named_with_its_package(machine, program, sentence):
    machine.has.remove(program)
    with pytest.raises(SystemExit) as ended:
        machine.set_up()
    assert str(ended.value) == sentence
    assert not machine.calls


def test_a_mariadb_client_that_is_named_mysql_is_used(machine):
    machine.has = {"mysql", "slurmdbd", "sacctmgr"}
    machine.set_up()
    assert "mysql --batch < statements" in machine.calls
