"""What each vendor image of the rehearsal looks like, as files to lay over a host's root; boots nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rehearsal.aws import efa_software
from rehearsal.host import etc

IMAGE_FOLDER = Path(__file__).parents[1] / "image"

STORAGE = ("vgcreate", "pvcreate", "lvcreate", "mdadm", "mkfs.xfs", "mkfs.ext4", "mount", "lsblk", "blkid")
EVERYWHERE = dict.fromkeys(STORAGE, "storage") | {name: name for name in ("systemctl", "timedatectl", "hostnamectl")}
YUM = {"yum": "yum", "yum-config-manager": "yum", "rpm": "yum"}
DNF = YUM | {"dnf": "yum"}
IFUP = {"ifup": "ifup", "ifdown": "ifup"}
ORACLE = {"firewall-cmd": "firewall-cmd", "setenforce": "setenforce", "getenforce": "setenforce"}
APT = dict.fromkeys(("apt-get", "apt", "apt-mark", "dpkg-query"), "yum")
UBUNTU = dict.fromkeys(("iptables", "ip6tables", "ufw", "netfilter-persistent"), "iptables") | APT
AMAZON = {"aws": "aws", "curl": "curl", "nvidia-smi": "nvidia-smi"}
BY_PACKAGE = ("mount.nfs", "mount.nfs4", "mount.lustre")
FOREIGN = tuple(dict.fromkeys((*ORACLE, *UBUNTU, *IFUP, *DNF, "aws", "ibdev2netdev", "nvidia-smi", "snap", *BY_PACKAGE)))
"""Commands that an image has only if its table or a package says so, whatever the machine has."""

NCCL = "2.18.5"
"""What OCI's images have; chosen by the rehearsal, as no page of the vendor's states it."""


@dataclass(frozen=True)
class Image:
    """One image of a vendor's, as far as first boot and the runner touch it.

    Attributes:
        vendor: `oracle` or `amazon`.
        family: `ol`, `ubuntu` or `amzn`.
        release: major version, as in os-release.
        pretty: its full name.
        user: the login user.
        commands: stand-ins by name and the file that is one.
        cuda: CUDA's version, or "" for an image without GPU software.
        driver: the GPU driver's version.
        mpi: MPI's folder, or "".
        includes: whether sshd reads /etc/ssh/sshd_config.d (OpenSSH from 8.2).
        agent: whether the vendor's agent names and addresses the rails.
        nccl: version of the NCCL in the image, or "".
        lustre: whether somebody built the Lustre client into it, for the vendor has no package of it.
    """

    vendor: str
    family: etc.Family
    release: str
    pretty: str
    user: str
    commands: dict[str, str]
    cuda: str
    driver: str
    mpi: str
    includes: bool
    agent: bool
    nccl: str
    lustre: bool = False


_ORACLE: dict[str, tuple[etc.Family, str, str, dict[str, str], str, str, bool, bool]] = {
    "ol7": ("ol", "7.9", "opc", ORACLE | YUM | IFUP, "11.6", "510.47.03", False, False),
    "ol8": ("ol", "8.10", "opc", ORACLE | DNF | IFUP, "12.4", "550.90.12", False, True),
    "ol9": ("ol", "9.5", "opc", ORACLE | DNF, "13.0", "580.65.06", True, True),
    "ubuntu2204": ("ubuntu", "22.04", "ubuntu", UBUNTU, "13.0", "580.65.06", True, True),
    "ubuntu2404": ("ubuntu", "24.04", "ubuntu", UBUNTU, "13.0", "580.65.06", True, True),
}
_AMAZON: dict[str, tuple[etc.Family, str, str, str, dict[str, str]]] = {
    "ubuntu2204": ("ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "ubuntu", UBUNTU),
    "al2023": ("amzn", "2023", "Amazon Linux 2023.7.20250512", "ec2-user", DNF),
}


def image(name: str) -> Image:
    """The image of that name.

    OCI's are ol7, ol8, ol9, ubuntu2204 or ubuntu2404, with `-gpu` for the cluster images; AWS's are ubuntu2204-aws and
    al2023-aws.

    Raises:
        ValueError: there is none.
    """
    base, _, kind = name.partition("-")
    if kind == "aws" and base in _AMAZON:
        return _amazon(base)
    if base not in _ORACLE or kind not in {"", "gpu"}:
        amazons = ", ".join(f"{one}-aws" for one in _AMAZON)
        raise ValueError(f"image {name!r} is not rehearsed; {', '.join(_ORACLE)} are, each also with -gpu, and {amazons}.")
    return _oracle(base, gpu=kind == "gpu")


def _oracle(base: str, *, gpu: bool) -> Image:
    family, release, user, commands, cuda, driver, includes, agent = _ORACLE[base]
    old = base == "ol7"
    fabric = {"ibdev2netdev": "ibdev2netdev"} | ({"nvidia-smi": "nvidia-smi"} if gpu else {})
    return Image(
        vendor="oracle",
        family=family,
        release=release,
        pretty=f"Oracle Linux Server {release}" if family == "ol" else f"Ubuntu {release} LTS",
        user=user,
        commands=EVERYWHERE | commands | fabric,
        cuda=cuda if gpu else "",
        driver=driver if gpu else "",
        mpi="" if not gpu else "/usr/mpi/gcc/openmpi-4.1.2a1" if old else "/usr/mpi/gcc/openmpi-4.1.7a1",
        includes=includes,
        agent=agent,
        nccl=NCCL if gpu and not old else "",
        lustre=gpu and not old,
    )


def _amazon(base: str) -> Image:
    family, release, pretty, user, commands = _AMAZON[base]
    return Image(
        vendor="amazon",
        family=family,
        release=release,
        pretty=pretty,
        user=user,
        commands=EVERYWHERE | commands | AMAZON,
        cuda="12.8",
        driver="570.133.20",
        mpi=efa_software.MPI,
        includes=True,
        agent=False,
        nccl=efa_software.NCCL,
    )


def nccl_header(version: str) -> str:
    """The rehearsal's nccl.h for a version such as 2.27.7."""
    text = (IMAGE_FOLDER / "system/nccl.h.in").read_text()
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True):
        text = text.replace(f"@{name}@", number)
    return text


