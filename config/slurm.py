"""Slurm on a cluster's machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from config.model import Model
from config.units import Minutes, Seconds
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


class Scheduler(Model):
    """A Slurm cluster whose controller is the login node; it starts dynamic nodes when jobs need them, and ends idle ones."""

    idle_min: Annotated[Minutes, Field(ge=1)] = Field(
        default=10, description="How long a dynamic node may be idle before it ends.", examples=["30 min"]
    )
    start_timeout_s: Annotated[Seconds, Field(ge=60)] = Field(
        default=1800,
        description="How long a dynamic node may take to start, first boot included, before its machine ends and the node is "
        "down with the reason.",
        examples=["45 min"],
    )
    test_nodes: int = Field(
        default=2, ge=1, description="Nodes of the test job, whose busbw the next update exports.", examples=[4]
    )
    users: bool = Field(
        default=False,
        description="Makes the controller a directory of users (OpenLDAP) for all machines; `cluster user add` adds one.",
        examples=[True],
    )


def job_folder(home: str) -> str:
    """Return the folder for what the test job needs and keeps, on the file system mounted at `home`; empty without one."""
    return f"{home.rstrip('/')}/.busbar" if home else ""
