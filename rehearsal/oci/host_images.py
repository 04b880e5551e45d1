"""Contents of OCI's images: what each image puts on a host's root file system."""

from __future__ import annotations

from dataclasses import replace

from rehearsal.host import etc_files
from rehearsal.host.images import DNF, EVERYWHERE, IFUP, NVCC, SECURITY, YUM, Image

#: Firewall of Ubuntu images: it allows only SSH (the vendor's page "Security Rules", "rules.v4 of Ubuntu images").
_RULES = """*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT
-A INPUT -p icmp -j ACCEPT
-A INPUT -i lo -j ACCEPT
-A INPUT -p tcp -m state --state NEW -m tcp --dport 22 -j ACCEPT
-A INPUT -j REJECT --reject-with icmp-host-prohibited
COMMIT
"""
#: The NCCL version in OCI's images. No page of the vendor states this version; the rehearsal chose it.
NCCL = "2.18.5"


#: Name -> family, release, login user, commands, CUDA, driver, whether sshd_config includes a folder, whether the agent
#: gives the rails their names and addresses.
_ROWS: dict[str, tuple[etc_files.Family, str, str, dict[str, str], str, str, bool, bool]] = {
    "ol7": ("ol", "7.9", "opc", SECURITY | YUM | IFUP, "11.6", "510.47.03", False, False),
    "ol8": ("ol", "8.10", "opc", SECURITY | DNF | IFUP, "12.4", "550.90.12", False, True),
    "ol9": ("ol", "9.5", "opc", SECURITY | DNF, "13.0", "580.65.06", True, True),
    "ubuntu2204": ("ubuntu", "22.04", "ubuntu", {}, "13.0", "580.65.06", True, True),
    "ubuntu2404": ("ubuntu", "24.04", "ubuntu", {}, "13.0", "580.65.06", True, True),
}

#: The kernel of the Ubuntu images.
_UBUNTU_KERNEL = "6.8.0-1039-oracle"

NAMES = tuple(_ROWS)


def image(name: str) -> Image:
    """Return an image: ol7, ol8, ol9, ubuntu2204 or ubuntu2404 (cluster images end in `-gpu`), or ol9-driver.

    Raises:
        ValueError: there is no such image.
    """
    base, _, kind = name.partition("-")
    if name == "ol9-driver":
        return _driver_only()
    if base not in _ROWS or kind not in {"", "gpu"}:
        raise ValueError(f"image {name!r} is not rehearsed; use {', '.join(_ROWS)}, each also with -gpu.")
    gpu = kind == "gpu"
    family, release, user, commands, cuda, driver, includes, agent = _ROWS[base]
    old = base == "ol7"
    fabric = {"nvidia-smi": "nvidia-smi"} if gpu else {}
    mpi = "" if not gpu else "/usr/mpi/gcc/openmpi-4.1.2a1" if old else "/usr/mpi/gcc/openmpi-4.1.7a1"
    nccl = gpu and not old
    return Image(
        name=name,
        vendor="oracle",
        family=family,
        release=release,
        kernel=_UBUNTU_KERNEL if family == "ubuntu" else "",
        pretty=f"Oracle Linux Server {release}" if family == "ol" else f"Ubuntu {release} LTS",
        user=user,
        commands=EVERYWHERE | commands | fabric,
        real=(*(("modprobe",) if gpu else ()), *(("wpa_cli",) if gpu and agent else ())),
        cuda=cuda if gpu else "",
        driver=driver if gpu else "",
        mpi=mpi,
        includes=includes,
        agent=agent,
        nccl=NCCL,
        lustre=nccl,
        # OCI's DHCP options name the VCN's domain before the subnet's domain.
        parent_domain=True,
        own_texts=_texts(family, release, mpi) | (_modules(family) if gpu else {}),
        own_links=_links(family, nccl=nccl),
        own_copies=_copies(nccl=nccl),
    )


#: Folder where a host keeps the contents of the rehearsed registries' container images.
_INSIDE = "usr/lib/rehearsal/inside"


