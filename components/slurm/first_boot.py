"""What of Slurm first boot puts on a machine."""

from __future__ import annotations

from catalogue.slurm_packages import SlurmPackages
from cloudinit import Slurm
from config.slurm import Scheduler


def software(packages: SlurmPackages | None, wanted: Scheduler | None, *, controller: bool = False) -> Slurm | None:
    """Return what a machine gets whose image has `packages`; None without Slurm, or if its image has none."""
    return Slurm(packages, controller, wanted.users) if wanted and packages else None
