"""What the image's stand-in commands share: the log of calls, saved state, and how they fail."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

STATE = Path("/var/lib/rehearsal")

#: Any answer will do, a refusal too.
INTERNET = ("198.51.100.10", 443)


def record(argv: Sequence[str]) -> None:
    """Append one line to the host's list of calls: seconds since the epoch, uid, command line."""
    try:
        with (STATE / "calls").open("a") as file:
            file.write(f"{int(time.time())} {os.getuid()} {shlex.join([Path(argv[0]).name, *argv[1:]])}\n")
    except OSError:
        pass  # a full disk must not change what a command does


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Print why on standard error and exit with that status."""
    sys.stderr.write(sentence.rstrip("\n") + "\n")
    sys.exit(code)


def need_root(name: str) -> None:
    """Exit as a command that only root may run."""
    if os.getuid() != 0:
        fail(f"{name}: you must be root to perform this command (permission denied)")


def load(name: str, default: Any) -> Any:
    """Return a piece of the host's state, or the default if it was never saved."""
    try:
        return json.loads((STATE / f"{name}.json").read_text())
    except FileNotFoundError:
        return default


def save(name: str, value: object) -> None:
    """Save a piece of the host's state, whole or not at all."""
    fresh = STATE / f"{name}.new"
    fresh.write_text(json.dumps(value))
    fresh.replace(STATE / f"{name}.json")


def facts(name: str) -> list[str]:
    """Return the words of that file in /etc/rehearsal, or none if it does not exist."""
    try:
        return Path("/etc/rehearsal", name).read_text().split()
    except FileNotFoundError:
        return []


def exclusive(name: str) -> IO[str]:
    """Wait until no other stand-in holds this name; held until what is returned is closed or the process ends."""
    file = Path(f"/run/rehearsal-{name}.lock").open("w")  # noqa: SIM115 - the lock lives as long as it is open
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def reachable() -> bool:
    """Return whether a packet really reaches the Internet and comes back."""
    try:
        socket.create_connection(INTERNET, timeout=5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True
