"""The address of the rehearsed OCI API, and the start of the API's process."""

from __future__ import annotations

import sys
from pathlib import Path

from rehearsal.net import services
from rehearsal.oci.places import REGION
from rehearsal.world.world import World

CLOUD = "oci"
CHECKOUT = Path(__file__).parents[3]
AUTH, CORE = f"auth.{REGION}.oraclecloud.com", f"iaas.{REGION}.oraclecloud.com"
#: The endpoints' address in the rehearsed services network, which is reached through a service, NAT or internet gateway.
_ADDRESS = "240.0.0.10"


def announce(world: World) -> None:
    """Make the names of the region's endpoints resolvable; the API starts when a host first asks for its own identity."""
    program = (sys.executable, "-m", "rehearsal.oci.api")
    services.announce(world, services.Service(CLOUD, _ADDRESS, (AUTH, CORE), program, world.scale))


def start(world: World) -> None:
    """Start the API's process unless it is running.

    Raises:
        RuntimeError: the process does not start.
    """
    services.start(world, CLOUD, CHECKOUT)
