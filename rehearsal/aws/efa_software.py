"""Files that AWS's machine images add to a distribution (EFA's software, NCCL's plugin), and the firmware's DMI values.

The packages that first boot installs are in image/packages.py. Source of folders and versions: AWS Deep Learning AMI release
notes; AWS tested EFA installer 1.43.2 together with aws-ofi-nccl 1.16.3 and libfabric 2.1.
"""

from __future__ import annotations

import re

from rehearsal.image.internet import EFA_INSTALLER

INSTALLER, PLUGIN, LIBFABRIC = EFA_INSTALLER, "1.16.3", "2.1"
MPI = "/opt/amazon/openmpi"
NCCL = "2.27.7"
#: C macro -> version that the compiled plugin prints.
VERSIONS = {"PLUGIN_VERSION": PLUGIN, "LIBFABRIC_VERSION": LIBFABRIC}

#: Instance types on which the plugin selects its RDMA protocol (aws-ofi-nccl:src/platform-aws.cpp).
_WRITES = re.compile(r"p([5-9]|\d\d)|g7e")

_EFA_LIBRARIES = "/opt/amazon/efa/lib"
_INSTALLED = ("efa-config", "efa-profile", "libfabric1-aws", "openmpi40-aws", "rdma-core", f"libnccl-ofi_{PLUGIN}")


def protocol(instance_type: str) -> str:
    """Return how NCCL's plugin moves bytes on an instance type: `RDMA` (remote writes) or `SENDRECV` (messages)."""
    return "RDMA" if _WRITES.match(instance_type) else "SENDRECV"


def plugin_folder(family: str) -> str:
    """Return the folder where the installer puts NCCL's plugin: the architecture's library folder on Ubuntu, else lib64."""
    return "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu" if family == "ubuntu" else "/opt/amazon/ofi-nccl/lib64"


#: Folder with the files that the rehearsed installer copies to the root folder. An image with EFA's software also has each of
#: these files in its final place, so the installer changes nothing there.
INSTALLER_FILES = "usr/lib/rehearsal/efa"


def copies(family: str) -> dict[str, str]:
    """Return the source of each file of the EFA installer, by path below the root, in the form of `Image.own_copies`."""
    plugin = plugin_folder(family).lstrip("/")
    made = {f"{plugin}/{name}": "build/libnccl-net.so" for name in ("libnccl-net.so", "libnccl-net-ofi.so")}
    return made | {f"{INSTALLER_FILES}/{path}": source for path, source in made.items()}


def texts(family: str) -> dict[str, tuple[str, int]]:
    """Return the text files of the EFA installer and of the package sources: text and mode of each file, by path."""
    installed = f"# EFA installer version: {INSTALLER}\n# Debug packages installed: no\n# Packages installed:\n"
    traces = {
        "opt/amazon/efa_installed_packages": installed + " ".join(_INSTALLED) + "\n",
        "opt/amazon/efa/lib/README": "libfabric is not rehearsed; NCCL's plugin finds the devices by itself.\n",
        "etc/ld.so.conf.d/000_efa.conf": f"{_EFA_LIBRARIES}\n",
        "etc/ld.so.conf.d/100_ofinccl.conf": f"{plugin_folder(family)}\n",
        "etc/profile.d/zippy_efa.sh": f"export PATH={MPI}/bin:/opt/amazon/efa/bin:$PATH\n",
        "etc/security/limits.d/01_efa.conf": "* soft memlock unlimited\n* hard memlock unlimited\n",
    }
    made = traces | {f"{INSTALLER_FILES}/{path}": text for path, text in traces.items()}
    made["etc/sysctl.d/README"] = "One file for each set of kernel settings.\n"
    if family == "amzn":
        base = "https://cdn.amazonlinux.com/al2023/core/mirrors/latest/x86_64/"
        repository = f"[amazonlinux]\nname=Amazon Linux 2023 repository\nbaseurl={base}\nenabled=1\ngpgcheck=1\n"
        made["etc/yum.repos.d/amazonlinux.repo"] = repository
    else:
        made["etc/apt/sources.list.d/README"] = "One file for each further repository.\n"
        made["usr/share/keyrings/README"] = "Keys of repositories.\n"
    return {path: (text, 0o644) for path, text in made.items()}


def firmware(instance_type: str, instance_id: str) -> dict[str, str]:
    """Return the contents of the files in /sys/class/dmi/id that every user can read on EC2, by file name."""
    return {
        "sys_vendor": "Amazon EC2",
        "chassis_asset_tag": "Amazon EC2",
        "product_name": instance_type,
        "board_asset_tag": instance_id,
    }
