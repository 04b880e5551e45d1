"""Carries out Slurm's requests: starts and terminates machines, makes them nodes, and repairs faults."""

import os
import uuid
from collections import Counter
from typing import Dict, List

from scheduler import durable, node_setup
from scheduler.elastic import entry, places, spool, watch, windows
from scheduler.elastic.cloud import BusyError, CapacityError, CloudError, Launch
from scheduler.elastic.slurm import SlurmError
from scheduler.elastic.spool import Group, Wish
from scheduler.elastic.state import Batch
from scheduler.elastic.work import PAUSE_S, Work

_LONGEST_WAIT_S = 60


def once(work: Work) -> None:
    """Do everything that one run of `reconcile` does.

    The state is saved before each call that starts or terminates machines, so the next run continues a run that was killed.
    """
    take(work)
    _forget(work)
    windows.follow(work)
    if not work.closed:
        launch(work)
    watch.look(work)
    try:
        _join(work)
    except OSError as error:  # even if the disk is full, this run must still terminate machines
        work.say(f"no machine joins in this run: {error}")
    work.save()
    try:
        # Slurm requeues the jobs of nodes that become DOWN. If a machine is terminated before its node is DOWN, Slurm does not
        # requeue the node's job: the job's next srun cannot start its tasks, and the job fails (22.05, tested).
        watch.agree(work)
        places.follow(work)
    except SlurmError as error:
        work.say(f"Slurm did not answer or refused a request, so some nodes may keep their states: {error}")
    except OSError as error:
        work.say(f"nodes were not repaired, or Slurm's topology.conf was not updated: {error}")
    watch.terminate(work)


def take(work: Work) -> None:
    """Move Slurm's requests into the state, and remove them from the folder only after that."""
    wishes = spool.read(work.spool)
    for wish in wishes:
        if wish.kind == spool.RESUME:
            _plan(work, wish)
            continue
        nodes = [node for group in wish.groups for node in group.nodes]
        if wish.kind == spool.FAILED:
            work.fail(
                nodes, "slurmd did not answer within ResumeTimeout; see the machine's console and first boot's log", PAUSE_S
            )
        for node in nodes:
            batch = work.state.batch_of(node)
            if batch:
                work.end(batch, node)
    if wishes and work.save():
        spool.remove(wishes)
        durable.sync(work.spool)


def _forget(work: Work) -> None:
    """Terminate machines of nodes that the cluster does not have any more: an update removed or shrank their set."""
    for batch in list(work.state.batches.values()):
        for node in [one for one in batch.nodes if work.settings.set_of(one) != batch.node_set]:
            work.say(f"{node} is no node of this cluster any more")
            work.end(batch, node)
    work.state.failed = {node: its for node, its in work.state.failed.items() if work.settings.set_of(node)}
    for known in (work.state.pauses, work.state.shut):
        for key in [one for one in known if one not in work.settings.sets]:
            del known[key]


def _plan(work: Work, wish: Wish) -> None:
    """Plan a request's launches.

    A job that still needs several nodes gets one launch in each of the sets that contain these nodes. All other requested nodes
    of a set share one launch. If always-on nodes among them can join a network of always-on nodes, these nodes get a launch of
    their own.
    """
    loose: Dict[str, List[str]] = {}
    for group in wish.groups:
        by_set = _by_set(work, group)
        if sum(len(nodes) for nodes in by_set.values()) > 1:
            whole = f"{os.path.basename(wish.path)}:{group.job}"
            for node_set, nodes in by_set.items():
                _add(work, node_set, whole, nodes)
        else:
            for node_set, nodes in by_set.items():
                loose.setdefault(node_set, []).extend(nodes)
    for node_set, nodes in loose.items():
        kept = [node for node in nodes if node in work.settings.sets[node_set].kept]
        beside = _network(work, node_set) if kept else ""
        apart = [node for node in nodes if not beside or node not in kept]
        if apart:
            _add(work, node_set, "", apart)
        if beside:
            _add(work, node_set, "", kept, beside)


def _network(work: Work, node_set: str) -> str:
    """Return the network that has most of a set's always-on nodes; empty if no network has any, or networks cannot grow.

    A recreated node joins this network, so that the node is near the other always-on nodes.
    """
    if not work.cloud.grows:
        return ""
    kept = work.settings.sets[node_set].kept
    batches = [one for one in work.state.batches.values() if one.node_set == node_set]
    there = Counter(one.network for one in batches for node in one.machines if node in kept)
    return there.most_common(1)[0][0] if there else ""


