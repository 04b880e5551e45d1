"""Slurm on a cluster's machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from config.model import Model
from scheduler import names


def _queue(value: str) -> str:
    if why := names.refused_queue(value):
        raise ValueError(f"is {value!r}; {why}")
    return value


class Slurm(Model):
    """A Slurm cluster of the machines: the head node is its controller, and every machine runs its jobs."""

    queue: Annotated[str, AfterValidator(_queue)] = Field(
        default="compute",
        description="Name of the queue (Slurm's partition) that has all machines and takes jobs that name none.",
        examples=["compute"],
    )
