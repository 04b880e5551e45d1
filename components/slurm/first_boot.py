"""The Slurm software that first boot installs on a machine."""

from __future__ import annotations

from catalogue.slurm_packages import SlurmPackages
from cloudinit import Containers, Pyxis, Slurm
from config.slurm import Scheduler
from scheduler import plugins


def software(
    packages: SlurmPackages | None, wanted: Scheduler | None, *, scratch: str, toolkit: str = "", controller: bool = False
) -> Slurm | None:
    """Return the Slurm software of a machine; None if the stack has no Slurm, or the machine's image has no packages of Slurm.

    Args:
        packages: the image's packages of Slurm.
        wanted: the cluster's settings.
        scratch: mount point of the machine's own disks.
        toolkit: version of the NVIDIA container toolkit, if the image lacks it.
        controller: whether the machine is the controller.
    """
    if wanted is None or packages is None:
        return None
    containers = None
    if wanted.containers is not None:
        its = wanted.containers
        made = Pyxis(its.pyxis, its.pyxis_sha256, plugins.PYXIS, plugins.pyxis_line())
        containers = Containers(its.enroot, its.enroot_sha256, scratch, toolkit, its.toolkit_key, made)
    return Slurm(packages, controller, wanted.users, wanted.accounting, containers)
