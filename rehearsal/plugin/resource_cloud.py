"""The cloud's interface for resource types, so that the modules of the resource types need not import the cloud's module."""

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
        """Wait for `seconds` times BUSBAR_PACE; `seconds` is how long one waits in the vendor's real cloud."""

    def failed(self, record: Record, why: str) -> PartlyCreatedError:
        """Mark a resource as created but failed; return the error to raise."""

    def stamp(self, record: Record) -> Record:
        """Return a copy of the record; the copy is marked as made by this process."""

    def remove(self, resource_id: str) -> None:
        """Remove a resource that is part of a larger resource; idempotent."""

    def working(self, record: Record) -> AbstractContextManager[None]:
        """Create a part of a larger resource: the part becomes ready when the block ends, or is removed if the block raises."""
