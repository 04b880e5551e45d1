"""The steps of a first boot on any cloud, as POSIX shell that is safe to run twice.

If a step fails, the boot fails. A step with the flag `precaution` is an exception: if it fails, the boot warns and goes on.
Facts that differ between machines of one shape, such as disks and addresses, are determined at boot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from catalogue import ImageFamily
from cloudinit import downloads

#: File in which a boot records its outcome; first contact reads it.
MARK = "/var/lib/busbar/boot.json"
#: Last word of a login node's SSH version string. It appears as soon as the login node's host key is published and no later
#: step can fail the boot.
ANNOUNCEMENT = "busbar-ready"
#: Text in the SSH version string if the first boot has failed; the name of the failed step follows.
FAILURE = "busbar-failed:"
#: Text that precedes the login node's public host key on the login node's console.
CONSOLE_KEY = "busbar-host-key:"

_WARN = """warned=
warn() {
  echo "busbar: step $step failed; the boot goes on without it"
  warned="$warned$step "
}
"""

_TELL = f"""  if [ "$status" != 0 ]; then
    {{ echo "busbar: first boot failed in step $step"; tail -n 20 /var/log/cloud-init-output.log; }} > /dev/console || true
    announce "{FAILURE}$step" || true
  fi
"""
#: A shell function that changes the SSH version string, which anybody can read without logging in. The new line goes to the top
#: of sshd_config, because sshd uses the first VersionAddendum that it reads.
_ANNOUNCE = """announce() {
  { echo "VersionAddendum $1"; grep -v '^VersionAddendum busbar' /etc/ssh/sshd_config; } > /etc/ssh/sshd_config.busbar
  cat /etc/ssh/sshd_config.busbar > /etc/ssh/sshd_config
  rm /etc/ssh/sshd_config.busbar
  systemctl reload sshd || systemctl reload ssh
}
"""

#: Limits of locked memory, which RDMA needs, and of open files, because MPI opens many sockets. OCI's images set a limit of
#: 131072 files (oci-hpc-images 9263b5f: kernel_parameters.yml), which must not be lowered.
LIMITS_FILE: dict[str, Any] = {
    "path": "/etc/security/limits.d/90-busbar.conf",
    "permissions": "0644",
    "content": "* soft memlock unlimited\n* hard memlock unlimited\n* soft nofile 131072\n* hard nofile 131072\n",
}


#: Mount point of the local disks of nodes on OCI.
LOCAL_DISKS = "/mnt/localdisk"


@dataclass(frozen=True)
class Step:
    """One named part of a first boot.

    Attributes:
        name: the step's name in messages.
        shell: the step's commands; the first command that fails ends the step.
        precaution: whether the boot goes on if this step fails; it then warns.
    """

    name: str
    shell: str
    precaution: bool = False

    @property
    def text(self) -> str:
        """The step's text in the script."""
        body = self.shell.strip()
        # A precaution must end at its first failed command, but `set -e` has no effect in commands before `||`. So the
        # precaution runs in the background, and only `wait` is before `||`.
        return (
            f"step={self.name}\n(\nset -eu\n{body}\n) &\nwait $! || warn\n"
            if self.precaution
            else f"step={self.name}\n{body}\n"
        )


def script(work: list[Step]) -> str:
    """Return the script that runs `work` in order and records the outcome, including failed precautions.

    If `work` contains the step `announce` and a step fails, the script also writes the end of cloud-init's log to the console,
    and announces the failure.
    """
    body = "\n".join(step.text for step in work)
    some = any(step.precaution for step in work)
    more = ', \\"warned\\": \\"$warned\\"' if some else ""
    announces = any(step.name == "announce" for step in work)
    tell = _TELL if announces else ""
    return f"""#!/bin/sh
# First boot, step by step; {MARK} says how it ended.
set -eu
step=start
{_WARN if some else ""}{_ANNOUNCE if announces else ""}{downloads.functions(body)}mark() {{
  status=$?
  if [ "$status" = 0 ]; then
    echo "{{\\"status\\": \\"done\\"{more}}}" > {MARK}.new
  else
    echo "{{\\"status\\": \\"failed\\", \\"step\\": \\"$step\\"{more}}}" > {MARK}.new
  fi
  mv {MARK}.new {MARK}  # first contact may read it at any moment
{tell}}}
trap mark EXIT

{body}"""


def grow_root(command: str) -> Step:
    """Grow the root file system to the size of the boot volume.

    Old versions of the vendor's program (oci-utils before 0.12.6-9) fail if there is nothing to grow. So the boot reports a
    failure and goes on. If the root file system is really too small, a later step fails for lack of space.
    """
    return Step("grow-root", f"{command} || echo 'busbar: the root file system was not grown'")


def search_domain(domain: str) -> Step:
    """Add the nodes' domain to the search list, so that short host names resolve; keep DHCP from removing the domain.

    Source: the tutorial oracle-japan/ocitutorials, section 0-2.
    """
    return Step(
        "search-domain",
        f"""
if ! grep -q '^search .*{domain}' /etc/resolv.conf; then
  grep -q '^search ' /etc/resolv.conf || echo 'search' >> /etc/resolv.conf
  sed 's/^search.*/& {domain}/' /etc/resolv.conf > /run/busbar.resolv
  cat /run/busbar.resolv > /etc/resolv.conf
  # On a file system without an immutable flag, the domain lasts only until the next DHCP lease.
  chattr +i /etc/resolv.conf || echo 'busbar: resolv.conf cannot be made immutable here'
fi
""",
    )