def _by_set(work: Work, group: Group) -> Dict[str, List[str]]:
    """Return a job's nodes by set, without nodes that are in a launch already: a request may be read twice."""
    found: Dict[str, List[str]] = {}
    for node in group.nodes:
        node_set = work.settings.set_of(node)
        if node_set and not work.state.batch_of(node):
            found.setdefault(node_set, []).append(node)
    return found


def _add(work: Work, node_set: str, group: str, nodes: List[str], beside: str = "") -> None:
    batch = Batch(uuid.uuid4().hex, node_set, group, nodes, work.clock())
    batch.beside = beside
    work.state.batches[batch.token] = batch


def launch(work: Work) -> None:
    """Call the cloud once for each planned launch that is due."""
    waiting = [batch for batch in work.state.batches.values() if batch.launched_at is None]
    for batch in sorted(waiting, key=lambda one: one.asked_at):
        if batch.token not in work.state.batches:
            continue  # this launch failed together with another launch of its job
        if work.unsaved:
            return
        now = work.clock()
        pause = work.state.pauses.get(batch.node_set)
        patience_s = work.settings.sets[batch.node_set].start_timeout_s
        if pause and now < pause["until"] and not batch.beside:
            work.fail_group(batch, pause["reason"], pause["until"] - now)
        elif now > batch.asked_at + patience_s:
            why = batch.error or "no call was made"
            work.fail_group(batch, f"the cloud did not start the machines within {patience_s:.0f} s: {why}", PAUSE_S)
        elif now >= batch.not_before:
            _call(work, batch)
        work.save()


def _call(work: Work, batch: Batch) -> None:
    least = batch.count if batch.group else 1
    spec = work.settings.sets[batch.node_set].spec
    try:
        zone = watch.zone(work, batch)
        ids = work.cloud.launch(Launch(batch.token, batch.node_set, batch.count, least, spec, zone, batch.beside))
    except BusyError as error:
        # The call may have succeeded nevertheless; the same token starts nothing twice.
        batch.attempts += 1
        batch.not_before = work.clock() + min(2.0**batch.attempts, _LONGEST_WAIT_S)
        batch.error = str(error)
        work.say(f"{batch.node_set}: attempt {batch.attempts} failed and will be repeated: {error}")
    except CloudError as error:
        watch.refused(work, batch, error)
    else:
        batch.launched_at = work.clock()
        work.state.listed_at = 0
        work.say(f"{batch.node_set}: {batch.count} machines requested; so far the cloud has named {len(ids)} of them")
        watch.assign(work, batch, ids)
        short = batch.count - len(ids)
        if ids and short > 0:
            _short(work, batch, short)


def _short(work: Work, batch: Batch, missing: int) -> None:
    """Fail the nodes that a launch could not start: all of them if they must start together."""
    error = CapacityError("InsufficientCapacity", f"{missing} of {batch.count} machines were not started")
    reason = work.pause(batch.node_set, error)
    if batch.group:
        work.fail_group(batch, reason, PAUSE_S)
    else:
        work.fail([node for node in batch.nodes if node not in batch.machines], reason, PAUSE_S)


def _join(work: Work) -> None:
    """Turn machines that have an address into nodes; fail the node of each machine that was not reached in time."""
    # After a restart of slurmctld (22.05), a job that waited for nodes does not get the nodes' addresses. So the hosts
    # files must contain these addresses.
    node_setup.know(work.hosts, work.addresses)
    entry.let_in(work, entry.Desk(os.path.join(os.path.dirname(work.spool), entry.FOLDER)))
    waiting = [
        (batch, node)
        for batch in work.state.batches.values()
        for node in batch.nodes
        if node in batch.addresses and node not in batch.joined and not _is_tested_first(work, batch)
    ]
    for batch, node in work.each(work.join, waiting):
        batch.joined.append(node)
    if waiting:
        work.save()
    for batch in list(work.state.batches.values()):
        patience_s = work.settings.sets[batch.node_set].start_timeout_s
        since = batch.launched_at if batch.entered_at is None else batch.entered_at
        testing = batch.asked_entry_at is not None and batch.entered_at is None  # then only the test's own time limit applies
        if since is not None and not testing and work.clock() > since + patience_s:
            reached = batch.reached if _is_tested_first(work, batch) else batch.joined
            for node in [one for one in batch.nodes if one not in reached]:
                last = batch.said.get(node, "it has no address")
                work.fail([node], f"its machine was not ready within {patience_s:.0f} s: {last}", PAUSE_S)


def _is_tested_first(work: Work, batch: Batch) -> bool:
    return bool(work.settings.sets[batch.node_set].entry_script) and batch.entered_at is None
