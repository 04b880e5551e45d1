"""What tests ask of a rehearsed Slurm cluster's login node, and of the stand-in cloud behind it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rehearsal.plugin.store import Store
from rehearsal.world.world import World
from tools.stage import Stage

PATIENCE_S = 240


def until(stage: Stage, command: str, holds: Callable[[str], bool], what: str) -> str:
    """Ask the login node until the answer is right; show what Slurm says if it never is."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        said = stage.on_host(command)
        if holds(said):
            return said
        time.sleep(1)
    shown = stage.on_host("sinfo -R; sinfo -N -l; squeue; sudo tail -n 20 /var/log/slurm/slurmctld.log")
    pytest.fail(f"not within {PATIENCE_S} s: {what}; {command!r} says {said!r}\n{shown}")


def machines(stage: Stage, cloud: str) -> int:
    """Return how many machines the stand-in cloud has, whoever asked for them."""
    records = Store(World.at(stage.world), cloud).read().records.values()
    gone = {"TERMINATING", "TERMINATED", "shutting-down", "terminated"}
    return len([one for one in records if one.token.endswith("/instance:Instance") and one.state not in gone])
