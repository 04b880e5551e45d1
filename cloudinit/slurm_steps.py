"""The steps of a first boot that install Slurm and munge, and what runs tasks in containers.

The daemons get keys and files later, from the controller.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from catalogue.slurm_packages import SlurmPackages
from cloudinit import enroot, mounts, pyxis
from cloudinit.homes import shared_folder
from cloudinit.pyxis import Pyxis
from cloudinit.steps import Step

#: User and group number of slurm, alike on all machines because slurmd obeys the controller's user by its number. It is that of
#: aws-parallelcluster-cookbook (attributes: slurm user), which many clusters have. Munge's own number does not matter.
_SLURM_ID = 401


@dataclass(frozen=True)
class Containers:
    """What runs tasks in containers.

    Attributes:
        enroot: its version, where the image has none.
        enroot_sha256: what its packages may have; empty compares nothing.
        scratch: where the machine's own disks are mounted.
        toolkit: version of NVIDIA Container Toolkit, where the image lacks what gives containers the GPUs; empty installs none.
        toolkit_key: fingerprint of the key that signs that.
        pyxis: Slurm's plugin.
    """

    enroot: str
    enroot_sha256: tuple[str, ...]
    scratch: str
    toolkit: str
    toolkit_key: str
    pyxis: Pyxis


@dataclass(frozen=True)
class Slurm:
    """What of Slurm a machine gets.

    Attributes:
        packages: the distribution's.
        controller: whether it will be the controller.
        users: whether all machines ask a directory of users.
        accounting: whether the controller keeps jobs in a database.
        containers: what runs tasks in containers; None installs nothing. A controller's srun has Pyxis's options.
    """

    packages: SlurmPackages
    controller: bool = False
    users: bool = False
    accounting: bool = False
    containers: Containers | None = None

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Packages in groups that are installed one after the other."""
        its = self.packages
        more = (
            *(its.users if self.users else ()),
            *(its.directory if self.users and self.controller else ()),
            *(its.accounting if self.accounting and self.controller else ()),
        )
        return [names for names in (its.repositories, its.slurm, its.containers if self.containers else (), more) if names]


def install(manager: str, login: str, homes: Iterable[str], wanted: Slurm | None) -> list[Step]:
    """Return the steps that install Slurm with the package `manager`, after those of file systems, which define `lists`.

    The login user gets a folder on the file systems for home folders, mounted at `homes`. Nothing starts before the controller
    says so. Without a `wanted` Slurm there are none.
    """
    if wanted is None:
        return []
    folders = [shared_folder(login, at) for at in homes]
    containers = _containers(manager, wanted.containers) if wanted.containers else []
    return [*folders, _user(), _packages(manager, wanted), *containers]


def _containers(manager: str, wanted: Containers) -> list[Step]:
    installs = [enroot.enroot(manager, wanted.enroot, wanted.scratch, wanted.enroot_sha256)]
    gpus = [enroot.gpus(manager, wanted.toolkit, wanted.toolkit_key)] if wanted.toolkit else []
    return [*installs, *gpus, pyxis.build(wanted.pyxis)]


def _user() -> Step:
    """Create the user before the packages do, which take any free number."""
    return Step(
        "slurm-user",
        f"""
getent group slurm > /dev/null || groupadd --system --gid {_SLURM_ID} slurm
getent passwd slurm > /dev/null ||
  useradd --system --uid {_SLURM_ID} --gid slurm --no-create-home --home-dir / --shell /usr/sbin/nologin slurm
if [ "$(id -u slurm)" != {_SLURM_ID} ]; then
  echo "busbar: user slurm has number $(id -u slurm) in this image, and it must be {_SLURM_ID} on all machines"
  exit 1
fi
""",
    )


def _packages(manager: str, wanted: Slurm) -> Step:
    """Install the packages, and stop what they start: a node without a key would only write errors to its log."""
    work = ["lists"] if manager == "apt" else []
    work += [mounts.install(manager, " ".join(names)) for names in wanted.groups]
    work += ["rm -f /etc/slurm/slurm.conf"]  # the example of EPEL's package, which looks like another cluster's
    work += ["systemctl disable --now slurmctld slurmd || echo 'busbar: no unit of Slurm was there to stop'"]
    return Step("slurm-packages", "\n".join(work))
