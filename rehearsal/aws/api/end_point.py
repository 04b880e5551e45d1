"""Where the API answers: one name for each region that a machine is in."""

from __future__ import annotations

import sys

from rehearsal.net import services
from rehearsal.world.world import World

CLOUD = "aws"
#: On the rehearsed Internet (TEST-NET-2, RFC 5737).
_ADDRESS = "198.51.100.20"


def name(region: str) -> str:
    """Return the name of EC2's end point in a region."""
    return f"ec2.{region}.amazonaws.com"


def announce(world: World, region: str) -> None:
    """Let a region's end point resolve; the process starts when a host first asks for its role's credentials."""
    program = (sys.executable, "-m", "rehearsal.aws.api")
    services.announce(world, services.Service(CLOUD, _ADDRESS, (name(region),), program, world.scale))
