"""The programs of a Slurm controller on a rehearsed host, and what a test asks of them there."""

from __future__ import annotations

from pathlib import Path

from rehearsal.plugin.store import Record
from rehearsal.world.world import World
from scheduler import programs

#: First lines of a script that imports the programs from their place.
IMPORTS = f"import json, sys, time; sys.path.insert(0, {programs.ARCHIVE!r})\n"
#: Ask `cloud` for its listing until a question about it is answered with yes.
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
    """Write the programs to their place on a host."""
    pid = (world.path / "hosts" / host.short / "pid").read_text()
    archive = Path("/proc", pid, "root", programs.ARCHIVE.lstrip("/"))
    archive.parent.mkdir(parents=True, exist_ok=True)
    archive.write_bytes(programs.archive())
