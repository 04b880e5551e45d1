"""Makes topology.conf: which nodes share a switch, so that Slurm places a job's nodes near each other.

A place is where a node is in the network: the cloud's own names, from the widest part of the network to the narrowest (AWS:
networkNodes of DescribeInstanceTopology; OCI: HPC island, network block, local block).
"""

import re
from typing import Dict, List, Tuple

from scheduler import hostlist
from scheduler.cluster import Cluster, dynamic_names

_ROOT = "cluster"

#: Nodes by place.
Leaves = Dict[Tuple[str, ...], List[str]]


def topology_conf(cluster: Cluster) -> str:
    """Return topology.conf without its first line; empty if jobs are not placed by topology."""
    return tree(_leaves(cluster)) if cluster.topology else ""


def unplaced(queue: str, node_set: str) -> Tuple[str, ...]:
    """Return the stand-in place of a set's dynamic nodes whose real place is unknown, mostly because they have no machine."""
    return (queue, node_set, "dynamic")


def _leaves(cluster: Cluster) -> Leaves:
    leaves: Leaves = {}
    for queue, one in cluster.sets:
        for node in one.static:
            leaves.setdefault(node.place or (queue.name, one.name, "static"), []).append(node.name)
        if one.dynamic:
            leaves.setdefault(unplaced(queue.name, one.name), []).extend(dynamic_names(queue.name, one.name, one.dynamic))
    return leaves


def tree(leaves: Leaves) -> str:
    """Return switches for `leaves`, all below one root, so that a job may always span all nodes."""
    # A switch joins either nodes or other switches. Shorter places are filled up, so that only the lowest switches join nodes.
    depth = max(len(place) for place in leaves)
    leaves = {place + ("nodes",) * (depth - len(place)): names for place, names in leaves.items()}
    lines = [f"SwitchName={_switch(place)} Nodes={hostlist.short(names)}" for place, names in sorted(leaves.items())]
    above: Dict[Tuple[str, ...], List[str]] = {}
    for place in leaves:
        for level in range(depth):
            switch = _switch(place[: level + 1])
            if switch not in above.setdefault(place[:level], []):
                above[place[:level]].append(switch)
    narrow_first = sorted(above, key=lambda its: (-len(its), its))
    lines += [f"SwitchName={_switch(place)} Switches={','.join(sorted(above[place]))}" for place in narrow_first]
    return "\n".join(lines) + "\n"


def _switch(place: Tuple[str, ...]) -> str:
    # Only letters, digits and underscores are kept, because Slurm would read brackets and commas as lists.
    return "-".join([_ROOT, *(re.sub(r"[^A-Za-z0-9_]+", "_", part) for part in place)])
