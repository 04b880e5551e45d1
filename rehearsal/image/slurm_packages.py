"""The packages of Slurm and munge, with each distribution's files and versions.

The programs are Slurm 22.05, from Debian's packages on the machine that runs the rehearsal ("this machine" below).
"""

from __future__ import annotations

from rehearsal.image.package import Package

#: Folder on a host with this machine's programs. A host has no Slurm and no munge until a package links the programs.
_MACHINE = "/usr/lib/rehearsal/machine"
_MUNGE_PROGRAMS = ("bin/munge", "bin/unmunge", "bin/remunge", "sbin/munged", "sbin/mungekey")
_CLIENTS = (
    *("sacct", "sacctmgr", "salloc", "sattach", "sbatch", "sbcast", "scancel", "scontrol", "sdiag", "sinfo", "sprio", "squeue"),
    *("sreport", "srun", "sshare", "sstat", "strigger"),
)


#: Path of the link to this machine's PMIx library; a host lacks the link until a package installs it.
PMIX = "usr/lib/x86_64-linux-gnu/pmix2/lib/libpmix.so"


def _programs(*paths: str) -> list[tuple[str, str, str]]:
    return [("link", f"/usr/{path}", f"{_MACHINE}/{path}") for path in paths]


def daemon(name: str) -> list[tuple[str, str, str]]:
    """Return the files of a Slurm daemon: its unit, and links to its programs, which Debian names differently (slurmd-wlm)."""
    after = "KillMode=process\nDelegate=yes\n" if name == "slurmd" else ""
    unit = (
        "[Unit]\nDescription=Slurm daemon\nAfter=network-online.target munge.service\nWants=network-online.target\n"
        f"ConditionPathExists=/etc/slurm/{'slurmdbd' if name == 'slurmdbd' else 'slurm'}.conf\n\n[Service]\nType=simple\n"
        f"EnvironmentFile=-/etc/sysconfig/{name}\nEnvironmentFile=-/etc/default/{name}\n"
        f"ExecStart=/usr/sbin/{name} -D -s ${name.upper()}_OPTIONS\nExecReload=/bin/kill -HUP $MAINPID\n{after}"
        "LimitNOFILE=65536\nTasksMax=infinity\n\n[Install]\nWantedBy=multi-user.target\n"
    )
    both = ("slurmd", "slurmstepd") if name == "slurmd" else (name,)
    ending = "" if name == "slurmdbd" else "-wlm"
    programs = [("link", f"/usr/sbin/{one}", f"{_MACHINE}/sbin/{one}{ending}") for one in both]
    return [*programs, ("text", f"/usr/lib/systemd/system/{name}.service", unit)]


_MUNGE_UNIT = (
    "[Unit]\nDescription=MUNGE authentication service\nAfter=network-online.target\n\n[Service]\nType=forking\n"
    "EnvironmentFile=-/etc/sysconfig/munge\nEnvironmentFile=-/etc/default/munge\nExecStart=/usr/sbin/munged $OPTIONS\n"
    "PIDFile=/run/munge/munged.pid\nRuntimeDirectory=munge\nRuntimeDirectoryMode=0755\nUser=munge\nGroup=munge\n\n"
    "[Install]\nWantedBy=multi-user.target\n"
)
_MUNGE_FILES = [*_programs(*_MUNGE_PROGRAMS), ("text", "/usr/lib/systemd/system/munge.service", _MUNGE_UNIT)]
# The users, user ids and folders below are those that Debian's packages create.
MUNGE: Package = {
    "version": "0.5.15-2",
    "files": _MUNGE_FILES,
    "postinst": """getent passwd munge || useradd --system --no-create-home --shell /usr/sbin/nologin munge
for folder in /etc/munge /var/lib/munge /var/log/munge; do install -d -o munge -g munge -m 700 $folder; done
[ -e /etc/munge/munge.key ] || head -c 128 /dev/urandom > /etc/munge/munge.key
chown munge: /etc/munge/munge.key; chmod 600 /etc/munge/munge.key
systemctl enable --now munge
""",
}
_SLURM_USER = """getent passwd slurm || useradd --uid 64030 --no-create-home --shell /usr/sbin/nologin slurm
install -d -o slurm -g slurm /var/lib/slurm /var/log/slurm
install -d /etc/slurm
"""
#: Files that hosts lack until a package installs them: Slurm's headers, and a link with the name under which Slurm loads PMIx.
_HEADERS = [("link", "/usr/include/slurm", f"{_MACHINE}/include/slurm")]
PMIX_FILES = [("link", f"/{PMIX}", "libpmix.so.2")]
#: Ubuntu release -> version of Ubuntu's Slurm packages. The programs' `--version` prints the version of this machine's Slurm.
_SLURM_VERSIONS = {"22.04": "21.08.5-2ubuntu1", "24.04": "23.11.4-1.2ubuntu5"}


def debian(ubuntu: str) -> dict[str, Package]:
    """Return Slurm as in the archive of an Ubuntu release, such as 22.04."""
    version = _SLURM_VERSIONS.get(ubuntu, "22.05.8-4")
    parts = {
        "slurmctld": daemon("slurmctld"),
        "slurmd": daemon("slurmd"),
        "slurm-client": _programs(*(f"bin/{one}" for one in _CLIENTS)),
    }
    made: dict[str, Package] = {
        name: {"version": version, "files": files, "postinst": _SLURM_USER} for name, files in parts.items()
    }
    return made | {"libslurm-dev": {"version": version, "files": _HEADERS}, "libpmix-dev": {"files": PMIX_FILES}}


#: The example of slurm.conf in the packages of Fedora and EPEL. No daemon can start with it.
_EXAMPLE = """#
# Example slurm.conf file. Please run configurator.html
# (in doc/html) to build a configuration file customized
# for your environment.
#
ClusterName=cluster
SlurmctldHost=linux0
SlurmUser=slurm
StateSaveLocation=/var/spool/slurm/ctld
SlurmdSpoolDir=/var/spool/slurm/d
NodeName=linux[1-32] CPUs=1 State=UNKNOWN
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def epel(release: str) -> dict[str, Package]:
    """Return Slurm as in Oracle's mirror of EPEL. These packages create no user (Fedora's slurm.spec, 17.11 to 25: no %pre)."""
    version = f"{'20.11.9' if release == '8' else '22.05.9'}-1.el{release}"
    texts = [("text", "/etc/slurm/slurm.conf", _EXAMPLE), ("text", "/etc/slurm/cgroup.conf", "CgroupAutomount=yes\n")]
    return {
        "slurm": {
            "version": version,
            "files": [*_programs(*(f"bin/{one}" for one in _CLIENTS)), *texts],
            "needs": ["munge"],
            "postinst": "install -d /var/log/slurm /var/spool/slurm/ctld /var/spool/slurm/d\n",
        },
        "slurm-slurmctld": {"version": version, "files": daemon("slurmctld"), "needs": ["slurm"]},
        "slurm-slurmd": {"version": version, "files": daemon("slurmd"), "needs": ["slurm"]},
        "slurm-devel": {"version": version, "files": _HEADERS, "needs": ["slurm"]},
        "htop": {},
        "pdsh": {},
    }


#: munge is in the distribution itself from Oracle Linux 8 on; munge does not start until somebody creates a key.
EL_MUNGE: Package = {
    "version": "0.5.13-13",
    "files": _MUNGE_FILES,
    "postinst": """getent passwd munge || useradd --system --no-create-home --shell /sbin/nologin munge
for folder in /etc/munge /var/lib/munge /var/log/munge; do install -d -o munge -g munge -m 700 $folder; done
""",
}
