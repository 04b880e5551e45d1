"""Tells Slurm where dynamic machines are: rewrites topology.conf from the cloud's answers whenever machines change."""

import hashlib
import os
from pathlib import Path
from typing import Dict, Mapping, Tuple

from scheduler import node_setup
from scheduler.elastic.cloud import CloudError, Machine
from scheduler.elastic.settings import LaunchSet
from scheduler.elastic.state import State
from scheduler.elastic.work import Work
from scheduler.slurm_conf import MARK
from scheduler.topology import Leaves, tree, unplaced

NAME = "topology.conf"
#: Shortest time between two questions to the cloud about one machine. A run that learns a new place rewrites topology.conf at
#: once; other runs rewrite it at most once in this time. No run rewrites it while a node is starting.
_PERIOD_S = 60
#: How long after a launch the cloud is still asked for a place that it has not reported yet. A cloud may know the place only
#: some time after the launch (EC2: not while the machine is pending).
_PATIENCE_S = 600


def conf(sets: Mapping[str, LaunchSet], state: State) -> str:
    """Return topology.conf of all nodes.

    Each launch set has a separate switch for its nodes that have no machine or whose machine is in an unknown place.
    """
    machines = {node: its for batch in state.batches.values() for node, its in batch.machines.items()}
    leaves: Leaves = {}
    for one in sets.values():
        for node in one.nodes:
            place = tuple(state.places.get(machines.get(node, ""), ()))
            leaves.setdefault(place or unplaced(one.queue, one.name), []).append(node)
    return f"{MARK}\n{tree(leaves)}"


def follow(work: Work) -> None:
    """Ask the cloud where new nodes are. If topology.conf must change and no node is starting, write it and make Slurm read it.

    Raises:
        SlurmError: Slurm does not answer.
    """
    state, now = work.state, work.clock()
    if not _is_ours(work.topology):
        return
    if not _learn(work) and now - state.placed_at < _PERIOD_S:
        return
    if not state.topology:  # this is the first run: slurmctld still has the file that the update wrote, so compare with it
        state.topology = _digest(Path(work.topology).read_bytes())
        state.save()  # if this run is killed after it writes the file, the next run must still notify Slurm
    wanted = conf(work.settings.sets, state).encode()
    digest = _digest(wanted)
    # From version 23.11 on, slurmctld restarts when it must read its files again. Nodes that start must register with
    # slurmctld, so the file is changed only while no node starts.
    if digest == state.topology or any(its.starts for its in work.slurm.states().values()):
        return
    node_setup.put(work.topology, wanted, 0o644, "root")
    work.slurm.reconfigure()
    state.topology, state.placed_at = digest, now


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _learn(work: Work) -> bool:
    """Ask for the still unknown places of nodes whose machines were launched less than about `_PATIENCE_S` ago.

    Returns whether the cloud reported the place of any machine.
    """
    state, now = work.state, work.clock()
    mine = {its: batch for batch in state.batches.values() for its in batch.machines.values()}
    state.places = {its: place for its, place in state.places.items() if its in mine}
    state.places_asked = {its: at for its, at in state.places_asked.items() if its in mine and its not in state.places}
    unknown = [
        Machine(batch.machines[node], batch.network, batch.addresses[node])
        for batch in state.batches.values()
        for node in batch.joined
        if batch.machines[node] not in state.places and node in batch.addresses
    ]
    asked = [one for one in unknown if now - state.places_asked.get(one.id, 0) >= _PERIOD_S]
    if not asked:
        return False
    state.places_asked.update((one.id, now) for one in asked)
    found: Dict[str, Tuple[str, ...]] = {}
    try:
        found = work.cloud.places(asked, work.ask)
    except CloudError as error:
        work.say(f"the cloud does not say where {len(asked)} machines are: {error}")
        return False
    for machine in asked:
        if machine.id in found:
            state.places[machine.id] = list(found[machine.id])
        elif now - (mine[machine.id].launched_at or now) > _PATIENCE_S:
            state.places[machine.id] = []
    return bool(found)


def _is_ours(path: str) -> bool:
    """Return whether busbar wrote the topology.conf at `path`; a file without busbar's mark belongs to somebody else."""
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8") as source:
        return source.readline().rstrip("\n") == MARK
