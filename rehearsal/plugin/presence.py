"""Marks a service as present while it changes the world, so that no program mistakes a booting host for a crashed run's."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from rehearsal.world.world import World


@contextmanager
def present(world: World) -> Iterator[None]:
    """Hold the world's entry lock while the block runs, as rehearsal/enter does while its command runs."""
    with (world.folder("locks") / "door").open("a") as door:
        fcntl.flock(door, fcntl.LOCK_SH)
        yield
