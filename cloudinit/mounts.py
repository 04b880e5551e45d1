"""Mounts file systems at first boot on any cloud: adds lines to /etc/fstab for later boots, and tries a mount up to ten times.

Source: aws-parallelcluster-cookbook (10 tries, 6 s apart).
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudinit.steps import Step

#: The shell function `again`: default number of tries, pause (s) after a failed try, and time limit (s) of a try
#: (aws-parallelcluster-cookbook: lustre mounts).
_TRIES, _PAUSE_S, _TRY_S = 10, 6, 60
#: Mount options to add on clusters where ordinary users run jobs. Without these options, root on one machine could leave a
#: setuid program on the file system. A user who starts this program on another machine, even on the controller, would be root
#: there (mount(8)).
UNPRIVILEGED = ",nosuid,nodev"


@dataclass(frozen=True)
class Mount:
    """A file system that a machine mounts.

    Attributes:
        kind: `nfs` or `lustre`.
        source: server and export, as the client names them.
        at: the mount point.
        options: mount options, as in /etc/fstab.
        login_home: whether the login user's home is a folder of this file system, the same folder on all machines.
    """

    kind: str
    source: str
    at: str
    options: str
    login_home: bool = False

    @property
    def line(self) -> str:
        """The file system's line in /etc/fstab."""
        return f"{self.source} {self.at} {self.kind} {self.options} 0 0"


def tools() -> Step:
    """Define two shell functions: `again` runs a command until it succeeds, and `lists` updates apt's package lists.

    The shell variable `most` limits the tries of `again` (default 10). apt-daily holds the lock on the lists for minutes after
    a boot, and cloud images have no lists. apt-get reports success even if a download fails (apt-get(8), --error-on), so
    `lists` first asks apt-get to report errors. If this update keeps failing, the cause may be a repository that the image uses
    but that is not needed here, so `lists` then updates without that option.
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
    """Return the shell commands that add a file system to /etc/fstab once, and mount it."""
    return f"""
mkdir -p {share.at}
if ! grep -q ' {share.at} {share.kind} ' /etc/fstab; then
  echo '{share.line}' >> /etc/fstab
  systemctl daemon-reload
fi
mountpoint -q {share.at} || again mount {share.at}
"""
