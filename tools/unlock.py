"""Remove the lock that a killed update left on a stack: python -m tools.unlock STACK.

The lock of a running engine stays, because two concurrent updates would corrupt the state. Whether the engine runs is known
only for a backend in a folder on this machine; for other backends type `pulumi cancel` once no update is running.
The engine writes the lock file (pulumi 3.259.0, pkg/backend/diy/lock.go: pid, username, hostname, timestamp).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.stack_commands import PROJECT, RefusedError, ended

#: Where Linux shows a process's name and state: FOLDER/PID/stat.
_PROCESSES = Path("/proc")


def locks(backend: str, stack: str) -> list[dict[str, Any]]:
    """Return the contents of the locks of `stack` in a backend `file://FOLDER`; empty for a lock that cannot be read.

    Raises:
        RefusedError: the backend is not in a local folder.
    """
    scheme, _, folder = backend.partition("://")
    if scheme != "file":
        raise RefusedError(
            f"the backend {scheme} is not a folder of this machine; once no update runs, type `pulumi cancel --stack {stack}`"
        )
    found = Path(folder).expanduser().glob(f".pulumi/locks/organization/{PROJECT}/{stack}/*.json")
    return [_read(path) for path in sorted(found)]


def _read(path: Path) -> dict[str, Any]:
    """Return a lock's content; empty if the content is truncated, as after a power failure or on a full disk."""
    try:
        lock = json.loads(path.read_text())
    except ValueError:
        return {}
    whole = isinstance(lock, dict) and lock.keys() >= {"pid", "username", "hostname", "timestamp"}
    return lock if whole and isinstance(lock["pid"], int) else {}


def dead(lock: dict[str, Any]) -> str:
    """Return the message about a lock whose engine is gone.

    Raises:
        RefusedError: the engine still runs, or is on another machine, so that this machine cannot tell whether it runs.
    """
    if not lock:
        return _unreadable()
    who = f"process {lock['pid']} of {lock['username']} on {lock['hostname']}, since {lock['timestamp']}"
    if lock["hostname"] != socket.gethostname():
        raise RefusedError(
            f"the lock belongs to {who}; look on that machine, and type `pulumi cancel` if the process has ended"
        )
    if not _PROCESSES.is_dir():
        raise RefusedError(
            f"the lock belongs to {who}; without /proc nobody can tell whether this process runs: look, and type "
            "`pulumi cancel` if it has ended"
        )
    if _is_engine(str(lock["pid"])):
        raise RefusedError(f"an update is at work: {who}; end the update with Ctrl-C, and the update lifts its lock")
    return f"the lock is lifted, because its owner is gone: {who}"


def _unreadable() -> str:
    """Return the message about a lock that does not say whose it is.

    Raises:
        RefusedError: some engine runs on this machine, or this machine cannot tell.
    """
    if not _PROCESSES.is_dir() or any(_is_engine(one.name) for one in _PROCESSES.iterdir() if one.name.isdigit()):
        raise RefusedError("the lock's file is truncated (was the disk full?); type `pulumi cancel` when no update runs")
    return "the lock is lifted, because its file is truncated (was the disk full?), and no engine runs on this machine"


def _is_engine(process: str) -> bool:
    """Tell whether the process with that number is a running pulumi."""
    try:
        name, _, state = (_PROCESSES / process / "stat").read_text().rpartition(") ")
    except OSError:
        return False
    return "pulumi" in name and state[:1] != "Z"  # a zombie has exited, too


def unlock(backend: str, stack: str) -> str:
    """Remove the stale locks of `stack`; return what was done.

    Raises:
        RefusedError: a lock is not stale, or this machine cannot tell whether the lock is stale.
    """
    said = [dead(lock) for lock in locks(backend, stack)]
    if not said:
        return f"{stack} is not locked"
    subprocess.run(["pulumi", "cancel", "--yes", "--stack", stack], check=True, stdout=subprocess.DEVNULL)
    return "\n".join(said)


def main(argv: list[str]) -> int:
    """Unlock the stack that `argv` names; return an exit status."""
    if len(argv) != 1:
        sys.stderr.write(f"{__doc__}\n")
        return 2

    def work() -> None:
        sys.stdout.write(f"unlock: {unlock(os.environ['PULUMI_BACKEND_URL'], argv[0])}\n")

    return ended("unlock", work)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
