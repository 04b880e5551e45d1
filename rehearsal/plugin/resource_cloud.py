"""What a resource type needs from its cloud, so that it need not import it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rehearsal.plugin.errors import PartlyCreatedError
from rehearsal.plugin.faults import Faults
from rehearsal.plugin.store import Record, Store
from rehearsal.world.world import World


class ResourceCloud(Protocol):
    """The part of `rehearsal.plugin.cloud.Cloud` that resource types use."""

    world: World
    store: Store
    faults: Faults

    def render(self, vcn_id: object) -> None:
        """Make a VCN or VPC in the world what the database says of it."""

    def wait(self, seconds: float) -> None:
        """Let as much of the vendor's own waiting time pass as was asked for."""

    def failed(self, record: Record, why: str) -> PartlyCreatedError:
        """Mark a resource that was created and failed; return the error to raise."""

    def stamp(self, record: Record) -> Record:
        """Return the record as this process's own work."""

    def remove(self, resource_id: str) -> None:
        """Remove what a larger resource brought along; a missing one is fine."""

    def working(self, record: Record) -> AbstractContextManager[None]:
        """Hold a resource that a larger one is bringing up; ready when the block ends, gone when it raises."""
