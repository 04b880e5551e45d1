"""The presence of a service that changes the world, so that nobody takes a host that boots for one that a crash left."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from rehearsal.world.world import World


@contextmanager
def present(world: World) -> Iterator[None]:
    """Hold the world's entry as a command does, as long as the block lasts."""
    with (world.folder("locks") / "door").open("a") as door:
        fcntl.flock(door, fcntl.LOCK_SH)
        yield
