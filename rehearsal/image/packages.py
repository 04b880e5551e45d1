"""The packages of the rehearsed repositories: their versions, and the files that are really installed."""

from __future__ import annotations

import os

from rehearsal.image import database_packages, directory_packages, slurm_packages
from rehearsal.image.package import Package

# A plain package installs no files. Some of its files are in the machine's /usr already; a rehearsed host lacks the others.
_PLAIN = (
    *("git", "gcc", "gcc-c++", "make", "cmake", "numactl", "jq", "tmux", "vim", "wget", "curl", "tar", "unzip", "pigz"),
    *("chrony", "rdma-core", "mstflint", "lvm2", "mdadm", "xfsprogs", "python3", "python36", "python3-pip"),
    *("pciutils", "psmisc", "rsync", "infiniband-diags", "perftest", "bash-completion", "yum-utils", "kernel-devel"),
    *("policycoreutils-python-utils", "dnf-plugins-core", "oracle-cloud-agent"),
)
_NFS: Package = {"files": [("program", "/usr/sbin/mount.nfs", "mount.shared"), ("link", "/usr/sbin/mount.nfs4", "mount.nfs")]}
_LUSTRE: Package = {
    "version": "2.15.6-1fsx34",
    "files": [("program", "/usr/sbin/mount.lustre", "mount.shared"), ("program", "/usr/sbin/lnetctl", "lnetctl")],
}
#: Rehearsed hosts run this machine's kernel, for which the vendor has no Lustre module.
_KERNEL = os.uname().release
_FIRST_WITH_EPEL = 8
#: Oracle Linux 8 does not have OpenLDAP's server (Red Hat, "Considerations in adopting RHEL 8").
_FIRST_WITH_LDAP = 9
ORACLE: dict[str, Package] = {**dict.fromkeys(_PLAIN, Package()), "nfs-utils": _NFS}
_DEBIAN = (
    *(
        "build-essential",
        "libc6-dev",
        "netfilter-persistent",
        "ifupdown",
        "wpasupplicant",
        "module-assistant",
        "bzip2",
        "debhelper",
    ),
    *("libtool", "libyaml-dev", "libnl-genl-3-dev", "libselinux-dev", "libkeyutils-dev", "libmount-dev", "pkg-config"),
    *("autoconf", "automake", "quilt", "flex", "bison", "python3-dev", "libssl-dev", "libreadline-dev"),
)
_HEADERS: Package = {"files": [("link", f"/usr/lib/modules/{_KERNEL}/build", f"/usr/src/linux-headers-{_KERNEL}")]}
UBUNTU: dict[str, Package] = {
    **dict.fromkeys((*_PLAIN, *_DEBIAN), Package()),
    "nfs-common": _NFS,
    f"linux-headers-{_KERNEL}": _HEADERS,
    "munge": slurm_packages.MUNGE,
    **directory_packages.DEBIAN,
    **database_packages.DEBIAN,
}


def oracle(release: str) -> dict[str, Package]:
    """Return the packages of Oracle's own repositories for a release of Oracle Linux."""
    if int(release) < _FIRST_WITH_EPEL:
        return ORACLE
    place = f"https://yum$ociregion.oci.oraclecloud.com/repo/OracleLinux/OL{release}/developer/EPEL/x86_64/"
    name = f"ol{release}_developer_EPEL"
    repository = (
        f"[{name}]\nname=Oracle Linux {release} EPEL Packages for Development\nbaseurl={place}\ngpgcheck=1\nenabled=1\n"
    )
    files = [("text", f"/etc/yum.repos.d/oracle-epel-ol{release}.repo", repository)]
    return {
        **ORACLE,
        **directory_packages.EL,
        **database_packages.EL,
        "munge": slurm_packages.EL_MUNGE,
        "pmix": {"version": "3.2.3-5", "files": slurm_packages.PMIX_FILES},
        f"oracle-epel-release-el{release}": {"version": "1.0-4", "files": files},
    }


def at_oracle(address: str, release: str) -> dict[str, Package]:
    """Return the packages at an address of Oracle's repositories; Oracle's mirror of EPEL is one of these repositories."""
    if "/developer/EPEL/" not in address:
        return oracle(release)
    more = {"openldap-servers": directory_packages.EPEL} if int(release) >= _FIRST_WITH_LDAP else {}
    return slurm_packages.epel(release) | database_packages.epel(release) | more


def ubuntu(release: str) -> dict[str, Package]:
    """Return the packages of Ubuntu's archive for a release such as 22.04."""
    return UBUNTU | slurm_packages.debian(release)


