"""A user's running processes and jobs, and what Slurm's programs report about users; the programs are stand-ins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.users import associations, busy
from scheduler.users.refusal import RefusalError


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder the only folder on PATH; return this folder."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def program(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_each_job_of_a_uid_is_listed_once(programs):
    program(
        programs,
        "squeue",
        '[ "$*" = "--noheader --user=10001 --format=%A (%T)" ] && printf "8 (RUNNING)\\n7 (PENDING)\\n7 (PENDING)\\n"',
    )
    assert busy.jobs(10001) == ["7 (PENDING)", "8 (RUNNING)"]


def test_where_slurm_is_not_installed_there_are_no_jobs(programs):
    assert busy.jobs(10001) == []
    assert not list(programs.iterdir())


def test_an_error_or_silence_of_slurm_is_reported_and_does_not_mean_that_the_user_has_no_jobs(programs, monkeypatch):
    program(programs, "squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(
        RefusalError, match="which jobs the user has: slurm_load_jobs error: Unable to contact slurm controller"
    ):
        busy.jobs(10001)
    program(programs, "squeue", "exec /bin/sleep 30")
    monkeypatch.setattr(busy, "_TIMEOUT_S", 0.2)
    with pytest.raises(RefusalError, match="did not say within"):
        busy.jobs(10001)


def test_processes_of_a_uid_are_listed_with_their_names(tmp_path, monkeypatch):
    assert any(one.startswith(f"{os.getpid()} (") for one in busy.processes(os.getuid()))
    for number in ("7", "12", "self"):
        (tmp_path / number).mkdir()
    (tmp_path / "12/comm").write_text("bash\n")  # process 7 has just exited
    monkeypatch.setattr(busy, "_PROC", str(tmp_path))
    assert busy.processes(os.getuid()) == ["12 (bash)"]
    assert busy.processes(os.getuid() + 1) == []


def test_an_existing_association_is_no_error_but_any_other_failure_is_an_error(programs):
    program(programs, "sacctmgr", f'echo "$*" >> {programs}/calls; echo " Nothing new added."; exit 1')
    associations.add("busbar", ["alice", "bob"])
    associations.add("busbar", [])
    calls = (programs / "calls").read_text().splitlines()
    account = "--immediate add account users cluster=busbar description=users of the cluster organization=busbar"
    assert calls == [account, "--immediate add user name=alice,bob account=users cluster=busbar", account]
    program(programs, "sacctmgr", 'echo "first"; echo "sacctmgr: error: no connection"; exit 1')
    with pytest.raises(RefusalError, match=r"^sacctmgr delete user: sacctmgr: error: no connection$"):
        associations.delete("busbar", "alice")
