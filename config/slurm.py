"""Slurm on a cluster's machines."""

from __future__ import annotations

from pydantic import Field

from config.model import Model
from scheduler import names


class Slurm(Model):
    """A Slurm cluster of the machines: an existing one, or a new one whose controller is the head node."""

    queue: str = Field(
        default="compute",
        description="Name of the queue (Slurm's partition). In a new cluster it contains all machines and is the "
        "default partition.",
        examples=["compute"],
    )
    existing: bool = Field(
        default=False,
        description="The machines already belong to a Slurm cluster with this queue, which knows them by the names "
        "used here: it is used, and nothing is set up.",
        examples=[True],
    )

    @property
    def why_not(self) -> str:
        """Why the queue cannot have its name; empty if it can."""
        return names.refused_existing(self.queue) if self.existing else names.refused_queue(self.queue)