AMAZON: dict[str, Package] = {**dict.fromkeys(_PLAIN, Package()), "nfs-utils": _NFS, "lustre-client": _LUSTRE}


def lustre_module(kernel: str) -> Package:
    """Return the package with the Lustre client's modules for one kernel."""
    return {"version": "2.15.6-1fsx34", "files": [("copy", f"/usr/lib/modules/{kernel}/updates/kernel/lustre.ko", "lnetctl")]}


#: Kernels for which the rehearsed FSx repository of jammy has modules. In September 2026, 6.8.0-1063 was the newest kernel
#: for which the real repository had a module.
_FSX_KERNELS = ("5.15.0-1051-aws", "6.2.0-1018-aws", "6.5.0-1024-aws", "6.8.0-1062-aws", "6.8.0-1063-aws")
#: No source says for which kernels noble's repository has modules, so noble's rehearsed repository has no modules.
_LUSTRE_FOR_NOBLE: dict[str, Package] = {
    "lustre-client-utils": _LUSTRE,
    "lustre-source": {"version": "2.15.6-1fsx34", "files": [("tree", "/usr/src/lustre-2.15.6.tar.bz2", "lustre-rules")]},
}
LUSTRE_FOR_UBUNTU: dict[str, Package] = {
    **{f"lustre-client-modules-{kernel}": lustre_module(kernel) for kernel in _FSX_KERNELS},
    **_LUSTRE_FOR_NOBLE,
}
#: FSx's repository for Ubuntu, by suite.
LUSTRE_BY_SUITE = {"jammy": LUSTRE_FOR_UBUNTU, "noble": _LUSTRE_FOR_NOBLE}

#: A version that the rehearsal chose; the vendor's repository may have newer versions.
NCCL_VERSION = "2.18.5-1+cuda12.2"

_NCCL: dict[str, Package] = {
    "libnccl": {
        "version": NCCL_VERSION,
        "files": [
            ("copy", "/usr/lib64/libnccl.so.2", "libnccl.so.2"),
            # Debian's loader does not search lib64.
            ("link", "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib64/libnccl.so.2"),
        ],
    },
    "libnccl-devel": {
        "version": NCCL_VERSION,
        "files": [("copy", "/usr/include/nccl.h", "nccl.h"), ("link", "/usr/lib64/libnccl.so", "libnccl.so.2")],
    },
    "libnccl-static": {"version": NCCL_VERSION},
}
#: Contents of package files that no repository serves, by the package's name.
FILES: dict[str, Package] = {
    "enroot": {
        "version": "4.1.2-1",
        "files": [
            ("program", "/usr/bin/enroot", "enroot"),
            # The package brings this hook, but does not install it into /etc/enroot/hooks.d.
            ("program", "/usr/share/enroot/hooks.d/50-slurm-pmi.sh", "slurm-pmi-hook"),
        ],
    },
    "enroot+caps": {"version": "4.1.2-1"},
}

#: NVIDIA's container toolkit. Each key is `NAME-VERSION`, because hosts request a version in this form. The vendor's packages
#: contain more programs than the packages here.
TOOLKIT: dict[str, Package] = {
    "nvidia-container-toolkit-base-1.18.0-1": {
        "version": "1.18.0-1",
        "files": [("program", "/usr/bin/nvidia-ctk", "nvidia-ctk")],
    },
    "libnvidia-container-tools-1.18.0-1": {
        "version": "1.18.0-1",
        "files": [("program", "/usr/bin/nvidia-container-cli", "nvidia-container-cli")],
    },
}
#: The toolkit's repository for apt. Hosts request a version as `NAME=VERSION`, so the keys have no version.
TOOLKIT_FOR_UBUNTU: dict[str, Package] = {
    "libnvidia-container-tools": TOOLKIT["libnvidia-container-tools-1.18.0-1"],
    "libnvidia-container1": {"version": "1.18.0-1"},
}
_AT: dict[str, dict[str, Package]] = {
    "nvidia.github.io/libnvidia-container/stable/rpm": TOOLKIT,
    "developer.download.nvidia.com/compute/cuda/repos/rhel{release}/x86_64": _NCCL,
    "cdn.amazonlinux.com/al2023/core/mirrors/latest/x86_64": AMAZON,
    "dl.fedoraproject.org/pub/epel/{release}": {"htop": {}, "pdsh": {}},
}


def served_at(address: str, release: str) -> dict[str, Package] | None:
    """Return the packages at a base URL, or below it, for a release; None if no repository is there."""
    place = address.rsplit("://", maxsplit=1)[-1].rstrip("/") + "/"
    return next((table for where, table in _AT.items() if place.startswith(where.format(release=release) + "/")), None)
