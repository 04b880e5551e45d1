"""Serve EC2's endpoints until killed; rehearsal.net.services starts this process at their address."""

from __future__ import annotations

from rehearsal.aws.api import end_point
from rehearsal.aws.api.service import Service
from rehearsal.aws.cloud import Cloud
from rehearsal.plugin.https_service import serve
from rehearsal.world.world import World

if __name__ == "__main__":
    world = World.current()
    serve(world, end_point.CLOUD, Service(Cloud(world)).answer)
