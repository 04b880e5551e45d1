"""Makes Slurm's configuration files for the controller, from which each `slurmd` fetches them (configless).

On a machine that is only a node, busbar writes at most the scripts in prolog.d and epilog.d to /etc/slurm.
"""

import hashlib
from typing import Dict, List

from scheduler import hostlist
from scheduler.cluster import Cluster, dynamic_names
from scheduler.plugins import plugstack_conf
from scheduler.slurm_conf import MARK, slurm_conf
from scheduler.topology import topology_conf


def files(cluster: Cluster) -> Dict[str, str]:
    """Return the text of each configuration file by its name."""
    found = {"slurm.conf": slurm_conf(cluster), "gres.conf": gres_conf(cluster), "cgroup.conf": cgroup_conf(cluster)}
    if cluster.containers:
        found["plugstack.conf"] = plugstack_conf()
    joined = topology_conf(cluster)
    return {**found, "topology.conf": f"{MARK}\n{joined}"} if joined else found


def scripts() -> Dict[str, str]:
    """Return a first script for each of the folders prolog.d and epilog.d, by its path below /etc/slurm on every node.

    For slurmd 22.05, an empty folder is a prolog that fails, and then no job ever runs (tested).
    """
    text = f"#!/bin/sh\n{MARK}\n# Slurm runs every script in this folder, and requires at least one.\n"
    return {f"{folder}/00_busbar": text for folder in ("prolog.d", "epilog.d")}


def digest(cluster: Cluster) -> str:
    """Return 16 hex digits that change whenever one of the files changes."""
    return hashlib.sha256(repr(sorted(files(cluster).items())).encode()).hexdigest()[:16]


def gres_conf(cluster: Cluster) -> str:
    """Return gres.conf: the device files of each node's GPUs.

    If a node had a GPU count but no device files, Slurm would mark the node invalid: "gres/gpu count reported lower than
    configured".
    """
    lines = [MARK, "AutoDetect=off"]
    for queue, one in cluster.sets:
        names = [node.name for node in one.static]
        if one.dynamic:
            names.append(hostlist.short(dynamic_names(queue.name, one.name, one.dynamic)))
        gpus = one.hardware.gpus
        lines += [f"NodeName={name} Name=gpu Type={gpus.kind} File={gpus.devices}" for name in names if gpus.number]
    return _text(lines)


def cgroup_conf(cluster: Cluster) -> str:
    """Return cgroup.conf.

    Slurm 22.05 reads this file even if nothing uses control groups; the automatic choice of the plugin then fails, but
    cgroup/v1 works.
    """
    if not cluster.cgroups:
        return _text([MARK, "CgroupPlugin=cgroup/v1"])
    memory = ["ConstrainRAMSpace=yes"] if cluster.memory else []
    return _text([MARK, "CgroupPlugin=autodetect", "ConstrainCores=yes", "ConstrainDevices=yes", *memory])


def _text(lines: List[str]) -> str:
    return "\n".join(lines) + "\n"