def absent(one: Image) -> list[str]:
    """Commands of the machine that this image does not have."""
    gone = [name for name in FOREIGN if name not in one.commands and not (name == "mount.lustre" and one.lustre)]
    # The machine's MPI is only the engine below the image's own.
    return [*gone, "nvcc", "mpirun", "mpiexec", "mpicc", "mpicxx", "mpic++", "mpiCC", "mpif77", "mpif90", "mpifort"]


def links(one: Image) -> dict[str, str]:
    """Symbolic links of the image: MPI and CUDA at the vendor's places.

    Raises:
        RuntimeError: the machine has no Open MPI to stand below the image's.
    """
    made = {"etc/localtime": "/usr/share/zoneinfo/Etc/UTC", "usr/libexec/cloud-init": "/usr/lib/cloud-init"}
    if one.mpi:
        root = one.mpi.lstrip("/")
        installed = sorted(Path("/usr/lib").glob("*/openmpi/include/mpi.h"))
        if not installed:
            raise RuntimeError("the machine lacks libopenmpi-dev, which the image's MPI is made from.")
        libraries = installed[0].parent.parent
        made |= {f"{root}/include": str(libraries / "include")}
        made |= {f"{root}/{name}": str(libraries / "lib") for name in ("lib64", "lib")}
        made |= {f"{root}/bin/{name}": f"/usr/bin/{name}.openmpi" for name in ("mpicc", "mpicxx", "mpiexec")}
        made[f"{root}/bin/mpiexec"] = "mpirun"
    if one.cuda:
        made["usr/local/cuda"] = f"/usr/local/cuda-{one.cuda}"
    if one.nccl and one.vendor == "oracle":
        made |= {"usr/lib64/libnccl.so": "libnccl.so.2", "usr/lib/x86_64-linux-gnu/libnccl.so.2": "/usr/lib64/libnccl.so.2"}
    elif one.nccl:
        made[f"usr/local/cuda-{one.cuda}/lib/libnccl.so"] = "libnccl.so.2"
    if one.vendor == "oracle":
        # AWS leaves filtering to security groups.
        unit = "firewalld.service" if one.family == "ol" else "iptables.service"
        made[f"etc/systemd/system/multi-user.target.wants/{unit}"] = f"/usr/lib/systemd/system/{unit}"
    return made


