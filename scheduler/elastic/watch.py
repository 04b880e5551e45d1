"""Compares the nodes' states according to `reconcile`, the cloud and Slurm, and removes the differences."""

import uuid
from typing import Dict, Iterable, List, Sequence

from scheduler import hostlist
from scheduler.elastic import repair
from scheduler.elastic.cloud import CapacityError, CloudError, Listing
from scheduler.elastic.slurm import NodeState
from scheduler.elastic.state import Batch
from scheduler.elastic.work import LOST_S, PAUSE_S, Work

#: How often to ask the cloud for the cluster's machines while no change is expected; otherwise every run asks.
_CALM_S = 60
#: A machine may be missing from the cloud's lists for some time, mostly after its start (EC2: eventual consistency).
_UNSEEN_S = 120
#: How long Slurm may take to ask for a node that it shows as starting: Slurm asks once every
#: `power_save_min_interval`.
_UNASKED_S = 120
_IDS_PER_CALL = 1000
_ENDING = frozenset(("POWERING_DOWN", "POWER_DOWN"))
_OFF = _ENDING | {"POWERED_DOWN"}


def assign(work: Work, batch: Batch, ids: Iterable[str]) -> None:
    """Give machines that have no node yet to the nodes of a launch that have no machine yet."""
    owned = {its for one in work.state.batches.values() for its in one.machines.values()}
    free = [node for node in batch.nodes if node not in batch.machines]
    for node, machine in zip(free, sorted(set(ids) - owned - set(work.state.ending))):
        batch.machines[node] = machine


def look(work: Work) -> None:
    """Ask the cloud for the machines, and find machines that are new, gone, or without a node."""
    state, now = work.state, work.clock()
    changing = state.ending or any(one.missing or len(one.joined) < len(one.nodes) for one in state.batches.values())
    if not changing and now - state.listed_at < _CALM_S:
        return
    try:
        found = work.cloud.listing()
    except CloudError as error:
        work.say(f"the cloud does not list the cluster's machines, so nothing is concluded: {error}")
        return
    state.listed_at = now
    _failed(work, found)
    alive = {machine.id: machine for machine in found.machines if not machine.ended}
    for batch in list(state.batches.values()):
        own = [machine.id for machine in alive.values() if machine.token == batch.token]
        if own:
            batch.beside = ""  # the earlier network no longer existed, so the launch has a network of its own
        assign(work, batch, own or (machine.id for machine in alive.values() if machine.token == batch.beside))
        batch.addresses = {
            node: alive[its].address for node, its in batch.machines.items() if its in alive and alive[its].address
        }
        _lost(work, batch, found, now)
    owned = {its for batch in state.batches.values() for its in batch.machines.values()}
    costly = {machine.id: machine for machine in found.machines if machine.costs}
    for machine in costly.values():
        # The previous run may have been killed during the call that started this machine. Then the launch is repeated and
        # returns the machine, so the machine is kept.
        planned = machine.token in state.batches and state.batches[machine.token].launched_at is None
        if machine.id not in owned and machine.id not in state.ending and not planned:
            work.say(f"{machine.id} belongs to no node and is terminated")
            state.ending[machine.id] = now
    state.ending = {its: since for its, since in state.ending.items() if its in costly or since >= now}


def _failed(work: Work, found: Listing) -> None:
    for token, error in found.failed.items():
        batch = work.state.batches.get(token)
        if batch:
            refused(work, batch, error)


def refused(work: Work, batch: Batch, error: CloudError) -> None:
    """Plan a launch again in the next zone if its zone has no capacity; after any other error, the launch's job fails.

    The job also fails if no zone is left, or if nodes of the launch have joined. If a launch that joins a network fails, only
    its own nodes fail, and the set is not paused. A launch that is planned again gets another token, so machines that still
    start in the earlier zone belong to no node and are terminated.
    """
    if batch.beside:  # the machines in that network are not affected, and the set may still start elsewhere
        work.say(f"{batch.node_set}: {', '.join(batch.nodes)} cannot join the earlier launch's network: {error}")
        work.fail(list(batch.nodes), str(error), PAUSE_S)
        return
    if isinstance(error, CapacityError):
        zones = _zones(work, batch)
        batch.refused[zone(work, batch)] = str(error)
        # Nodes that have joined cannot get other machines at once, because Slurm already has the addresses of their machines.
        if not batch.joined and set(zones) - set(batch.refused):
            _renew(work, batch)
            work.say(f"{batch.node_set}: {zone(work, batch)} is tried next: {error}")
            return
        if len(zones) > 1:
            error = CapacityError(error.code, "; ".join(f"{name}: {said}" for name, said in batch.refused.items()))
    work.fail_group(batch, work.pause(batch.node_set, error), PAUSE_S)


def zone(work: Work, batch: Batch) -> str:
    """Return the zone for a launch: the first zone that was not out of capacity for this launch."""
    zones = _zones(work, batch)
    return next((one for one in zones if one not in batch.refused), zones[0])  # an update may have removed the other zones


def _zones(work: Work, batch: Batch) -> Sequence[str]:
    return work.cloud.zones(work.settings.sets[batch.node_set].spec)


def _renew(work: Work, batch: Batch) -> None:
    for machine in batch.machines.values():
        work.state.ending[machine] = work.clock()
    del work.state.batches[batch.token]
    anew = Batch(uuid.uuid4().hex, batch.node_set, batch.group, batch.nodes, batch.asked_at)
    anew.refused = batch.refused
    anew.error = "; ".join(f"{name}: {said}" for name, said in batch.refused.items())
    work.state.batches[anew.token] = anew


