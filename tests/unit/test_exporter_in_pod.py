"""The exporter in a pod: it answers, moves to another port and leaves no trace; other processes keep running."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from components import remote_scripts

pytestmark = pytest.mark.programs
EXPORTER = remote_scripts.read("rdma_exporter").source + '\n\nif __name__ == "__main__":\n    main(sys.argv[1:])\n'


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def called(home: Path, program: str = EXPORTER, **ask: Any) -> subprocess.CompletedProcess[str]:
    text = remote_scripts.read("exporter_in_pod").call(program=program, ask={"exporter": True, "readers": []} | ask)
    argv = [sys.executable, "-IS", "-", "127.0.0.1"]
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    return subprocess.run(argv, input=text, capture_output=True, text=True, timeout=60, check=False, env=environment)


def metrics(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def pid(home: Path) -> int:
    return int((home / ".busbar/exporter/pid").read_text())


def runs(number: int) -> bool:
    try:
        return b"rdma_exporter" in Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False


def test_an_exporter_in_a_pod_can_be_moved_to_another_port_and_removed_without_a_trace(tmp_path):
    first, second = free_port(), free_port()
    try:
        assert json.loads(called(tmp_path, port=first).stdout) == {"there": True}
        assert "busbar_rdma_collect_seconds" in metrics(first)
        old = pid(tmp_path)
        assert json.loads(called(tmp_path, port=second).stdout) == {"there": True}
        assert not runs(old)
        assert "busbar_rdma_collect_seconds" in metrics(second)
        new = pid(tmp_path)
    finally:
        ended = called(tmp_path, "", port=second, exporter=False)
    assert json.loads(ended.stdout) == {"there": False}
    assert not runs(new)
    assert not (tmp_path / ".busbar/exporter").exists()


def test_an_exporter_that_exits_at_once_is_reported_with_the_path_of_its_log(tmp_path, monkeypatch):
    program = remote_scripts.read("exporter_in_pod").source.replace("_ANSWERS_S = 15", "_ANSWERS_S = 1")
    monkeypatch.setattr(remote_scripts, "read", lambda _: remote_scripts.Program(program))
    found = called(tmp_path, "raise SystemExit('no')", port=free_port())
    assert found.returncode == 1
    assert "/metrics did not answer with success within 1 s: " in found.stderr
    assert f"see {tmp_path}/.busbar/exporter/log in the pod" in found.stderr
    assert (tmp_path / ".busbar/exporter/log").read_text() == "no\n"


def test_another_process_with_the_pid_of_an_old_exporter_keeps_running(tmp_path):
    folder = tmp_path / ".busbar/exporter"
    folder.mkdir(parents=True)
    (folder / "pid").write_text(str(os.getpid()))
    assert json.loads(called(tmp_path, "", port=1, exporter=False).stdout) == {"there": False}
