"""The steps of a first boot that install Slurm, munge and the programs that run tasks in containers.

The controller sends the daemons' keys and files later.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from catalogue.slurm_packages import SlurmPackages
from cloudinit import enroot, mounts, pyxis
from cloudinit.homes import shared_folder
from cloudinit.pyxis import Pyxis
from cloudinit.steps import Step

#: Id of the user and of the group slurm. This id is the same on all machines, because slurmd recognizes the controller's user
#: by its id. The value is from aws-parallelcluster-cookbook (attributes: slurm user), which many clusters use. The id of user
#: munge may differ between machines.
_SLURM_ID = 401


@dataclass(frozen=True)
class Containers:
    """The programs that run tasks in containers.

    Attributes:
        enroot: version of enroot to install if the image has none.
        enroot_sha256: the sha256 values that enroot's packages may have; empty skips the comparison.
        scratch: mount point of the machine's local disks.
        toolkit: version of NVIDIA Container Toolkit to install if the image lacks nvidia-container-cli; empty installs none.
        toolkit_key: fingerprint of the key that signs the toolkit's packages.
        pyxis: Slurm's plugin for containers.
    """

    enroot: str
    enroot_sha256: tuple[str, ...]
    scratch: str
    toolkit: str
    toolkit_key: str
    pyxis: Pyxis


@dataclass(frozen=True)
class Slurm:
    """The Slurm software that a machine gets.

    Attributes:
        packages: packages of the distribution.
        controller: whether the machine will be the controller.
        users: whether all machines use a directory of users.
        accounting: whether the controller records jobs in a database.
        containers: the programs that run tasks in containers; if they are installed, srun has Pyxis's options. If this field is
            None, they are not installed.
    """

    packages: SlurmPackages
    controller: bool = False
    users: bool = False
    accounting: bool = False
    containers: Containers | None = None

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Groups of packages; the groups are installed one after the other."""
        its = self.packages
        more = (
            *(its.users if self.users else ()),
            *(its.directory if self.users and self.controller else ()),
            *(its.accounting if self.accounting and self.controller else ()),
        )
        return [names for names in (its.repositories, its.slurm, its.containers if self.containers else (), more) if names]


def install(manager: str, login: str, homes: Iterable[str], wanted: Slurm | None) -> list[Step]:
    """Return the steps that install Slurm with the package manager `manager`; if `wanted` is None, there are no steps.

    These steps run after the mounts, and after the step `mounts.tools`: they call its shell function `lists`, which updates
    apt's package lists. `homes` are mount points of file systems for home folders; the login user gets a folder in each. No
    daemon starts before the controller starts it.
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
    """Create user slurm before the packages are installed: otherwise the packages would create the user with any free id."""
    return Step(
        "slurm-user",
        f"""
getent group slurm > /dev/null || groupadd --system --gid {_SLURM_ID} slurm
getent passwd slurm > /dev/null ||
  useradd --system --uid {_SLURM_ID} --gid slurm --no-create-home --home-dir / --shell /usr/sbin/nologin slurm
if [ "$(id -u slurm)" != {_SLURM_ID} ]; then
  echo "busbar: user slurm has id $(id -u slurm) in this image, but must have {_SLURM_ID} on all machines"
  exit 1
fi
""",
    )


def _packages(manager: str, wanted: Slurm) -> Step:
    """Install the packages, and stop the daemons that the packages start.

    The controller sends the key later; without the key, a daemon would only write errors to its log.
    """
    work = ["lists"] if manager == "apt" else []
    work += [mounts.install(manager, " ".join(names)) for names in wanted.groups]
    work += ["rm -f /etc/slurm/slurm.conf"]  # EPEL's example looks like another cluster's file
    work += ["systemctl disable --now slurmctld slurmd || echo 'busbar: there was no Slurm unit to stop'"]
    return Step("slurm-packages", "\n".join(work))
