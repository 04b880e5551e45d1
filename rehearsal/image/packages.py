"""What the rehearsed repositories serve: package, version, and the files that really appear; fetches nothing."""

from __future__ import annotations

from typing import TypedDict


class Package(TypedDict, total=False):
    """One package: its version, and its files as (`copy` or `link`, path, source or target)."""

    version: str
    files: list[tuple[str, str, str]]


_PLAIN = (
    *("git", "gcc", "gcc-c++", "make", "cmake", "numactl", "jq", "tmux", "vim", "wget", "curl", "tar", "unzip", "pigz"),
    *("nfs-utils", "chrony", "rdma-core", "mstflint", "lvm2", "mdadm", "xfsprogs", "python3", "python36", "python3-pip"),
    *("pciutils", "psmisc", "rsync", "infiniband-diags", "perftest", "bash-completion", "yum-utils", "kernel-devel"),
    *("policycoreutils-python-utils", "dnf-plugins-core", "oracle-cloud-agent"),
)
# What the plain ones bring lies in the machine's /usr already, or does not.
ORACLE: dict[str, Package] = {name: {} for name in _PLAIN}
UBUNTU: dict[str, Package] = {
    name: {} for name in (*_PLAIN, "build-essential", "nfs-common", "netfilter-persistent", "ifupdown", "wpasupplicant")
}

NCCL_VERSION = "2.18.5-1+cuda12.2"
"""Chosen by the rehearsal: which one the vendor's repository serves as its last is not asserted."""

_NCCL: dict[str, Package] = {
    "libnccl": {
        "version": NCCL_VERSION,
        "files": [
            ("copy", "/usr/lib64/libnccl.so.2", "libnccl.so.2"),
            # Debian's loader does not look into lib64.
            ("link", "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib64/libnccl.so.2"),
        ],
    },
    "libnccl-devel": {
        "version": NCCL_VERSION,
        "files": [("copy", "/usr/include/nccl.h", "nccl.h"), ("link", "/usr/lib64/libnccl.so", "libnccl.so.2")],
    },
    "libnccl-static": {"version": NCCL_VERSION},
}
_AT: dict[str, dict[str, Package]] = {
    "developer.download.nvidia.com/compute/cuda/repos/rhel{release}/x86_64": _NCCL,
    "dl.fedoraproject.org/pub/epel/{release}": {"htop": {}, "pdsh": {}},
}


def served_at(address: str, release: str) -> dict[str, Package] | None:
    """The table at a base address for a release of Oracle Linux, or None where nothing answers."""
    place = address.rsplit("://", maxsplit=1)[-1].rstrip("/")
    return next((table for where, table in _AT.items() if place.startswith(where.format(release=release))), None)
