"""The programs of a controller as Slurm, systemd and an update call them, and the single file that contains them all."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zipfile
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from elastic import FakeCloud, FakeSlurm, Steps
from wait_until import wait_until

from scheduler import hostlist, programs, slurm_conf
from scheduler.elastic import __main__ as program
from scheduler.elastic import entry, join, settings, spool, sweep
from scheduler.elastic.cloud import Launch
from scheduler.elastic.state import only_one
from scheduler.elastic.work import CLOSED

CONFIGURATION = {
    "sets": {"gpu/p5": {"queue": "gpu", "name": "p5", "dynamic": 4, "start_timeout_s": 1800, "spec": {"template": "lt-1"}}},
    "cloud": {"name": "fake", "tags": {"busbar:stack": "s"}},
    "join": {"user": "ubuntu", "identity": "/srv/key", "known_hosts": "/srv/known", "controller": "10.0.0.9"},
    "static": {"gpu-st-p5-1": ["i-st1", "10.1.0.1"]},
}


class Installed:
    """The programs, installed in the test's own folder; `run` calls them as the command `elastic.pyz WORDS` does."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.cloud = folder, FakeCloud(Steps())
        (folder / "wanted").mkdir()
        (folder / "elastic.json").write_text(json.dumps(CONFIGURATION))
        patch.setattr(settings, "FOLDER", str(folder))
        load = settings.load
        patch.setattr(settings, "load", lambda: load(str(folder / "elastic.json")))
        patch.setattr(program, "_CLOUDS", {"fake": lambda given: self.cloud if given["tags"] else None})
        slurm = FakeSlurm(Steps(), [f"gpu-dy-p5-{number}" for number in range(1, 5)], folder / "wanted")
        patch.setattr(program, "Slurm", lambda: slurm)
        patch.setattr(join, "over_ssh", lambda given: lambda *_: "" if given["user"] == "ubuntu" else "?")
        patch.setattr(join, "reaches", lambda given: lambda *_: "" if given["user"] == "ubuntu" else "?")
        patch.setattr("scheduler.node_setup.know", lambda *_: None)
        patch.setattr(entry, "_POLL_S", 0.01)
        self.slurm = slurm

    def run(self, *words: str) -> int:
        if words[0] == "resume":
            self.slurm.allocate(hostlist.names(words[1]))
        return program.main(list(words))


@pytest.fixture
def head(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    return Installed(tmp_path, monkeypatch)


def test_a_call_by_slurm_is_recorded_and_carried_out_by_the_next_run_of_reconcile(head, monkeypatch, tmp_path):
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps({"jobs": [{"job_id": 7, "nodes_resume": "gpu-dy-p5-[1-2]"}]}))
    monkeypatch.setenv("SLURM_RESUME_FILE", str(jobs))
    assert head.run("resume", "gpu-dy-p5-[1-2]") == 0
    (wish,) = spool.read(str(tmp_path / "wanted"))
    assert wish.groups == (spool.Group("7", ("gpu-dy-p5-1", "gpu-dy-p5-2")),)
    assert not head.cloud.calls
    assert head.run("reconcile") == 0
    assert len(head.cloud.running) == 2


def test_a_suspended_node_is_terminated_by_the_next_run_of_reconcile(head):
    head.slurm.start(("7", ["gpu-dy-p5-1"]))
    head.run("reconcile")
    head.run("suspend", "gpu-dy-p5-1")
    head.run("reconcile")
    assert not head.cloud.running


def test_if_slurms_file_of_jobs_cannot_be_read_the_nodes_are_requested_without_a_job(head, monkeypatch, tmp_path):
    monkeypatch.setenv("SLURM_RESUME_FILE", "/proc/1/fd/none")
    head.run("resume", "gpu-dy-p5-1")
    (wish,) = spool.read(str(tmp_path / "wanted"))
    assert wish.groups == (spool.Group("", ("gpu-dy-p5-1",)),)


