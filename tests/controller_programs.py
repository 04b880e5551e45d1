"""The programs of a Slurm controller on a rehearsed host, and scripts that tests run there."""

from __future__ import annotations

from pathlib import Path

from rehearsal.plugin.store import Record
from rehearsal.world.world import World
from scheduler import programs

#: First lines of a script that imports the programs from their archive.
IMPORTS = f"import json, sys, time; sys.path.insert(0, {programs.ARCHIVE!r})\n"
#: Source of the function `until`: it lists the machines of `cloud` until `question(list)` is true, and returns the list.
UNTIL = r"""
def until(question):
    end = time.monotonic() + 60
    while True:
        seen = cloud.listing()
        if question(seen):
            return seen
        if time.monotonic() > end:
            sys.exit(f"not within 60 s: {seen}")
        time.sleep(0.2)
"""


def install(world: World, host: Record) -> None:
    """Write the programs' archive to its path on a host."""
    pid = (world.path / "hosts" / host.short / "pid").read_text()
    archive = Path("/proc", pid, "root", programs.ARCHIVE.lstrip("/"))
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(programs.archive())
