"""Programs of components/remote_scripts, run on this machine: how long they wait, and what they report."""

from __future__ import annotations

import ast
import json
import socket
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import pytest

from components import remote_scripts

pytestmark = pytest.mark.programs


def server(*greetings: bytes) -> int:
    """Serve on a free port, and return the port.

    The first connection gets the first of `greetings`, and so on; when all are used, each connection gets the last greeting.
    """
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(8)

    def serve() -> None:
        at = 0
        while True:
            connection, _ = listening.accept()
            connection.sendall(greetings[min(at, len(greetings) - 1)])
            connection.close()
            at += 1

    threading.Thread(target=serve, daemon=True).start()
    return int(listening.getsockname()[1])


def wait(port: int, timeout_s: float) -> subprocess.CompletedProcess[str]:
    program = remote_scripts.read("wait_for_banner").call(
        host="127.0.0.1", announcement="busbar-ready", failure="busbar-failed:", timeout_s=timeout_s
    )
    program = program.replace("(host, 22)", f"(host, {port})")
    return subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_includes_a_file_only_once_even_if_several_parts_import_the_file():
    program = ast.parse(remote_scripts.read("first_contact").source)
    names = [one.name for one in program.body if isinstance(one, ast.FunctionDef | ast.ClassDef)]
    assert len(names) == len(set(names))
    assert {"call", "look", "join", "main"} <= set(names)


def test_the_wait_for_a_host_lasts_until_the_host_announces_itself():
    found = wait(server(b"SSH-2.0-OpenSSH_7.4\r\n", b"SSH-2.0-OpenSSH_7.4 busbar-ready\r\n"), 20)
    assert found.returncode == 0
    assert json.loads(found.stdout) == {"announced": "busbar-ready", "host": "127.0.0.1"}


def test_a_failed_first_boot_stops_the_wait_and_names_the_failed_step():
    found = wait(server(b"SSH-2.0-OpenSSH_9.2p1\r\n", b"SSH-2.0-OpenSSH_9.2p1 busbar-failed:publish-host-key\r\n"), 20)
    assert found.returncode == 0, "the next Command, which can log in, reports why the first boot failed"
    assert json.loads(found.stdout) == {"failed": "publish-host-key", "host": "127.0.0.1"}


def test_if_a_host_never_announces_itself_the_wait_fails_and_its_error_quotes_the_hosts_last_greeting():
    found = wait(server(b"SSH-2.0-OpenSSH_7.4\r\n"), 2)
    assert found.returncode == 1
    assert "127.0.0.1 did not finish its first boot within 2 s; its last state: SSH-2.0-OpenSSH_7.4" in found.stderr


def test_the_error_for_a_closed_port_names_the_key_of_the_stack_file_to_check():
    found = wait(1, 1)
    assert found.returncode == 1
    assert "no answer on TCP port 22" in found.stderr
    assert "If it never answered, check access.sshFrom" in found.stderr


def test_a_host_that_accepts_connections_but_sends_nothing_does_not_extend_the_wait():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = wait(silent.getsockname()[1], 1)
    assert found.returncode == 1
    assert "did not finish its first boot within 1 s; its last state: no answer on TCP port 22 (timed out)" in found.stderr


@pytest.mark.parametrize(
    ("later_s", "zone", "status", "said"),
    [
        (-60, "Z", 0, ""),
        (1, ".000Z", 0, " s until cr-1 begins at {start}.000Z"),
        (7200, "+00:00", 1, "cr-1 begins at {start}+00:00"),
    ],
)
def test_an_update_waits_for_capacity_that_begins_soon_and_fails_with_the_date_if_it_is_far(later_s, zone, status, said):
    start = datetime.now(UTC) + timedelta(seconds=later_s + 0.9)
    program = remote_scripts.read("wait_until").call(start=f"{start:%Y-%m-%dT%H:%M:%S}{zone}", what="cr-1", limit_s=1800)
    found = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == status
    assert said.format(start=f"{start:%Y-%m-%dT%H:%M:%S}") in found.stderr
    assert ("use static: 0 until then" in found.stderr) == bool(status)
    assert bool(found.stderr) == bool(said)


@pytest.mark.parametrize("name", ["wait_for_banner", "first_contact"])
def test_no_argument_is_executed_as_code(name):
    hostile = '\'); import os; os.abort() #\n"""\\'
    program = remote_scripts.read(name).call(nodes=[], host=hostile)
    call = program.splitlines()[-1]
    assert eval(call.replace("main(**", "dict(**"), {"json": json, "dict": dict}) == {"nodes": [], "host": hostile}  # noqa: S307
