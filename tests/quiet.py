"""Who may keep the machine busy: all workers share it, until one of them measures and has it to itself."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class Machine:
    """This worker's hold on the machine.

    All workers go through one door, one at a time, so that who waits for the machine to be quiet is not overtaken for ever.
    Door and room are files that every checkout has: only their locks are used.
    """

    def __init__(self) -> None:
        self._door, self._room = (ROOT / "Makefile").open(), (ROOT / "pyproject.toml").open()
        self._sole = False

    def share(self) -> None:
        """Keep the machine busy beside others; wait while one of them measures, or is about to."""
        if not self._sole:
            self._enter(fcntl.LOCK_SH)

    def leave(self) -> None:
        """Let somebody who waits measure."""
        if not self._sole:
            fcntl.flock(self._room, fcntl.LOCK_UN)

    def breathe(self) -> None:
        """Between two commands of a long test: let somebody who waits measure first."""
        self.leave()
        self.share()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have the machine to oneself."""
        self.leave()
        self._enter(fcntl.LOCK_EX)
        self._sole = True
        try:
            yield
        finally:
            self._sole = False
            self.breathe()

    def _enter(self, how: int) -> None:
        fcntl.flock(self._door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._room, how)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)
