"""The steps of a first boot that install Slurm and munge; their daemons get keys and files later, from the controller."""

from __future__ import annotations

from typing import Protocol

from cloudinit import mounts
from cloudinit.steps import Step

#: User and group number of slurm, alike on all machines because slurmd obeys the controller's user by its number. It is that of
#: aws-parallelcluster-cookbook (attributes: slurm user), which many clusters have. Munge's own number does not matter.
_SLURM_ID = 401


class Image(Protocol):
    """What any cloud's image says of its packages."""

    @property
    def packages(self) -> str:
        """Its package manager."""

    @property
    def slurm_packages(self) -> tuple[tuple[str, ...], ...]:
        """Packages of slurmctld, slurmd and munge, in groups that are installed one after the other."""


def install(image: Image) -> list[Step]:
    """Return the steps that install Slurm from the image's repositories, after those of file systems, which define `lists`.

    Nothing starts before the controller says so.
    """
    return [_user(), _packages(image)]


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


def _packages(image: Image) -> Step:
    """Install the packages, and stop what they start: a node without a key would only write errors to its log."""
    work = ["lists"] if image.packages == "apt" else []
    work += [mounts.install(image.packages, " ".join(names)) for names in image.slurm_packages]
    work += ["rm -f /etc/slurm/slurm.conf"]  # the example of EPEL's package, which looks like another cluster's
    work += ["systemctl disable --now slurmctld slurmd || echo 'busbar: no unit of Slurm was there to stop'"]
    return Step("slurm-packages", "\n".join(work))