def _lost(work: Work, batch: Batch, found: Listing, now: float) -> None:
    """Fail nodes whose machine has ended by itself, or has not been listed for `_UNSEEN_S`; their jobs are requeued."""
    ended = {machine.id: machine for machine in found.machines if machine.ended}
    there = {machine.id for machine in found.machines}
    batch.missing = {node: batch.missing.get(node, now) for node, its in batch.machines.items() if its not in there}
    for node, its in list(batch.machines.items()):
        if its in ended or now - batch.missing.get(node, now) > _UNSEEN_S:
            why = ended[its].why if its in ended and ended[its].why else "the cloud does not list it as running any more"
            work.say(f"{node}: machine {its} has ended: {why}")
            work.fail([node], f"machine {its} has ended: {why}", LOST_S)
            if its not in ended or not ended[its].stopped:
                work.state.ending.pop(its)  # EC2 refuses a call with an id that it has forgotten


def terminate(work: Work) -> None:
    """Terminate unneeded machines, many with one call. The decision is saved first; later runs repeat a call that failed."""
    work.save()
    ids = sorted(work.state.ending)
    wanted = {token for batch in work.state.batches.values() for token in (batch.token, batch.beside)}
    for at in range(0, len(ids), _IDS_PER_CALL):
        try:
            work.cloud.terminate(ids[at : at + _IDS_PER_CALL], wanted)
        except CloudError as error:
            work.say(f"{len(ids)} machines have not been terminated yet: {error}")
            return


def agree(work: Work) -> None:
    """Make the states of Slurm's nodes agree with the state of `reconcile`.

    Slurm gets the states of failed nodes. Nodes that Slurm gave up are powered down, always-on nodes are started, and static
    nodes are repaired. Nodes that Slurm has powered down leave their launch, and `terminate` terminates their machines.

    Raises:
        SlurmError: Slurm does not answer.
    """
    state, now = work.state, work.clock()
    states = work.slurm.states()
    down: Dict[str, List[str]] = {}
    back: List[str] = []
    for node, its in state.failed.items():
        known = states.get(node)
        if known is None:
            continue
        if now >= its["until"] and (its.get("told") or known.flags & _OFF):
            back.append(node)
        elif "DOWN" not in known.flags or known.reason != its["reason"]:
            # A node is marked down even if `until` has passed: if this program has not run for a long time, Slurm does not know
            # yet that the machine is gone.
            down.setdefault(its["reason"], []).append(node)
        else:
            its["told"] = True
    for reason, nodes in down.items():
        work.slurm.down(nodes, reason)
    _orphaned(work, states)
    _return(work, back, states)
    lost = [node for node, its in states.items() if node not in back and _given_up(work, node, its)]
    work.slurm.power_down(lost)
    for batch in list(state.batches.values()):
        for node in list(batch.nodes):
            if node in states and states[node].is_off and node not in state.failed:
                work.end(batch, node)
    _comment(work, states)
    _keep_running(work, states)
    repair.static_nodes(work, states)
    state.pauses = {node_set: its for node_set, its in state.pauses.items() if now < its["until"]}


def _orphaned(work: Work, states: Dict[str, NodeState]) -> None:
    """Fail nodes that are in no launch, although Slurm shows them as running, or as starting for more than two minutes.

    This happens, for example, if an earlier controller started their machines.
    """
    lonely = [
        node
        for node, its in states.items()
        if (its.starts or not its.flags & _OFF)
        and "DOWN" not in its.flags
        and node not in work.state.failed
        and work.settings.set_of(node)
        and not work.state.batch_of(node)
    ]
    # Slurm shows a node as starting before it asks this program to start the node.
    work.state.unasked = {node: work.state.unasked.get(node, work.clock()) for node in lonely if states[node].starts}
    late = [node for node, since in work.state.unasked.items() if work.clock() - since > _UNASKED_S]
    nodes = [node for node in lonely if not states[node].starts] + late
    if nodes:
        reason = "this controller has no machine for it"
        work.say(f"{hostlist.short(nodes)} DOWN for a minute: {reason}")
        work.fail(nodes, reason, LOST_S)
        work.slurm.down(nodes, reason)


def _comment(work: Work, states: Dict[str, NodeState]) -> None:
    for node, text in list(work.state.comments.items()):
        if node in states:
            work.slurm.comment(node, text)
        del work.state.comments[node]


def _keep_running(work: Work, states: Dict[str, NodeState]) -> None:
    """Start the always-on nodes that are off: on a new cluster, after a machine has ended, or after a failure has expired."""
    if work.closed:
        return
    wanted = [
        node
        for key, one in work.settings.sets.items()
        for node in one.kept
        if node in states and states[node].is_off and key not in work.state.pauses
    ]
    missing = [node for node in wanted if node not in work.state.failed and not work.state.batch_of(node)]
    if missing:
        work.say("{} always run, and are started".format(", ".join(missing)))
        work.slurm.power_up(missing)


def _return(work: Work, nodes: List[str], states: Dict[str, NodeState]) -> None:
    """Let Slurm use nodes again whose failure has expired, except a node whose reason in Slurm is no longer that failure.

    Even a POWERED_DOWN node gets state=POWER_DOWN and not state=RESUME: after RESUME, the node would be NOT_RESPONDING, and
    after a restart of slurmctld 22.05 no job ever gets such a node (tested).
    """
    ours = [node for node in nodes if states[node].reason == work.state.failed[node]["reason"]]
    work.slurm.power_down([node for node in ours if not states[node].flags & _ENDING])
    for node in nodes:
        del work.state.failed[node]


def _given_up(work: Work, node: str, its: NodeState) -> bool:
    """Whether a dynamic node is DOWN for a reason that this program did not set, and is neither drained nor powered down."""
    ours = node in work.state.failed or not work.settings.set_of(node)
    return "DOWN" in its.flags and not its.flags & _OFF and not ours and "DRAIN" not in its.flags
