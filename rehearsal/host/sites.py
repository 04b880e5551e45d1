"""The vendors' sites that machines download from: a service on the rehearsed Internet, subject to routes and rules."""

from __future__ import annotations

import sys
from pathlib import Path

from rehearsal.image import internet
from rehearsal.net import services
from rehearsal.world.world import World

NAME = "sites"
#: Address of the sites on the rehearsed Internet (TEST-NET-2, RFC 5737).
_ADDRESS = "198.51.100.30"


def start(world: World) -> None:
    """Make the sites' names resolvable in every VCN, and start the process that serves the sites, unless it is running.

    Raises:
        RuntimeError: the process does not listen within a minute.
    """
    program = (sys.executable, "-m", "rehearsal.plugin.sites")
    services.announce(world, services.Service(NAME, _ADDRESS, tuple(sorted(internet.HOSTS)), program, world.scale))
    services.start(world, NAME, Path(__file__).parents[2])
