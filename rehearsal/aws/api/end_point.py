"""The API's endpoints: one name for each region that has a machine."""

from __future__ import annotations

import sys

from rehearsal.net import services
from rehearsal.world.world import World

CLOUD = "aws"
#: The endpoints' address on the rehearsed Internet (TEST-NET-2, RFC 5737).
_ADDRESS = "198.51.100.20"


def name(region: str) -> str:
    """Return the name of EC2's endpoint in a region."""
    return f"ec2.{region}.amazonaws.com"


def announce(world: World, region: str) -> None:
    """Make a region's endpoint resolvable; the API's process starts when a host first requests its role's credentials."""
    program = (sys.executable, "-m", "rehearsal.aws.api")
    services.announce(world, services.Service(CLOUD, _ADDRESS, (name(region),), program, world.scale))
