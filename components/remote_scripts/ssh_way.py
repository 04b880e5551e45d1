"""Reaches machines over SSH: one configuration with pinned keys, and one connection to the jump host for all."""

import contextlib
import os
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

Node = Dict[str, Any]

_WINDOW = 32
#: Through a jump host with sshd's defaults, which drop connections at random from the tenth on.
_JUMP_WINDOW = 8
_POLL_S = 0.02
#: Words by which a node's later calls share the connection of the first, until none was made for so long.
_SHARED = ("-o", "ControlMaster=auto", "-o", "ControlPersist=10")
_JUMP_S = 15
_CALL_S = 60
#: A configuration file, because command-line options do not reach the jump host's connection. Only the agent may offer keys,
#: because the Commands that follow use only the agent.
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
    """How nodes are reached, what is asked of them, and until when (monotonic seconds)."""

    ssh: List[str]
    near: List[str]  # the start of a command that runs on the jump host, or here if there is none
    known: str  # file of the host keys that are known
    user: str
    hcas: List[str]
    first_boot: bool
    facts: str
    mpi: List[str]
    row: List[Any]
    accept: str
    authenticated: bool
    shares: bool  # whether each node's connection is kept open for the next call
    deadline: float


def pinned_ssh(folder: str, known: str, nodes: List[Node], jump: Optional[Dict[str, str]]) -> List[str]:
    """Return the start of an ssh command that knows these machines' keys and no others."""
    config = os.path.join(folder, "config")
    machines = [*(node for node in nodes if "host_key" in node), *([jump] if jump else [])]
    with open(known, "w") as target:
        target.writelines("{} {}\n".format(one["address"], one["host_key"]) for one in machines)
    with open(config, "w") as target:
        target.write(_CONFIG.format(known=known, folder=folder))
    return ["ssh", "-F", config]


@contextlib.contextmanager
def passing(ssh: List[str], jump: Optional[Dict[str, str]]) -> Iterator[Tuple[List[str], List[str], int]]:
    """Hold one connection to the jump host that all others pass through.

    Yield the start of a command there, ssh's start, and how many may be open at once. Where it cannot be had, each opens its
    own: they say why better, and fewer at once are not dropped.
    """
    if jump is None:
        yield [], ssh, _WINDOW
        return
    there = "{}@{}".format(jump["user"], jump["address"])
    # Its background half holds standard error open as long as it lives, so nothing is read of it.
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    held = subprocess.Popen([*ssh, "-M", "-N", there], **silent)  # type: ignore[call-overload]
    try:
        at_once = _WINDOW if _is_held(ssh, there, held) else _JUMP_WINDOW
        yield [*ssh, there], [*ssh, "-J", there], at_once
    finally:
        held.terminate()
        held.wait()


def _is_held(ssh: List[str], there: str, held: "subprocess.Popen[bytes]") -> bool:
    """Wait until the connection can be shared, or until it has failed."""
    deadline = time.monotonic() + _JUMP_S
    while held.poll() is None and time.monotonic() < deadline:
        if run_here([*ssh, "-O", "check", there], "", _JUMP_S)[0] == 0:
            return True
        time.sleep(_POLL_S)
    return False


def call(node: Node, way: Way, command: str, stdin: str) -> Tuple[int, str, str]:
    """Run `command` on a node; return its status, output and error.

    Where `way.shares`, calls before and after it pass through the same connection. That is for nodes whose first boot is over:
    while it goes on, a host key may change, and a machine that starts anew leaves a connection hanging.
    """
    shared = _SHARED if way.shares else ()
    return run_here([*way.ssh, *shared, "{}@{}".format(way.user, node["address"]), command], stdin, _CALL_S)


def words(err: str) -> str:
    """Return the last line of an error."""
    return (err.strip().splitlines() or ["no output"])[-1]


def run_here(argv: List[str], stdin: str, timeout_s: float) -> Tuple[int, str, str]:
    """Run a program on this machine; return its status (124: ended at its time limit), output and error.

    Its errors go to a file: the half of an older ssh that keeps a connection open would hold a pipe for them as long.
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
