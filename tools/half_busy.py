"""Occupies half of this machine's processors, to check that figures keep their meaning under load.

With BUSY=1, `make figures` and `make compare` occupy these processors for the whole run.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

_LOOP = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.setpriority(os.PRIO_PROCESS, 0, -20)
try:
    with open("/proc/self/autogroup", "w") as own:
        own.write("-20")
except FileNotFoundError:
    pass
while os.getppid() == int(sys.argv[2]):
    for _ in range(1_000_000):
        pass
"""


def half() -> list[int]:
    """Return the numbers of the processors to occupy: half of them, and at least one."""
    mine = sorted(os.sched_getaffinity(0))
    return mine[: max(1, len(mine) // 2)]


def said() -> str:
    """Return the words that say how many processors are occupied."""
    return f"half of {len(os.sched_getaffinity(0))} processors taken"


@contextlib.contextmanager
def half_taken(*, wanted: bool = True) -> Iterator[None]:
    """If `wanted`, occupy half of the processors: on each, a loop runs with priority over all other processes.

    Each loop has its own session, because the kernel shares time first among sessions and then among the processes of a session
    (sched(7), autogroup). A loop exits by itself once this process has exited.
    """
    words = [[sys.executable, "-c", _LOOP, str(one), str(os.getpid())] for one in half() if wanted]
    taking = [subprocess.Popen(its, start_new_session=True) for its in words]
    try:
        yield
    finally:
        for one in taking:
            one.kill()
            one.wait()


def asked() -> bool:
    """Return whether the environment variable BUSY is set; if so, print how many processors are occupied."""
    wanted = bool(os.environ.get("BUSY"))
    if wanted:
        print(f"{'for all of this run':<58} {said()}", flush=True)  # noqa: T201 - printing is its purpose
    return wanted
