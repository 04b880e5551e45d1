"""Serve the region's endpoints until killed; rehearsal.net.services starts this process at their address."""

from __future__ import annotations

from rehearsal.oci.api import end_point
from rehearsal.oci.api.service import Service
from rehearsal.oci.cloud import Cloud
from rehearsal.plugin.https_service import serve
from rehearsal.world.world import World

if __name__ == "__main__":
    world = World.current()
    serve(world, end_point.CLOUD, Service(Cloud(world)).answer)