def trust(firewall: str, cidrs: tuple[str, ...]) -> Step:
    """Open the machine's own firewall only between nodes; MPI and NCCL use any port."""
    if firewall == "firewalld":
        lines = [f"  firewall-cmd --permanent --zone=trusted --add-source={cidr}" for cidr in cidrs]
        # If firewalld does not run, there is nothing to open.
        return Step("trust-nodes", "\n".join(["if firewall-cmd --state; then", *lines, "  firewall-cmd --reload", "fi"]))
    lines = [f"iptables -C INPUT -s {cidr} -j ACCEPT 2>/dev/null || iptables -I INPUT 1 -s {cidr} -j ACCEPT" for cidr in cidrs]
    # The image's netfilter-persistent restores the rules in this file at boot.
    return Step("trust-nodes", "\n".join([*lines, "iptables-save > /etc/iptables/rules.v4"]))


def scratch() -> Step:
    """Create one striped volume of all local NVMe disks, and mount it at /mnt/localdisk."""
    return Step(
        "scratch",
        """
if ! grep -q ' /mnt/localdisk ' /etc/fstab; then
  set --
  for disk in /dev/nvme*n1; do
    [ -b "$disk" ] || continue
    [ -e "${disk}p1" ] && continue  # a disk with partitions is in use
    set -- "$@" "$disk"
  done
  if [ $# -gt 0 ]; then
    vgcreate nvme "$@"
    lvcreate --yes --stripes $# --extents 100%FREE --name scratch nvme
    mkfs.xfs -L localscratch /dev/nvme/scratch
    mkdir -p /mnt/localdisk
    echo 'LABEL=localscratch /mnt/localdisk xfs defaults,noatime,nofail 0 0' >> /etc/fstab
    systemctl daemon-reload
    mount /mnt/localdisk
    chmod 1777 /mnt/localdisk
  fi
fi
""",
    )


def rails(front_nic: str, netdevs: tuple[str, ...]) -> Step:
    """Write one interface file per rail and bring the rail up at 192.168.RAIL.y; y is the last octet of the front-end address.

    This step is only for images whose agent does not configure rails (oracle-japan/ocitutorials, section 1-1). The front-end
    subnet must be /24 or smaller.
    """
    return Step(
        "rails",
        f"""
y=$(ip -4 -o address show dev {front_nic} | awk '{{split($4, a, "[./]"); print a[4]; exit}}')
[ -n "$y" ]
x=0
for rail in {" ".join(netdevs)}; do
  cat > /etc/sysconfig/network-scripts/ifcfg-$rail <<END
TYPE="Ethernet"
BOOTPROTO="none"
IPADDR=192.168.$x.$y
NETMASK=255.255.255.0
DEFROUTE="no"
PEERDNS="no"
PEERROUTES="no"
IPV4_FAILURE_FATAL="no"
IPV6INIT="no"
IPV6_FAILURE_FATAL="no"
NAME="System $rail"
DEVICE="$rail"
ONBOOT="yes"
NM_CONTROLLED="no"
END
  ifup "$rail"
  x=$((x + 1))
done
""",
    )


def nccl_packages(image: ImageFamily) -> dict[str, Any]:
    """Return the cloud-config keys that install NCCL, for an image that lacks NCCL."""
    name = "cuda-rhel7-x86_64"
    repository = {
        "name": name,
        "baseurl": image.nccl_repository,
        "enabled": True,
        "gpgcheck": True,
        "repo_gpgcheck": True,
        "gpgkey": image.nccl_repository_key,
    }
    return {"yum_repos": {name: repository}, "packages": list(image.nccl_packages)}


def sshd_for_bursts() -> Step:
    """Let many connections start at once: by default, sshd drops some connections at random once ten are pending.

    The lines go to the top of sshd_config, because sshd uses the first value that it reads. Old versions of sshd have no folder
    for drop-in files.
    """
    return Step(
        "sshd",
        """
if ! grep -q '^MaxStartups 200' /etc/ssh/sshd_config; then
  { printf 'MaxStartups 200:30:400\\nMaxSessions 100\\nClientAliveInterval 30\\nClientAliveCountMax 4\\n'
    cat /etc/ssh/sshd_config; } > /etc/ssh/sshd_config.busbar
  cat /etc/ssh/sshd_config.busbar > /etc/ssh/sshd_config
  rm /etc/ssh/sshd_config.busbar
fi
""",
    )


def host_key_on_console() -> Step:
    """Write the public host key to the console, before anything can fail.

    The cloud's API shows the console, so the key is pinned before the first connection. This needs no private key in the
    user-data and no trust on first use. The kernel writes to the same serial console and may cut a line, so the key is written
    three times.
    """
    return Step(
        "host-key-on-console",
        f"""
for _ in 1 2 3; do
  echo "{CONSOLE_KEY} $(cut -d ' ' -f 1,2 /etc/ssh/ssh_host_ed25519_key.pub)" > /dev/console
done
""",
    )


def announce() -> Step:
    """Announce in the SSH version string that the machine is ready."""
    return Step("announce", f"announce {ANNOUNCEMENT}")