def copies(one: Image, built: Path) -> dict[str, str]:
    """Files of the image that are copied from the stand-ins and from what was compiled for them."""
    nccl = built / f"nccl-{one.nccl or NCCL}"
    made = {f"usr/lib/rehearsal/{name}": str(built / name) for name in ("init", "counters")}
    made |= {f"usr/lib/rehearsal/{name}": str(nccl / name) for name in ("libnccl.so.2", "nccl.h")}
    if one.mpi:
        made[f"{one.mpi.lstrip('/')}/bin/mpirun"] = str(IMAGE_FOLDER / "bin/mpirun")
    if one.cuda:
        made[f"usr/local/cuda-{one.cuda}/bin/nvcc"] = str(IMAGE_FOLDER / "bin/nvcc")
    if one.nccl:
        oracle = one.vendor == "oracle"
        library, header = (
            ("usr/lib64", "usr/include") if oracle else (f"usr/local/cuda-{one.cuda}/{x}" for x in ("lib", "include"))
        )
        made |= {f"{library}/libnccl.so.2": str(nccl / "libnccl.so.2"), f"{header}/nccl.h": str(nccl / "nccl.h")}
    if one.vendor == "amazon":
        made |= efa_software.copies(one.family, built, IMAGE_FOLDER / "bin")
    if one.lustre:
        made["usr/sbin/mount.lustre"] = str(IMAGE_FOLDER / "system/mount.shared")
    if one.family == "ol":
        made["usr/libexec/oci-growfs"] = str(IMAGE_FOLDER / "bin/oci-growfs")
    return made


def texts(one: Image) -> dict[str, tuple[str, int]]:
    """Text files of the image and their modes."""
    made = {
        "etc/os-release": (etc.os_release(one.family, one.release, one.pretty), 0o644),
        "etc/environment": ('PATH="/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin"\n', 0o644),
        "etc/sudoers": (etc.SUDOERS, 0o440),
        "etc/nsswitch.conf": ("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n", 0o644),
        "etc/fstab": ("/dev/sda1 / xfs defaults 0 0\n", 0o644),
        "etc/profile": (etc.PROFILE, 0o644),
        "etc/cloud/cloud.cfg": (etc.cloud_config(one.family, one.user), 0o644),
        "etc/ssh/sshd_config": (etc.sshd_config(includes=one.includes), 0o600),
        "etc/ssh/ssh_config": ("Host *\n    SendEnv LANG LC_*\n", 0o644),
        "etc/rehearsal/vendor": (f"{one.vendor}\n", 0o644),
        "etc/rehearsal/family": (f"{one.family} {one.release.partition('.')[0]}\n", 0o644),
    }
    if one.includes:
        made["etc/ssh/sshd_config.d/50-cloud.conf"] = ("PasswordAuthentication no\n", 0o600)
    if one.family == "ol":
        made |= _oracle_linux(one)
    elif one.vendor == "oracle":
        rules = "*filter\n-A INPUT -p tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT\nCOMMIT\n"
        made["etc/iptables/rules.v4"] = (rules, 0o640)
    if one.vendor == "amazon":
        made |= efa_software.texts(one.family)
    elif one.mpi:
        script = f"export MPI_HOME={one.mpi} PATH={one.mpi}/bin:$PATH LD_LIBRARY_PATH={one.mpi}/lib64:$LD_LIBRARY_PATH\n"
        made[f"{one.mpi.lstrip('/')}/bin/mpivars.sh"] = (script, 0o755)
        limits = "* soft memlock unlimited\n* hard memlock unlimited\n"
        made["etc/security/limits.d/20-rdma.conf"] = (limits, 0o644)
    if one.cuda:
        major, _, minor = one.cuda.partition(".")
        root = f"usr/local/cuda-{one.cuda}"
        made[f"{root}/version.json"] = (f'{{"cuda" : "{one.cuda}"}}\n', 0o644)
        header = f"#ifndef CUDA_H_\n#define CUDA_H_\n#define CUDA_VERSION {int(major) * 1000 + int(minor) * 10}\n#endif\n"
        made[f"{root}/include/cuda.h"] = (header, 0o644)
        made["etc/rehearsal/driver"] = (f"{one.driver}\n", 0o644)
    return made


def _oracle_linux(one: Image) -> dict[str, tuple[str, int]]:
    release = one.release.partition(".")[0]
    base = f"https://yum$ociregion.oci.oraclecloud.com/repo/OracleLinux/OL{release}/latest/x86_64/"
    repository = f"[ol{release}_latest]\nname=Oracle Linux {release} Latest\nbaseurl={base}\nenabled=1\ngpgcheck=1\n"
    return {
        "etc/oracle-release": (f"Oracle Linux Server release {one.release}\n", 0o644),
        "etc/redhat-release": (f"Red Hat Enterprise Linux release {one.release}\n", 0o644),
        f"etc/yum.repos.d/oracle-linux-ol{release}.repo": (repository, 0o644),
        "etc/sysconfig/network-scripts/README": ("One ifcfg file for each interface.\n", 0o644),
        "etc/sysconfig/network": ("NETWORKING=yes\n", 0o644),
    }
