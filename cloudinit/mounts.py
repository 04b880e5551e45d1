"""Mounts file systems at first boot on any cloud: a line in /etc/fstab for later boots, and a bounded wait.

Source: aws-parallelcluster-cookbook (10 tries of 6 s).
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudinit.steps import Step

#: Tries and pauses of every step that waits for another service (aws-parallelcluster-cookbook: lustre mounts).
_TRIES, _PAUSE_S, _TRY_S = 10, 6, 60
#: Mount options to add where jobs of ordinary users run. Otherwise root of one machine could leave a program on the file system
#: that makes its caller root of another machine, most importantly of the controller (mount(8)).
UNPRIVILEGED = ",nosuid,nodev"


@dataclass(frozen=True)
class Mount:
    """One file system.

    Attributes:
        kind: `nfs` or `lustre`.
        source: server and export, as the client names them.
        at: the mount point.
        options: as in /etc/fstab.
        login_home: whether the login user's home is a folder of this file system, the same one on all machines.
    """

    kind: str
    source: str
    at: str
    options: str
    login_home: bool = False

    @property
    def line(self) -> str:
        """Its line in /etc/fstab."""
        return f"{self.source} {self.at} {self.kind} {self.options} 0 0"


def tools() -> Step:
    """Define `again`: run a command until it succeeds, at most `most` times (default 10); and `lists`: update apt's lists.

    apt-daily holds the lock on the lists for minutes after a boot, and cloud images have no lists. apt-get reports success even
    if a download fails (apt-get(8), --error-on), so `lists` first asks it to report errors. If that keeps failing, the cause
    may be a repository of the image that is not needed here, so `lists` then accepts errors.
    """
    return Step(
        "tools",
        f"""
again() {{
  tries=0
  until timeout {_TRY_S} "$@"; do
    tries=$((tries + 1))
    [ "$tries" -lt "${{most:-{_TRIES}}}" ] || return 1
    sleep {_PAUSE_S}
  done
}}
lists() {{
  ! again apt-get -o APT::Update::Error-Mode=any update || return 0
  for _ in 1 2 3 4; do ! again apt-get update || return 0; done
  return 1
}}
""",
    )


def install(manager: str, package: str) -> str:
    """Return the command that installs `package` with `yum`, `dnf` or `apt`; apt's lists must be up to date."""
    if manager == "apt":
        return f"DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y {package}"
    return f"{manager} install -y {package}"


def nfs_client(manager: str) -> Step:
    """Install the NFS client if the image lacks it."""
    package = "nfs-common" if manager == "apt" else "nfs-utils"
    lists = "lists && " if manager == "apt" else ""
    return Step("nfs-client", f"command -v mount.nfs > /dev/null || {{ {lists}{install(manager, package)}; }}")


def for_everybody(name: str, share: Mount) -> Step:
    """Mount a file system that every user may write to."""
    return Step(name, f"{mounted(share)}chmod 1777 {share.at}\n")


def mounted(share: Mount) -> str:
    """Return the shell that adds a file system to /etc/fstab once, and mounts it."""
    return f"""
mkdir -p {share.at}
if ! grep -q ' {share.at} {share.kind} ' /etc/fstab; then
  echo '{share.line}' >> /etc/fstab
  systemctl daemon-reload
fi
mountpoint -q {share.at} || again mount {share.at}
"""
