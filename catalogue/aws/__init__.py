"""What AWS offers: machine images, regions, and the software that carries NCCL over EFA."""

from __future__ import annotations

from catalogue.aws.images import MACHINE_IMAGES, MachineImage
from catalogue.aws.versions import STACK, Stack

__all__ = ["MACHINE_IMAGES", "STACK", "MachineImage", "Stack"]
