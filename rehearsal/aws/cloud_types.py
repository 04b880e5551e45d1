"""What resource types ask of the cloud that they live in, so that they need not import it; does nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from rehearsal.plugin.errors import PartlyCreatedError
from rehearsal.plugin.faults import Faults
from rehearsal.plugin.store import Record, Store
from rehearsal.world.world import World


class Cloud(Protocol):
    """See `rehearsal.aws.cloud.Cloud`, which this is."""

    world: World
    store: Store
    faults: Faults

    def wait(self, seconds: float) -> None:
        """Let as much of the vendor's own waiting time pass as was asked for."""

    def render(self, vpc: object) -> None:
        """Make a VPC in the world what the database says of it."""

    def leads_out(self, subnet: Record) -> bool:
        """Whether a subnet's routes lead to an internet gateway."""

    def failed(self, record: Record, why: str) -> PartlyCreatedError:
        """Mark a resource that was made and did not become what it should; the error to raise."""

    def stamp(self, record: Record) -> Record:
        """The record as this process's own work."""

    def remove(self, resource_id: str) -> None:
        """Take away what a larger resource brought along; a missing one is fine."""

    def working(self, record: Record) -> AbstractContextManager[None]:
        """Hold a resource that a larger one is bringing up; ready when the block ends, gone when it raises."""
