"""The files that an image adds to a host's root file system; the Python package of each cloud lists the cloud's images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rehearsal.host import etc_files, package_state

IMAGE_FOLDER = Path(__file__).parents[1] / "image"

EVERYWHERE = dict.fromkeys(("vgcreate", "lvcreate", "mkfs.xfs", "mount"), "storage") | {"systemctl": "systemctl"}
YUM = {"yum": "yum"}
DNF = YUM | {"dnf": "yum"}
IFUP = {"ifup": "ifup"}
SECURITY = {"firewall-cmd": "firewall-cmd"}
#: Takes the place of CUDA's compiler. Builds check that the file exists but never execute it, so the file is not executable.
NVCC = ("There is no CUDA compiler here.\n", 0o644)
#: Commands that only Ubuntu's images have; a host of such an image uses this machine's commands.
IPTABLES = ("iptables", "iptables-save", "iptables-restore")
#: Debian's package tools. A host of an Ubuntu image uses this machine's tools, except `apt`; other hosts have none of them.
DPKG = ("apt", "apt-cache", "apt-get", "apt-mark", "dpkg", "dpkg-deb", "dpkg-query")
BY_PACKAGE = ("mount.nfs", "mount.nfs4", "mount.lustre")
#: The machine's programs of Slurm, munge and MariaDB, which no image has; a host gets them from packages.
SLURM = (
    *("sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue"),
    *("sreport", "srun", "sshare", "sstat", "strigger"),
    *(f"slurm{one}{end}" for one in ("ctld", "d", "stepd", "dbd") for end in ("", "-wlm")),
    *("munge", "unmunge", "remunge", "munged", "mungekey"),
    *("mariadb", "mariadb-install-db", "mariadbd", "mysql", "mysqld"),
)
#: The machine's Slurm headers, and the link to its PMIx library for compilers; no image has these. Packages bring both.
BY_DEVELOPMENT_PACKAGE = ("usr/include/slurm", "usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so")
#: Commands that a host has only if its `Image` lists them or a package installs them, even if the machine has them.
FOREIGN = tuple(
    dict.fromkeys(
        (
            *SECURITY,
            *IFUP,
            *DNF,
            "aws",
            "nvidia-smi",
            "modprobe",
            "wpa_cli",
            "snap",
            *BY_PACKAGE,
        )
    )
)


@dataclass(frozen=True)
class Image:
    """The parts of a vendor's image that first boot and the benchmark runner use.

    Attributes:
        name: the rehearsal's name for the image.
        vendor: the vendor whose stand-in programs the host uses.
        family: the distribution: `ol`, `ubuntu` or `amzn`.
        release: the distribution's version, as in os-release.
        kernel: release of the image's kernel; empty unless the image is Ubuntu's.
        pretty: the distribution's full name.
        user: the login user.
        commands: name of a stand-in command -> the stand-in's file in image/bin.
        real: commands of `FOREIGN` that this image takes from the machine.
        cuda: CUDA's version, or "" for an image without CUDA.
        driver: the GPU driver's version, or "" for an image without CUDA.
        mpi: MPI's folder, or "".
        includes: whether sshd reads /etc/ssh/sshd_config.d (OpenSSH from 8.2).
        agent: whether the vendor's agent gives the rails their names and addresses.
        nccl: version of NCCL in the image or in its packages.
        lustre: whether the image contains the Lustre client.
        parent_domain: whether DHCP puts the parent of the host's domain first on the search list.
        own_texts: the vendor's text files and their modes, by path below the root.
        own_links: the vendor's symbolic links, by path below the root.
        own_copies: path below the root -> source of the vendor's file, for files that are neither texts nor links. A source
            is a path relative to image/, or `build/` and a name in the build folder.
        builds: name of a file that the vendor adds to the build folder -> gcc's arguments that make the file.
    """

    name: str
    vendor: str = ""
    family: etc_files.Family = "ol"
    release: str = ""
    kernel: str = ""
    pretty: str = ""
    user: str = ""
    commands: Mapping[str, str] = field(default_factory=dict)
    real: tuple[str, ...] = ()
    cuda: str = ""
    driver: str = ""
    mpi: str = ""
    includes: bool = False
    agent: bool = False
    nccl: str = ""
    lustre: bool = False
    parent_domain: bool = False
    own_texts: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    own_links: Mapping[str, str] = field(default_factory=dict)
    own_copies: Mapping[str, str] = field(default_factory=dict)
    builds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def nccl_header(version: str) -> str:
    """Return the rehearsal's nccl.h for a version such as 2.27.7."""
    text = (IMAGE_FOLDER / "system/nccl.h.in").read_text()
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True):
        text = text.replace(f"@{name}@", number)
    return text


