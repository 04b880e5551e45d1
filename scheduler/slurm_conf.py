"""Makes slurm.conf of a cluster with several queues, and with static and dynamic nodes.

Timers, ports and the share of memory are the same as in AWS ParallelCluster 3 (aws-parallelcluster-slurm, slurm.conf.erb),
which runs on many clusters.
"""

from typing import Dict, List

from scheduler import accounting, hostlist
from scheduler.cluster import Cluster, Hardware, NodeSet, Queue

#: With several ports, slurmctld can handle a burst of registrations.
CONTROLLER_PORTS = (6820, 6829)
NODE_PORT = 6818
#: Port of the user directory (LDAP over TLS).
DIRECTORY_PORT = 636
#: Ports on which nodes reach an srun on another machine. By default, srun uses any port, so no firewall rule could allow only
#: the ports of srun.
CLIENT_PORTS = (60001, 63000)
#: slurm.conf states this share of a node's memory. Slurm drains a node that reports less, and reported sizes vary a little.
_MEMORY_SHARE = 0.95
CONF = "/etc/slurm"
STATE = "/var/lib/slurm/slurmctld"
SPOOL = "/var/lib/slurm/slurmd"
LOGS = "/var/log/slurm"
#: Folder of the programs with which Slurm starts and terminates nodes.
PROGRAMS = "/usr/local/sbin"
#: First line of Slurm's configuration files if busbar wrote them; a file without this line is somebody else's.
MARK = "# Written by busbar; `pulumi up` writes it again."
#: Time limit for powering a node down; Slurm can start the node again only after this time.
_END_TIMEOUT_S = 120
#: Static nodes are preferred, because they run anyway.
_WEIGHTS = {"static": 1, "dynamic": 1000}


def slurm_conf(cluster: Cluster) -> str:
    """Return slurm.conf."""
    lines = [MARK, *(f"{key}={value}" for key, value in _settings(cluster).items())]
    for queue, one in cluster.sets:
        lines += _nodes(cluster, queue, one)
    lines += _queues(cluster)
    return "\n".join(lines) + "\n"


def _settings(cluster: Cluster) -> Dict[str, str]:
    tracking = {"ProctrackType": "proctrack/linuxproc", "TaskPlugin": "task/affinity"}
    if cluster.cgroups:
        tracking = {"ProctrackType": "proctrack/cgroup", "TaskPlugin": "task/affinity,task/cgroup"}
    found = {
        "ClusterName": cluster.name,
        "SlurmctldHost": f"{cluster.controller}({cluster.controller_address})",
        "SlurmUser": "slurm",
        "AuthType": "auth/munge",
        "SlurmctldPort": "{}-{}".format(*CONTROLLER_PORTS),
        "SlurmdPort": str(NODE_PORT),
        "SlurmctldParameters": ",".join(["enable_configless", *(_ELASTIC if cluster.elastic else [])]),
        "StateSaveLocation": STATE,
        "SlurmdSpoolDir": SPOOL,
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": f"{LOGS}/slurmctld.log",
        "SlurmdLogFile": f"{LOGS}/slurmd.log",
        # This file lists the finished jobs, also on a cluster without a database.
        "JobCompType": "jobcomp/filetxt",
        "JobCompLoc": f"{LOGS}/jobs.log",
        **tracking,
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory" if cluster.memory else "CR_CPU",
        "GresTypes": "gpu",
        "MpiDefault": "none",
        # A static node that rebooted unexpectedly stays down until somebody has checked it; a dynamic node gets a new machine.
        "ReturnToService": "1",
        "SlurmctldTimeout": "300",
        "SlurmdTimeout": "180",
        "MessageTimeout": "60",
        "BatchStartTimeout": "180",
    }
    if cluster.topology:
        # Not topology/block: Slurm before 23.11 lacks this plugin, and blocks do not suit machines that come and go.
        found["TopologyPlugin"] = "topology/tree"
    if cluster.scripts:
        # A node whose prolog fails is drained, and its job goes to other nodes instead of waiting for a person.
        found.update(Prolog=f"{CONF}/prolog.d/*", Epilog=f"{CONF}/epilog.d/*", SchedulerParameters="nohold_on_prolog_fail")
    if cluster.accounting:
        found.update(accounting.settings(cluster))
    return {**found, **(_power_saving(cluster) if cluster.elastic else {})}


