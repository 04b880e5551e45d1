"""The lock of a killed update is removed; the lock of a running update, or of an update on another machine, stays."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

import pytest
from child_process import started

from tools import unlock


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """Return a function that locks the stack dev for a process, and returns the backend and the commands that ran."""
    ran: list[list[str]] = []
    monkeypatch.setattr(unlock.subprocess, "run", lambda words, **_: ran.append(words))

    def backend(pid: int, hostname: str = socket.gethostname()):
        place = tmp_path / ".pulumi" / "locks" / "organization" / "busbar" / "dev"
        place.mkdir(parents=True)
        said = {"pid": pid, "username": "root", "hostname": hostname, "timestamp": "2026-11-22T21:00:00Z"}
        (place / "1.json").write_text(json.dumps(said))
        return f"file://{tmp_path}", ran

    return backend


def gone() -> int:
    """Return the process id of a process that has exited."""
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    return ended.pid


def test_the_lock_of_a_killed_update_is_removed_and_reported(locked):
    pid = gone()
    backend, ran = locked(pid)
    said = unlock.unlock(backend, "dev")
    assert (
        said == "the lock is lifted, because its owner is gone: "
        f"process {pid} of root on {socket.gethostname()}, since 2026-11-22T21:00:00Z"
    )
    assert ran == [["pulumi", "cancel", "--yes", "--stack", "dev"]]


def test_a_lock_is_removed_if_another_program_now_has_the_process_id_of_the_killed_engine(locked):
    backend, ran = locked(1)  # process 1 is never a pulumi
    unlock.unlock(backend, "dev")
    assert len(ran) == 1


def test_the_lock_of_a_running_update_stays(locked, tmp_path):
    engine = tmp_path / "pulumi"
    engine.symlink_to("/bin/sleep")
    with started([str(engine), "60"]) as running:
        while Path(f"/proc/{running.pid}/comm").read_text() != "pulumi\n":  # the name appears a moment after the start
            time.sleep(0.01)
        backend, ran = locked(running.pid)
        with pytest.raises(unlock.RefusedError, match=f"an update is at work: process {running.pid}"):
            unlock.unlock(backend, "dev")
    assert ran == []


def test_the_lock_of_an_engine_on_another_machine_stays(locked):
    backend, ran = locked(1, "elsewhere")
    with pytest.raises(unlock.RefusedError, match="look on that machine"):
        unlock.unlock(backend, "dev")
    assert ran == []


def test_nothing_is_done_to_a_stack_that_is_not_locked(tmp_path):
    assert unlock.unlock(f"file://{tmp_path}", "dev") == "dev is not locked"


def test_the_command_pulumi_cancel_is_named_for_a_backend_outside_this_machine():
    with pytest.raises(unlock.RefusedError, match="`pulumi cancel --stack dev`"):
        unlock.unlock("s3://bucket", "dev")


def test_a_lock_stays_if_the_system_does_not_show_which_processes_run(locked, monkeypatch, tmp_path):
    backend, ran = locked(gone())
    monkeypatch.setattr(unlock, "_PROCESSES", tmp_path / "no such folder")
    with pytest.raises(unlock.RefusedError, match="without /proc nobody can tell whether this process runs"):
        unlock.unlock(backend, "dev")
    assert not ran