def absent(one: Image) -> list[str]:
    """Return the paths of this machine's commands and development files that the image does not have."""
    gone = [name for name in FOREIGN if name not in (*one.commands, *one.real) and not (name == "mount.lustre" and one.lustre)]
    gone += (*DPKG, *IPTABLES) if one.family != "ubuntu" else ("apt",)
    # An image has MPI's programs only in its own MPI folder, so its hosts lack this machine's programs of MPI.
    gone += (*SLURM, "nvcc", "mpirun", "mpiexec", "mpicc", "mpicxx", "mpic++", "mpiCC", "mpif77", "mpif90", "mpifort")
    return [*(f"usr/{folder}/{name}" for name in gone for folder in ("bin", "sbin")), *BY_DEVELOPMENT_PACKAGE]


def machine_mpi() -> Path:
    """Return the folder of this machine's Open MPI, from which an image's MPI is made.

    Raises:
        RuntimeError: the machine lacks Open MPI's headers.
    """
    installed = sorted(Path("/usr/lib").glob("*/openmpi/include/mpi.h"))
    if not installed:
        raise RuntimeError("the machine lacks libopenmpi-dev, which the image's MPI is made from.")
    return installed[0].parent.parent


def links(one: Image) -> dict[str, str]:
    """Return the image's symbolic links, among them MPI and CUDA in the vendor's folders.

    Raises:
        RuntimeError: the machine lacks the Open MPI from which the image's MPI is made.
    """
    made = {"etc/localtime": "/usr/share/zoneinfo/Etc/UTC", "usr/libexec/cloud-init": "/usr/lib/cloud-init"}
    if one.mpi:
        root = one.mpi.lstrip("/")
        libraries = machine_mpi()
        made |= {f"{root}/include": str(libraries / "include")}
        made |= {f"{root}/{name}": str(libraries / "lib") for name in ("lib64", "lib")}
        made |= {f"{root}/bin/{name}": f"/usr/bin/{name}.openmpi" for name in ("mpicc", "mpicxx", "mpiexec")}
        made[f"{root}/bin/mpiexec"] = "mpirun"
    if one.cuda:
        made["usr/local/cuda"] = f"/usr/local/cuda-{one.cuda}"
    return made | dict(one.own_links)


def copies(one: Image, built: Path) -> dict[str, str]:
    """Return the sources of the stand-ins and compiled files that are copied into the image, by path below the root."""
    nccl = built / f"nccl-{one.nccl}"
    made = {f"usr/lib/rehearsal/{name}": str(built / name) for name in ("init", "counters", "supplicant", "libshape.so")}
    made |= {f"usr/lib/rehearsal/{name}": str(nccl / name) for name in ("libnccl.so.2", "nccl.h")}
    if one.mpi:
        made[f"{one.mpi.lstrip('/')}/bin/mpirun"] = str(IMAGE_FOLDER / "bin/mpirun")
        made |= {f"usr/lib/rehearsal/{path.name}": str(path) for path in nccl.glob("nccl-tests-*.a")}
    if one.lustre:
        made["usr/sbin/mount.lustre"] = str(IMAGE_FOLDER / "system/mount.shared")
    for path, source in one.own_copies.items():
        folder, _, name = source.partition("/")
        made[path] = str(built / name if folder == "build" else IMAGE_FOLDER / source)
    return made


def texts(one: Image) -> dict[str, tuple[str, int]]:
    """Return the image's text files and their modes."""
    made = {
        "etc/os-release": (etc_files.os_release(one.family, one.release, one.pretty), 0o644),
        "etc/environment": ('PATH="/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin"\n', 0o644),
        "etc/sudoers": (etc_files.SUDOERS, 0o440),
        "etc/systemd/system/.keep": ("", 0o644),
        "etc/nsswitch.conf": ("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n", 0o644),
        "etc/fstab": ("/dev/sda1 / xfs defaults 0 0\n", 0o644),
        "etc/profile": (etc_files.PROFILE, 0o644),
        "etc/cloud/cloud.cfg": (etc_files.cloud_config(one.family, one.user), 0o644),
        "etc/ssh/sshd_config": (etc_files.sshd_config(includes=one.includes), 0o600),
        "etc/ssh/ssh_config": ("Host *\n    SendEnv LANG LC_*\n", 0o644),
        "etc/rehearsal/vendor": (f"{one.vendor}\n", 0o644),
        "etc/rehearsal/family": (f"{one.family} {one.release.partition('.')[0]}\n", 0o644),
        "etc/rehearsal/release": (f"{one.release}\n", 0o644),
    }
    if one.family == "ubuntu":
        made |= package_state.texts(one.release, one.kernel)
    if one.includes:
        made["etc/ssh/sshd_config.d/50-cloud.conf"] = ("PasswordAuthentication no\n", 0o600)
    if one.cuda:
        major, _, minor = one.cuda.partition(".")
        root = f"usr/local/cuda-{one.cuda}"
        made[f"{root}/bin/nvcc"] = NVCC
        made[f"{root}/version.json"] = (f'{{"cuda" : "{one.cuda}"}}\n', 0o644)
        header = f"#ifndef CUDA_H_\n#define CUDA_H_\n#define CUDA_VERSION {int(major) * 1000 + int(minor) * 10}\n#endif\n"
        made[f"{root}/include/cuda.h"] = (header, 0o644)
        made["etc/rehearsal/driver"] = (f"{one.driver}\n", 0o644)
    return made | dict(one.own_texts)
