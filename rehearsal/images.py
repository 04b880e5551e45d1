"""What each vendor image of the rehearsal looks like, as files to lay over a host's root; boots nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

IMAGE_FOLDER = Path(__file__).with_name("image")

STORAGE = ("vgcreate", "pvcreate", "lvcreate", "mdadm", "mkfs.xfs", "mkfs.ext4", "mount", "lsblk", "blkid")
EVERYWHERE = dict.fromkeys(STORAGE, "storage") | {
    name: name for name in ("systemctl", "timedatectl", "hostnamectl", "ibdev2netdev")
}
ORACLE = {"firewall-cmd": "firewall-cmd", "setenforce": "setenforce", "getenforce": "setenforce", "rpm": "yum"}
UBUNTU = dict.fromkeys(("iptables", "ip6tables", "ufw", "netfilter-persistent"), "iptables") | dict.fromkeys(
    ("apt-get", "apt", "dpkg-query"), "yum"
)
FOREIGN = tuple({**ORACLE, **UBUNTU, "ifup": "", "ifdown": "", "yum": "", "dnf": "", "yum-config-manager": "", "snap": ""})
"""Commands that an image has only if its table says so, whatever the machine has."""


@dataclass(frozen=True)
class Image:
    """One image of the vendor's, as far as first boot and the runner touch it.

    Attributes:
        family: `ol` or `ubuntu`.
        release: major version, as in os-release.
        pretty: its full name.
        user: the login user.
        commands: stand-ins by name and the file that is one.
        cuda: CUDA's version, or "" for an image without GPU software.
        driver: the GPU driver's version.
        mpi: MPI's folder, or "".
        includes: whether sshd reads /etc/ssh/sshd_config.d (OpenSSH from 8.2).
        agent: whether the vendor's agent names and addresses the rails.
        nccl: whether NCCL is in the image.
    """

    family: str
    release: str
    pretty: str
    user: str
    commands: dict[str, str]
    cuda: str
    driver: str
    mpi: str
    includes: bool
    agent: bool
    nccl: bool


def image(name: str) -> Image:
    """The image of that name: ol7, ol8, ol9, ubuntu2204 or ubuntu2404, with `-gpu` for the cluster images.

    Raises:
        ValueError: there is none.
    """
    base, _, kind = name.partition("-")
    gpu = kind == "gpu"
    yum = {"yum": "yum", "yum-config-manager": "yum"}
    ifup = {"ifup": "ifup", "ifdown": "ifup"}
    new_mpi = "/usr/mpi/gcc/openmpi-4.1.7a1" if gpu else ""
    known = {
        "ol7": ("ol", "7.9", "opc", ORACLE | yum | ifup, "11.6", "510.47.03", False, False),
        "ol8": ("ol", "8.10", "opc", ORACLE | yum | ifup | {"dnf": "yum"}, "12.4", "550.90.12", False, True),
        "ol9": ("ol", "9.5", "opc", ORACLE | yum | {"dnf": "yum"}, "13.0", "580.65.06", True, True),
        "ubuntu2204": ("ubuntu", "22.04", "ubuntu", UBUNTU, "13.0", "580.65.06", True, True),
        "ubuntu2404": ("ubuntu", "24.04", "ubuntu", UBUNTU, "13.0", "580.65.06", True, True),
    }
    if base not in known or kind not in {"", "gpu"}:
        raise ValueError(f"image {name!r} is not rehearsed; {', '.join(known)} are, each also with -gpu.")
    family, release, user, commands, cuda, driver, includes, agent = known[base]
    pretty = f"Oracle Linux Server {release}" if family == "ol" else f"Ubuntu {release} LTS"
    old = base == "ol7"
    return Image(
        family=family,
        release=release,
        pretty=pretty,
        user=user,
        commands=EVERYWHERE | commands | ({"nvidia-smi": "nvidia-smi"} if gpu else {}),
        cuda=cuda if gpu else "",
        driver=driver if gpu else "",
        mpi="/usr/mpi/gcc/openmpi-4.1.2a1" if gpu and old else new_mpi,
        includes=includes,
        agent=agent,
        nccl=gpu and not old,
    )


def absent(one: Image) -> list[str]:
    """Commands of the machine that this image does not have."""
    gone = [name for name in FOREIGN if name not in one.commands]
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
    if one.nccl:
        made |= {"usr/lib64/libnccl.so": "libnccl.so.2", "usr/lib/x86_64-linux-gnu/libnccl.so.2": "/usr/lib64/libnccl.so.2"}
    if one.family == "ol":
        made["etc/systemd/system/multi-user.target.wants/firewalld.service"] = "/usr/lib/systemd/system/firewalld.service"
    else:
        made["etc/systemd/system/multi-user.target.wants/iptables.service"] = "/usr/lib/systemd/system/iptables.service"
    return made


def copies(one: Image, built: Path) -> dict[str, str]:
    """Files of the image that are copied from the stand-ins and from what was compiled for them."""
    made = {f"usr/lib/rehearsal/{name}": str(built / name) for name in ("init", "counters", "libnccl.so.2")}
    if one.mpi:
        made[f"{one.mpi.lstrip('/')}/bin/mpirun"] = str(IMAGE_FOLDER / "bin/mpirun")
    if one.cuda:
        made[f"usr/local/cuda-{one.cuda}/bin/nvcc"] = str(IMAGE_FOLDER / "bin/nvcc")
    if one.nccl:
        made |= {
            "usr/lib64/libnccl.so.2": str(built / "libnccl.so.2"),
            "usr/include/nccl.h": str(IMAGE_FOLDER / "system/nccl.h"),
        }
    if one.family == "ol":
        made["usr/libexec/oci-growfs"] = str(IMAGE_FOLDER / "bin/oci-growfs")
    return made


def texts(one: Image) -> dict[str, tuple[str, int]]:
    """Text files of the image and their modes."""
    made = {
        "etc/os-release": (_os_release(one), 0o644),
        "etc/environment": ('PATH="/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin"\n', 0o644),
        "etc/sudoers": (_SUDOERS, 0o440),
        "etc/nsswitch.conf": ("passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\n", 0o644),
        "etc/fstab": ("/dev/sda1 / xfs defaults 0 0\n", 0o644),
        "etc/profile": (_PROFILE, 0o644),
        "etc/cloud/cloud.cfg": (_cloud_config(one), 0o644),
        "etc/ssh/sshd_config": (_sshd_config(one), 0o600),
        "etc/ssh/ssh_config": ("Host *\n    SendEnv LANG LC_*\n", 0o644),
        "etc/rehearsal/family": (f"{one.family} {one.release.partition('.')[0]}\n", 0o644),
    }
    if one.includes:
        made["etc/ssh/sshd_config.d/50-cloud.conf"] = ("PasswordAuthentication no\n", 0o600)
    if one.family == "ol":
        made |= _oracle_linux(one)
    else:
        rules = "*filter\n-A INPUT -p tcp --dport 22 -j ACCEPT\n-A INPUT -j REJECT\nCOMMIT\n"
        made["etc/iptables/rules.v4"] = (rules, 0o640)
    if one.mpi:
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


def _os_release(one: Image) -> str:
    name = "ol" if one.family == "ol" else "ubuntu"
    title = "Oracle Linux Server" if one.family == "ol" else "Ubuntu"
    return f'NAME="{title}"\nVERSION="{one.release}"\nID="{name}"\nVERSION_ID="{one.release}"\nPRETTY_NAME="{one.pretty}"\n'


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


_SUDOERS = """Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
@includedir /etc/sudoers.d
"""

_PROFILE = """export PATH=/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin
for one in /etc/profile.d/*.sh; do [ -r "$one" ] && . "$one"; done
unset one
"""


def _sshd_config(one: Image) -> str:
    first = "Include /etc/ssh/sshd_config.d/*.conf\n" if one.includes else ""
    return first + (
        "Port 22\nHostKey /etc/ssh/ssh_host_ed25519_key\nHostKey /etc/ssh/ssh_host_ecdsa_key\n"
        "PermitRootLogin prohibit-password\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "UsePAM yes\nX11Forwarding no\nPrintMotd no\nAcceptEnv LANG LC_*\n"
        "Subsystem sftp /usr/lib/openssh/sftp-server\nPidFile /run/sshd.pid\n"
    )


def _cloud_config(one: Image) -> str:
    """The vendor's modules, less those that look for disks and snaps that a rehearsed host has not."""
    oracle = one.family == "ol"
    package_sources = "yum-add-repo" if oracle else "apt-configure"
    return f"""# The image's own settings; user data comes over them.
users: [default]
disable_root: true
preserve_hostname: false
ssh_genkeytypes: [ed25519, ecdsa]
ssh_deletekeys: true
locale: false
manage_etc_hosts: false
network: {{config: disabled}}
apt: {{preserve_sources_list: true}}
datasource_list: [NoCloud]
datasource: {{NoCloud: {{fs_label: null}}}}
output: {{all: '| tee -a /var/log/cloud-init-output.log'}}
cloud_init_modules: [bootcmd, write-files, disk_setup, mounts, set_hostname, update_hostname, update_etc_hosts,
  ca-certs, users-groups, ssh]
cloud_config_modules: [ssh-import-id, set-passwords, {package_sources}, ntp, timezone, runcmd]
cloud_final_modules: [package-update-upgrade-install, write-files-deferred, scripts-vendor, scripts-per-once,
  scripts-per-boot, scripts-per-instance, scripts-user, ssh-authkey-fingerprints, keys-to-console, phone-home,
  final-message, power-state-change]
system_info:
  distro: {"rhel" if oracle else "ubuntu"}
  default_user:
    name: {one.user}
    lock_passwd: true
    gecos: Cloud User
    groups: [adm, systemd-journal]
    sudo: ["ALL=(ALL) NOPASSWD:ALL"]
    shell: /bin/bash
  paths: {{cloud_dir: /var/lib/cloud/, templates_dir: /etc/cloud/templates/}}
  ssh_svcname: {"sshd" if oracle else "ssh"}
"""
