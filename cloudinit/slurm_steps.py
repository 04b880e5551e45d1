"""The steps of a first boot that install Slurm and munge; their daemons get keys and files later, from the controller."""

from __future__ import annotations

from catalogue import ImageFamily
from cloudinit import mounts
from cloudinit.steps import Step

#: User and group numbers, alike on all machines because slurmd obeys the controller's user by its number. Those of
#: aws-parallelcluster-cookbook (attributes: slurm user 401, munge user 402), which many clusters have.
USERS = {"slurm": 401, "munge": 402}


def install(image: ImageFamily) -> list[Step]:
    """Return the steps that install Slurm from the image's repositories, after those of file systems, which define `lists`.

    Nothing starts before the controller says so.
    """
    return [_users(), _packages(image)]


def _users() -> Step:
    """Create the users before the packages do, which take any free number."""
    lines = []
    for user, number in USERS.items():
        lines.append(f"""
getent group {user} > /dev/null || groupadd --system --gid {number} {user}
getent passwd {user} > /dev/null || useradd --system --uid {number} --gid {user} --home-dir / --shell /usr/sbin/nologin {user}
if [ "$(id -u {user})" != {number} ]; then
  echo "busbar: user {user} has number $(id -u {user}) in this image, and it must be {number} on all machines"
  exit 1
fi""")
    return Step("slurm-users", "\n".join(lines))


def _packages(image: ImageFamily) -> Step:
    """Install the packages, and stop what they start: a node without a key would only write errors to its log."""
    work = ["lists"] if image.packages == "apt" else []
    work += [mounts.install(image.packages, " ".join(names)) for names in image.slurm_packages]
    work += ["systemctl disable --now slurmctld slurmd || echo 'busbar: no unit of Slurm was there to stop'"]
    return Step("slurm-packages", "\n".join(work))
