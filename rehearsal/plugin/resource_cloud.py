"""The interface of the cloud for resource types, so that they need not import it."""

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
        """Make a VCN or VPC of the world match the database."""

    def wait(self, seconds: float) -> None:
        """Wait for the vendor's own waiting time, scaled by the pace."""

    def failed(self, record: Record, why: str) -> PartlyCreatedError:
        """Mark a resource that was created and failed; return the error to raise."""

    def stamp(self, record: Record) -> Record:
        """Return the record marked with this process."""

    def remove(self, resource_id: str) -> None:
        """Remove a resource that is part of a larger one; idempotent."""

    def working(self, record: Record) -> AbstractContextManager[None]:
        """Mark a resource as being created by a larger one: ready when the block ends, removed if the block raises."""
