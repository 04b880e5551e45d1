"""slurm.conf, gres.conf and cgroup.conf of a cluster whose nodes are known, and the units that start its daemons.

The files are only on the controller: `slurmd` fetches them from it (configless). Timers, ports and the share of memory are
those of AWS ParallelCluster 3 (aws-parallelcluster-slurm, slurm.conf.erb), which runs on many clusters.
"""

import hashlib
from itertools import groupby
from typing import Dict, List, NamedTuple, Sequence

#: Several ports let slurmctld take a burst of registrations.
CONTROLLER_PORTS = (6820, 6829)
_NODE_PORT = 6818
#: Slurm drains a node with less memory than the file states, and the memory that kernels report varies a little.
_MEMORY_SHARE = 0.95
CONF = "/etc/slurm"
STATE = "/var/lib/slurm/slurmctld"
SPOOL = "/var/lib/slurm/slurmd"
LOGS = "/var/log/slurm"
#: First line of every file that busbar writes; files without it belong to somebody else.
MARK = "# Written by busbar; `pulumi up` writes it again."


class Cores(NamedTuple):
    """Processors of one node as `slurmd -C` counts them."""

    sockets: int
    cores: int
    threads: int


class Gpus(NamedTuple):
    """GPUs of one node.

    Attributes:
        kind: what jobs call them, `scheduler.names.gpu_type`.
        number: GPUs per node.
        devices: their files in /dev, as a pattern for gres.conf; empty without GPUs.
    """

    kind: str
    number: int
    devices: str


class Node(NamedTuple):
    """One machine that runs jobs.

    Attributes:
        name: its name in Slurm.
        hostname: its own host name.
        address: the address at which other machines reach it.
        memory_mib: main memory.
    """

    name: str
    hostname: str
    address: str
    cores: Cores
    memory_mib: int
    gpus: Gpus


class Cluster(NamedTuple):
    """One cluster.

    Attributes:
        name: ClusterName.
        controller: host name and address of the machine that runs slurmctld.
        queue: the partition, which contains all nodes and is the default for jobs.
        nodes: in any order; Slurm sorts them by name.
        cgroups: whether control groups restrict jobs to their processors and GPUs.
    """

    name: str
    controller: str
    controller_address: str
    queue: str
    nodes: Sequence[Node]
    cgroups: bool


def files(cluster: Cluster) -> Dict[str, str]:
    """Return every file of the controller's /etc/slurm by its name."""
    return {"slurm.conf": slurm_conf(cluster), "gres.conf": gres_conf(cluster), "cgroup.conf": cgroup_conf(cluster)}


def digest(cluster: Cluster) -> str:
    """Return 16 hex digits that change when a file does."""
    return hashlib.sha256(repr(sorted(files(cluster).items())).encode()).hexdigest()[:16]


def slurm_conf(cluster: Cluster) -> str:
    """Return slurm.conf."""
    tracking = {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/affinity"}
    if cluster.cgroups:
        tracking = {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/affinity,task/cgroup"}
    settings = {
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{cluster.controller}({cluster.controller_address})",
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "SlurmctldPort": "{}-{}".format(*CONTROLLER_PORTS),
        "SlurmdPort": str(_NODE_PORT),
        "SlurmctldParameters": "enable_configless",
        "StateSaveLocation": STATE,
        "SlurmdSpoolDir": SPOOL,
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": f"{LOGS}/slurmctld.log",
        "SlurmdLogFile": f"{LOGS}/slurmd.log",
        # There is no database, so this file lists the finished jobs.
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": f"{LOGS}/jobs.log",
        **tracking,
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "GresTypes": "gpu",
        "MpiDefault": "none",
        # A node that rebooted unexpectedly stays down until somebody has checked it.
        "ReturnToService": "1",
        "SlurmctldTimeout": "300",
        "SlurmdTimeout": "180",
        "MessageTimeout": "60",
        "BatchStartTimeout": "180",
    }
    lines = [MARK, *(f"{key}={value}" for key, value in settings.items())]
    for same, nodes in groupby(cluster.nodes, _hardware):
        lines += [f"NodeName=DEFAULT {same}"]
        lines += [f"NodeName={one.name} NodeHostname={one.hostname} NodeAddr={one.address}" for one in nodes]
    lines += [f"PartitionName={cluster.queue} Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
    return _text(lines)


def _hardware(node: Node) -> str:
    memory_mib = int(node.memory_mib * _MEMORY_SHARE)
    cores = "Sockets={} CoresPerSocket={} ThreadsPerCore={}".format(*node.cores)
    return f"{cores} RealMemory={memory_mib} Gres=gpu:{node.gpus.kind}:{node.gpus.number} State=UNKNOWN"


def gres_conf(cluster: Cluster) -> str:
    """Return gres.conf: the device files of each node's GPUs.

    A count without files is no GPU to Slurm: the node is then invalid, "gres/gpu count reported lower than configured".
    """
    lines = [MARK, "AutoDetect=off"]
    lines += [f"NodeName={one.name} Name=gpu Type={one.gpus.kind} File={one.gpus.devices}" for one in cluster.nodes]
    return _text(lines)


def cgroup_conf(cluster: Cluster) -> str:
    """Return cgroup.conf.

    Slurm 22.05 reads it even if nothing uses control groups; its automatic choice then fails, but version 1 works.
    """
    if not cluster.cgroups:
        return _text([MARK, "CgroupPlugin=cgroup/v1"])
    return _text([MARK, "CgroupPlugin=autodetect", "ConstrainCores=yes", "ConstrainDevices=yes"])


def units(controller_address: str) -> Dict[str, str]:
    """Return the systemd units by name.

    They replace the packages' own units, which start nothing on a machine without an /etc/slurm/slurm.conf.
    """
    server = f"{controller_address}:{CONTROLLER_PORTS[0]}"
    return {
        "slurmctld.service": _unit("Slurm's controller", "/usr/sbin/slurmctld -D"),
        "slurmd.service": _unit("Slurm on a node", f"/usr/sbin/slurmd -D --conf-server {server}"),
    }


def _unit(description: str, command: str) -> str:
    return _text(
        [
            MARK,
            "[Unit]",
            f"Description={description}",
            "After=network-online.target munge.service",
            "Wants=network-online.target munge.service",
            "",
            "[Service]",
            "Type=simple",
            f"ExecStart={command}",
            "ExecReload=/bin/kill -HUP $MAINPID",
            # Jobs outlive a restart, and RDMA locks memory.
            "KillMode=process",
            "Delegate=yes",
            "LimitNOFILE=131072",
            "LimitMEMLOCK=infinity",
            "LimitSTACK=infinity",
            "TasksMax=infinity",
            "Restart=on-failure",
            "RestartSec=5",
            "",
            "[Install]",
            "WantedBy=multi-user.target",
        ]
    )


def _text(lines: List[str]) -> str:
    return "\n".join(lines) + "\n"
