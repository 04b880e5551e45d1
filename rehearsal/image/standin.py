"""Common parts of the image's stand-in commands: the log of calls, saved state, and the exit with an error.

A measurement runs hundreds of these commands, each for a few milliseconds, so libraries are imported only where they are used.
"""

# ruff: noqa: PLC0415, PTH105, PTH123 - see above; to load pathlib takes as long as most of these commands run

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any, NoReturn

STATE = "/var/lib/rehearsal"

#: Address and port to which `reachable` connects. Any answer shows that packets reach the Internet, even a refused connection.
INTERNET = ("198.51.100.10", 443)


def quoted(word: str) -> str:
    """Return a word quoted for a shell; shlex.quote would import the library of regular expressions."""
    plain = word and all(char.isascii() and (char.isalnum() or char in "@%+=:,./-_") for char in word)
    return word if plain else "'" + word.replace("'", "'\"'\"'") + "'"


def record(argv: Sequence[str]) -> None:
    """Append one line to the host's list of calls: seconds since the epoch, uid, command line."""
    words = " ".join(map(quoted, [argv[0].rpartition("/")[2], *argv[1:]]))
    try:
        with open(f"{STATE}/calls", "a") as file:
            file.write(f"{int(time.time())} {os.getuid()} {words}\n")
    except OSError:
        pass  # if the disk is full, the command does its work without the record


def fail(sentence: str, code: int = 1) -> NoReturn:
    """Print `sentence` on standard error, and exit with the status `code`."""
    sys.stderr.write(sentence.rstrip("\n") + "\n")
    sys.exit(code)


def need_root(name: str) -> None:
    """Exit with an error, in the name of the command `name`, unless the user is root."""
    if os.getuid() != 0:
        fail(f"{name}: you must be root to perform this command (permission denied)")


def load(name: str, default: Any) -> Any:
    """Return a piece of the host's state, or the default if this piece was never saved."""
    from json import load as parsed

    try:
        with open(f"{STATE}/{name}.json") as file:
            return parsed(file)
    except FileNotFoundError:
        return default


def save(name: str, value: object) -> None:
    """Save a piece of the host's state, atomically."""
    from json import dump

    with open(f"{STATE}/{name}.new", "w") as file:
        dump(value, file)
    os.replace(f"{STATE}/{name}.new", f"{STATE}/{name}.json")


def facts(name: str) -> list[str]:
    """Return the words of the file `name` in /etc/rehearsal, or none if the file does not exist."""
    try:
        with open(f"/etc/rehearsal/{name}") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


def exclusive(name: str) -> IO[str]:
    """Wait for the lock `name` and take it; the lock is held until the returned file is closed or the process exits."""
    import fcntl

    file = open(f"/run/rehearsal-{name}.lock", "w")  # noqa: SIM115 - the lock is held as long as the file is open
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def reachable() -> bool:
    """Return whether a packet reaches the Internet and an answer returns."""
    import socket

    try:
        socket.create_connection(INTERNET, timeout=5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True