#: A dynamic node has no address until it registers; the memory of its machine type is only the vendor's nominal value.
_ELASTIC = ["cloud_reg_addrs", "idle_on_node_suspend", "power_save_min_interval=30", "node_reg_mem_percent=75"]


def _power_saving(cluster: Cluster) -> Dict[str, str]:
    """Return the settings with which Slurm starts and terminates nodes; each queue has its own idle time."""
    kept = [node.name for _, one in cluster.sets for node in one.static]
    kept += [name for queue, one in cluster.sets for name in one.split(queue.name)[0]]
    return {
        **({"SuspendExcNodes": hostlist.short(kept)} if kept else {}),
        "ResumeProgram": f"{PROGRAMS}/busbar-resume",
        "SuspendProgram": f"{PROGRAMS}/busbar-suspend",
        "ResumeFailProgram": f"{PROGRAMS}/busbar-resume-failed",
        # There is no limit on nodes per minute, so that a job's nodes start together.
        "ResumeRate": "0",
        "SuspendRate": "0",
        "SuspendTimeout": str(_END_TIMEOUT_S),
        "RebootProgram": "/sbin/reboot",
        "ReconfigFlags": "KeepPartState",
        # Without this setting, sinfo hides nodes that do not run.
        "PrivateData": "cloud",
        # Not every node can look up every other node by name, so slurmctld itself sends every message to every node.
        "TreeWidth": "65533",
        "SrunPortRange": "{}-{}".format(*CLIENT_PORTS),
    }


def _nodes(cluster: Cluster, queue: Queue, one: NodeSet) -> List[str]:
    hardware = _hardware(one.hardware)
    labels = _labels("static", queue, one) if len(cluster.queues) > 1 or cluster.elastic else ""
    # Every line has all values, and there are no NodeName=DEFAULT lines: a DEFAULT line that does not set a value keeps the
    # value of the previous DEFAULT line.
    lines = [
        f"NodeName={node.name} NodeHostname={node.hostname} NodeAddr={node.address} {hardware} State=UNKNOWN{labels}"
        for node in one.static
    ]
    for kind, names in zip(("static", "dynamic"), one.split(queue.name)):
        if names:
            lines.append(f"NodeName={hostlist.short(names)} {hardware} State=CLOUD{_labels(kind, queue, one)}")
    return lines


def _labels(kind: str, queue: Queue, one: NodeSet) -> str:
    features = ",".join(dict.fromkeys((kind, _members(queue), one.name, *one.features)))
    return f" Weight={_WEIGHTS[kind]} Feature={features}"


def _members(queue: Queue) -> str:
    """Return the feature that all nodes of a queue have. Their NodeSet has the same name; no node's name ends with `_nodes`."""
    return f"{queue.name}_nodes"


def _hardware(hardware: Hardware) -> str:
    cores = "Sockets={} CoresPerSocket={} ThreadsPerCore={}".format(*hardware.cores)
    gpus = f" Gres=gpu:{hardware.gpus.kind}:{hardware.gpus.number}" if hardware.gpus.number else ""
    return f"{cores} RealMemory={int(hardware.memory_mib * _MEMORY_SHARE)}{gpus}"


def _queues(cluster: Cluster) -> List[str]:
    several = len(cluster.queues) > 1
    lines = [f"NodeSet={_members(queue)} Feature={_members(queue)}" for queue in cluster.queues if several]
    for queue in cluster.queues:
        words = [f"PartitionName={queue.name}", f"Nodes={_members(queue) if several else 'ALL'}"]
        words += [f"Default={'YES' if queue.default else 'NO'}", "MaxTime=INFINITE", "State=UP"]
        if cluster.elastic:
            dynamic = any(one.dynamic for one in queue.sets)
            words += [f"SuspendTime={queue.idle_min * 60 if dynamic else 'INFINITE'}", f"ResumeTimeout={queue.start_timeout_s}"]
        lines.append(" ".join(words))
    return lines
