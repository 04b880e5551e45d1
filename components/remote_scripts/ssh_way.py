"""Runs commands on nodes over SSH, with pinned host keys and one shared connection to the jump host."""

import contextlib
import os
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

Node = Dict[str, Any]

#: How many connections to nodes may be opened at the same time.
_WINDOW = 32
#: Replaces `_WINDOW` if each connection to a node needs its own connection to the jump host. The limit is below ten: if ten or
#: more connections have not logged in yet, sshd drops connections at random (sshd_config(5), default of MaxStartups).
_JUMP_WINDOW = 8
_POLL_S = 0.02
#: Options with which later calls to a node use the first call's connection. That connection closes after 10 s without a call.
_SHARED = ("-o", "ControlMaster=auto", "-o", "ControlPersist=10")
_JUMP_S = 15
_CALL_S = 60
#: Text of ssh's configuration file. Options on the command line are not enough: ssh does not apply them to the connection to
#: the jump host (-J). ssh offers only the SSH agent's keys, just as the stack's remote Commands do.
_CONFIG = """Host *
  BatchMode yes
  StrictHostKeyChecking yes
  UserKnownHostsFile {known}
  GlobalKnownHostsFile /dev/null
  UpdateHostKeys no
  IdentityFile none
  ConnectTimeout 10
  ServerAliveInterval 15
  ControlPath {folder}/%C
"""


class Way(NamedTuple):
    """How to reach the nodes, what to check there, and how long to wait.

    `first_contact.main` explains the fields that have no comment here.
    """

    ssh: List[str]  # first arguments of a command that runs on a node
    near: List[str]  # first arguments of a command that runs on the jump host; empty without a jump host
    known: str  # known_hosts file with the host keys known so far
    user: str
    hcas: List[str]
    first_boot: bool
    facts: str
    mpi: List[str]
    row: List[Any]
    accept: str
    authenticated: bool
    shares: bool  # whether a node's connection stays open for the next call
    deadline: float  # when to stop waiting, on the monotonic clock


def pinned_ssh(folder: str, known: str, nodes: List[Node], jump: Optional[Dict[str, str]]) -> List[str]:
    """Return the first arguments of an ssh command that accepts the pinned host keys of these machines and no other keys."""
    config = os.path.join(folder, "config")
    machines = [*(node for node in nodes if "host_key" in node), *([jump] if jump else [])]
    with open(known, "w") as target:
        target.writelines("{} {}\n".format(one["address"], one["host_key"]) for one in machines)
    with open(config, "w") as target:
        target.write(_CONFIG.format(known=known, folder=folder))
    return ["ssh", "-F", config]


@contextlib.contextmanager
def passing(ssh: List[str], jump: Optional[Dict[str, str]]) -> Iterator[Tuple[List[str], List[str], int]]:
    """Keep one connection to the jump host open, which all connections to nodes go through.

    Yields the first arguments of a command that runs on the jump host (empty without a jump host), the first arguments of an
    ssh command to a node, and how many commands may run at the same time. If the shared connection fails, each command opens
    a connection of its own to the jump host, and the command's error names the cause. In that case, fewer commands may run at
    the same time, so that sshd drops no connection.
    """
    if jump is None:
        yield [], ssh, _WINDOW
        return
    there = "{}@{}".format(jump["user"], jump["address"])
    # This ssh process would keep this program's standard error open as long as ssh runs, so it gets no stream of this program.
    no_streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    held = subprocess.Popen([*ssh, "-M", "-N", there], **no_streams)  # type: ignore[call-overload]
    try:
        at_once = _WINDOW if _is_held(ssh, there, held) else _JUMP_WINDOW
        yield [*ssh, there], [*ssh, "-J", there], at_once
    finally:
        held.terminate()
        held.wait()


def _is_held(ssh: List[str], there: str, held: "subprocess.Popen[bytes]") -> bool:
    """Wait for the connection to the jump host; return True once it can be shared, False if it failed or took too long."""
    deadline = time.monotonic() + _JUMP_S
    while held.poll() is None and time.monotonic() < deadline:
        if run_here([*ssh, "-O", "check", there], "", _JUMP_S)[0] == 0:
            return True
        time.sleep(_POLL_S)
    return False


def call(node: Node, way: Way, command: str, stdin: str) -> Tuple[int, str, str]:
    """Run `command` on a node; return its exit status, standard output and standard error.

    If `way.shares`, all calls to a node use one connection. Set `way.shares` only once first boot has finished: before that,
    the host key may still change, and a reboot would leave the connection hanging.
    """
    shared = _SHARED if way.shares else ()
    return run_here([*way.ssh, *shared, "{}@{}".format(way.user, node["address"]), command], stdin, _CALL_S)


def words(err: str) -> str:
    """Return the last line of standard error, or "no output" if standard error is empty."""
    return (err.strip().splitlines() or ["no output"])[-1]


def run_here(argv: List[str], stdin: str, timeout_s: float) -> Tuple[int, str, str]:
    """Run a program on this machine; return its exit status, standard output and standard error.

    The exit status is 124 if the program ran longer than `timeout_s`. Standard error goes to a file, not to a pipe: older
    versions of ssh keep a shared connection open in a background process, which would also keep the pipe open.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8", errors="replace"
        )
        try:
            out, _ = process.communicate(stdin, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return 124, "", f"no answer within {timeout_s:.0f} s"
        errors.seek(0)
        return process.returncode, out, errors.read().decode("utf-8", "replace")
