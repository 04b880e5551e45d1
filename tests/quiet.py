"""Who goes first on a machine that several workers keep busy: the one that measures a bandwidth, one at a time.

Where the kernel lets us, each worker and all that it starts is a control group for processors, and the one that measures weighs
as much as a hundred others: nobody has to wait. Elsewhere the others wait until it has measured.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_USUAL, _FIRST = "1024", "102400"


class Machine:
    """This worker's hold on the machine.

    All workers go through one door, one at a time, so that who waits for the machine to be quiet is not overtaken for ever.
    Door and room are files that every checkout has: only their locks are used.
    """

    def __init__(self) -> None:
        self._door, self._room = (ROOT / "Makefile").open(), (ROOT / "pyproject.toml").open()
        self._sole = False
        self._group = _group()

    def share(self) -> None:
        """Keep the machine busy beside others; wait while one of them has it to itself, or is about to."""
        if not self._sole and not self._group:
            self._enter(fcntl.LOCK_SH)

    def leave(self) -> None:
        """Let somebody who waits measure."""
        if not self._sole and not self._group:
            fcntl.flock(self._room, fcntl.LOCK_UN)

    def breathe(self) -> None:
        """Between two commands of a long test: let somebody who waits measure first."""
        self.leave()
        self.share()

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Go before all others, or have the machine to oneself."""
        self.leave()
        self._enter(fcntl.LOCK_EX)
        self._sole = True
        try:
            if self._group:
                (self._group / "cpu.shares").write_text(_FIRST)
            yield
        finally:
            if self._group:
                (self._group / "cpu.shares").write_text(_USUAL)
            self._sole = False
            fcntl.flock(self._room, fcntl.LOCK_UN)
            self.share()

    def close(self) -> None:
        """Leave the worker's group; it goes when it is empty."""
        if self._group:
            (self._group.parent / "cgroup.procs").write_text(str(os.getpid()))
            with contextlib.suppress(OSError):
                self._group.rmdir()

    def _enter(self, how: int) -> None:
        fcntl.flock(self._door, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._room, how)
        finally:
            fcntl.flock(self._door, fcntl.LOCK_UN)


def _group() -> Path | None:
    """Return a control group of this process's own, or None where none can be made (cgroup v2, no root, not mounted)."""
    try:
        own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
        (path,) = [path for _, controllers, path in own if "cpu" in controllers.split(",")]
        above = Path("/sys/fs/cgroup/cpu", path.lstrip("/"))
        made = above / f"busbar-test-{os.getpid()}"
        made.mkdir()
        (made / "cgroup.procs").write_text(str(os.getpid()))
    except (OSError, ValueError):
        return None
    return made
