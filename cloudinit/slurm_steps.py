"""The steps of a first boot that install Slurm and munge; their daemons get keys and files later, from the controller."""

from __future__ import annotations

from dataclasses import dataclass

from catalogue.slurm_packages import SlurmPackages
from cloudinit import mounts
from cloudinit.steps import Step

#: User and group number of slurm, alike on all machines because slurmd obeys the controller's user by its number. It is that of
#: aws-parallelcluster-cookbook (attributes: slurm user), which many clusters have. Munge's own number does not matter.
_SLURM_ID = 401


@dataclass(frozen=True)
class Slurm:
    """What of Slurm a machine gets.

    Attributes:
        packages: the distribution's.
        controller: whether it will be the controller.
        users: whether all machines ask a directory of users.
    """

    packages: SlurmPackages
    controller: bool = False
    users: bool = False

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Packages in groups that are installed one after the other."""
        its = self.packages
        more = (*(its.users if self.users else ()), *(its.directory if self.users and self.controller else ()))
        return [names for names in (its.repositories, its.slurm, more) if names]


def install(manager: str, wanted: Slurm) -> list[Step]:
    """Return the steps that install Slurm with the package `manager`, after those of file systems, which define `lists`.

    Nothing starts before the controller says so.
    """
    return [_user(), _packages(manager, wanted)]


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