def _driver_only() -> Image:
    """Return the platform image with the GPU driver, but without OFED, MPI and CUDA."""
    plain = image("ol9")
    _, _, _, _, cuda, driver, _, _ = _ROWS["ol9"]
    return replace(
        plain,
        name="ol9-driver",
        release="9.6",
        pretty="Oracle Linux Server 9.6",
        commands={**plain.commands, "nvidia-smi": "nvidia-smi"},
        real=("modprobe",),
        # This folder gets the same links and mpirun as the MPI folder of other images, but hosts do not look for MPI in it.
        mpi=f"/{_INSIDE}/mpi",
        own_texts=_texts("ol", "9.6", "")
        | _modules("ol")
        | {
            "etc/rehearsal/driver": (f"{driver}\n", 0o644),
            f"{_INSIDE}/cuda/bin/nvcc": NVCC,
            f"{_INSIDE}/cuda/version.json": (f'{{"cuda" : "{cuda}"}}\n', 0o644),
        },
        own_copies=_copies(nccl=False),
    )


def _texts(family: etc_files.Family, release: str, mpi: str) -> dict[str, tuple[str, int]]:
    made = _oracle_linux(release) if family == "ol" else {}
    if family == "ubuntu":
        made["etc/iptables/rules.v4"] = (_RULES, 0o640)
    if mpi:
        script = f"export MPI_HOME={mpi} PATH={mpi}/bin:$PATH LD_LIBRARY_PATH={mpi}/lib64:$LD_LIBRARY_PATH\n"
        made[f"{mpi.lstrip('/')}/bin/mpivars.sh"] = (script, 0o755)
        limits = "* soft memlock unlimited\n* hard memlock unlimited\n"
        made["etc/security/limits.d/20-rdma.conf"] = (limits, 0o644)
    return made


#: No module is loaded on a rehearsed host. Its modprobe is the real program, but a configuration file (see `_modules`) makes it
#: create a file in this folder instead. Programs that check whether the module is loaded look for the created file.
MODULES = "/run/rehearsal/modules"


def _modules(family: etc_files.Family) -> dict[str, tuple[str, int]]:
    """Return the files for the module that the GPU driver installs; only Ubuntu's images load the module at boot.

    Source: oci-hpc-images 9263b5f: nvidia_driver/tasks/install-ubuntu-cuda-repo.yml, lines 87-91.
    """
    mark = f"{MODULES}/nvidia_peermem"
    loads = f"install nvidia_peermem /bin/mkdir -p {MODULES} && /bin/touch {mark}\nremove nvidia_peermem /bin/rm -f {mark}\n"
    made = {"etc/modprobe.d/rehearsal.conf": (loads, 0o644)}
    if family == "ubuntu":
        made["etc/modules-load.d/nvidia-peermem.conf"] = ("nvidia_peermem\n", 0o644)
    return made


def _links(family: etc_files.Family, *, nccl: bool) -> dict[str, str]:
    unit = "firewalld.service" if family == "ol" else "iptables.service"
    made = {f"etc/systemd/system/multi-user.target.wants/{unit}": f"/usr/lib/systemd/system/{unit}"}
    if nccl:
        made |= {"usr/lib64/libnccl.so": "libnccl.so.2", "usr/lib/x86_64-linux-gnu/libnccl.so.2": "/usr/lib64/libnccl.so.2"}
    return made


def _copies(*, nccl: bool) -> dict[str, str]:
    built = {"usr/lib64/libnccl.so.2": "libnccl.so.2", "usr/include/nccl.h": "nccl.h"}
    return {path: f"build/nccl-{NCCL}/{name}" for path, name in built.items()} if nccl else {}


def _oracle_linux(version: str) -> dict[str, tuple[str, int]]:
    release = version.partition(".")[0]
    base = f"https://yum$ociregion.oci.oraclecloud.com/repo/OracleLinux/OL{release}/latest/x86_64/"
    repository = f"[ol{release}_latest]\nname=Oracle Linux {release} Latest\nbaseurl={base}\nenabled=1\ngpgcheck=1\n"
    return {
        "etc/oracle-release": (f"Oracle Linux Server release {version}\n", 0o644),
        "etc/redhat-release": (f"Red Hat Enterprise Linux release {version}\n", 0o644),
        f"etc/yum.repos.d/oracle-linux-ol{release}.repo": (repository, 0o644),
        "etc/sysconfig/network-scripts/README": ("One ifcfg file for each interface.\n", 0o644),
        "etc/sysconfig/network": ("NETWORKING=yes\n", 0o644),
    }