def test_a_run_of_reconcile_that_starts_during_another_run_does_nothing_and_reports_the_other_run(head, capsys, tmp_path):
    head.run("resume", "gpu-dy-p5-1")
    with only_one(str(tmp_path / "lock")) as mine:
        assert mine
        assert head.run("reconcile") == 0
    assert capsys.readouterr().out == "another run is at work and carries out the requests\n"
    assert not head.cloud.calls
    head.run("reconcile")
    assert head.cloud.started == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("", "Expecting value"),
        ("[]", "it is not JSON that these programs wrote"),
        ('{"schema": 1}', "it is not JSON that these programs wrote"),
        ('{"schema": 1, "batches": {"a1": 1}}', "it is not JSON that these programs wrote"),
        (b"\xff", "can't decode byte"),
        ('{"schema": 0}', "another version of these programs wrote it"),
        (None, "Is a directory"),
    ],
)
def test_a_run_of_reconcile_whose_state_cannot_be_read_fails_and_names_the_file_and_the_remedy(head, capsys, content, why):
    head.run("resume", "gpu-dy-p5-1")
    head.run("reconcile")
    path = head.folder / "state.json"
    path.unlink()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    capsys.readouterr()
    assert head.run("reconcile") == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{path} cannot be read, so no machine is started or terminated, and machines that run are billed: ")
    assert why in said
    assert f"`sudo mv {path} {path}.unreadable`" in said
    assert head.cloud.running
    path.rename(f"{path}.unreadable")
    head.run("reconcile")
    assert not head.cloud.running


def test_a_sweep_terminates_all_machines_and_afterwards_no_machine_starts(head, monkeypatch):
    monkeypatch.setattr(sweep, "_POLL_S", 0.01)
    head.run("resume", "gpu-dy-p5-[1-2]")
    head.run("reconcile")
    late, listing = head.cloud.machines.pop("i-0002"), head.cloud.listing

    def listed_later() -> Any:
        found = listing()
        head.cloud.machines.setdefault("i-0002", late)
        return found

    monkeypatch.setattr(head.cloud, "listing", listed_later)
    assert head.run("sweep") == 0
    assert len(head.cloud.machines) == 2
    assert not head.cloud.running
    head.run("resume", "gpu-dy-p5-3")
    head.run("reconcile")
    assert not head.cloud.running


def test_a_sweep_waits_for_a_run_of_reconcile_in_progress_and_then_terminates_all_machines(head, tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "_POLL_S", 0.01)
    head.run("resume", "gpu-dy-p5-[1-2]")
    head.run("reconcile")
    found: list[int] = []
    with only_one(str(tmp_path / "lock")) as mine:
        assert mine
        sweeping = threading.Thread(target=lambda: found.append(head.run("sweep")))
        sweeping.start()
        wait_until((tmp_path / CLOSED).exists, "nothing is started any more")
        assert len(head.cloud.running) == 2
    sweeping.join(30)
    assert found == [0]
    assert not head.cloud.running


def test_a_sweep_that_waits_in_vain_for_another_run_fails_and_says_that_machines_may_still_run(
    head, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(program, "_RUN_ENDS_S", 0)
    with only_one(str(tmp_path / "lock")):
        assert head.run("sweep") == 1
    assert capsys.readouterr().out.startswith("machines that Slurm started may still run, because another run of ")
    assert not head.cloud.calls


@pytest.mark.usefixtures("head")
def test_the_sets_and_static_nodes_of_the_configuration_are_read():
    known = settings.load()
    assert known.sets["gpu/p5"].nodes == [f"gpu-dy-p5-{number}" for number in range(1, 5)]
    assert known.static == {"gpu-st-p5-1": ("i-st1", "10.1.0.1")}
    assert Launch("t", "gpu/p5", 1, 1, known.sets["gpu/p5"].spec).spec == {"template": "lt-1"}


def test_the_single_file_runs_and_contains_the_programs_that_are_sent_to_nodes(tmp_path):
    packed = tmp_path / "elastic.pyz"
    packed.write_bytes(programs.archive())
    lines = [f"import sys; sys.path.insert(0, {str(packed)!r})", "from scheduler.elastic import __main__, join"]
    script = "\n".join([*lines, "print(join.setup_program())"])
    ran = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "def know(path" in ran.stdout


def test_the_single_file_contains_all_programs_and_has_the_same_bytes_when_it_is_packed_again():
    packed = programs.archive()
    assert packed == programs.archive()
    names = zipfile.ZipFile(BytesIO(packed)).namelist()
    here = Path(program.__file__).parent
    assert {f"scheduler/elastic/{path.name}" for path in here.glob("*.py")} <= set(names)
    assert {"__main__.py", "scheduler/__init__.py", "scheduler/node_setup.py", "scheduler/hostlist.py"} <= set(names)


def test_slurm_calls_the_programs_of_slurm_conf_with_the_nodes_as_one_argument():
    named = set(programs.wrappers())
    assert named == {f"{slurm_conf.PROGRAMS}/busbar-{verb}" for verb in ("resume", "suspend", "resume-failed")}
    assert all(text.startswith("#!/bin/sh\n") and text.endswith('"$1"\n') for text in programs.wrappers().values())


def test_the_timer_starts_the_next_run_after_a_run_ends_and_each_run_has_a_time_limit():
    units: dict[str, Any] = programs.timers()
    assert "OnUnitInactiveSec=5\n" in units["busbar-slurm.timer"]
    assert "Type=oneshot\n" in units["busbar-slurm.service"]
    assert "TimeoutStartSec=600\n" in units["busbar-slurm.service"]
    assert f"ExecStart=/usr/bin/env python3 {programs.ARCHIVE} reconcile\n" in units["busbar-slurm.service"]


def test_a_separate_timer_starts_the_tests_of_new_machines_in_a_service_without_a_time_limit():
    units: dict[str, Any] = programs.timers()
    assert "OnUnitInactiveSec=5\n" in units["busbar-entry.timer"]
    assert f"ExecStart=/usr/bin/env python3 {programs.ARCHIVE} entry-tests\n" in units["busbar-entry.service"]
    assert "TimeoutStartSec=infinity\n" in units["busbar-entry.service"]


def test_pending_tests_of_new_machines_run_while_reconcile_holds_the_lock(head, monkeypatch, tmp_path):
    monkeypatch.setattr(entry, "over_ssh", lambda load: lambda *_: entry.Outcome("", {}, {"gpu-dy-p5-1": load().join["user"]}))
    desk = entry.Desk(str(tmp_path / entry.FOLDER))
    desk.ask("a1", "gpu/p5", [])
    with only_one(str(tmp_path / "lock")):
        assert head.run("entry-tests") == 0
    assert desk.outcome("a1") == entry.Outcome("", {}, {"gpu-dy-p5-1": "ubuntu"})


def test_the_check_of_a_new_machine_only_asks_whether_the_machines_first_boot_has_ended(monkeypatch):
    sent: list[Any] = []

    def run(words: list[str], **given: Any) -> SimpleNamespace:
        sent.append((words, given["input"].decode()))
        return SimpleNamespace(returncode=1, stderr=b"its first boot has not finished\n")

    monkeypatch.setattr(join.subprocess, "run", run)
    reach = join.reaches({**CONFIGURATION["join"], "booted": "/var/lib/busbar/boot.json"})
    assert reach("gpu-dy-p5-1", "i-1", "10.0.0.1", {}) == "its first boot has not finished"
    ((words, program_text),) = sent
    assert "HostKeyAlias=i-1" in words
    assert program_text.endswith("\nawait_first_boot('/var/lib/busbar/boot.json')\n")


def test_a_node_gets_its_name_key_and_unit_and_other_nodes_addresses_and_no_argument_of_ssh_contains_the_key():
    given = join.setup("gpu-dy-p5-1", b"munge", "10.0.0.9", {"gpu-dy-p5-2": "10.0.0.2"})
    assert (given["hostname"], given["others"]) == ("gpu-dy-p5-1", {"gpu-dy-p5-2": "10.0.0.2"})
    assert given["key"] == "bXVuZ2U="
    assert "--conf-server 10.0.0.9:6820\n" in given["units"]["slurmd.service"]
    words = join.words_of_ssh(CONFIGURATION["join"], "i-1")
    assert "HostKeyAlias=i-1" in words
    assert "StrictHostKeyChecking=accept-new" in words
    assert "bXVuZ2U=" not in " ".join(words)
