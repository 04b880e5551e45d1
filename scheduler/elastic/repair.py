"""Repairs static nodes that do not answer. Their machines are kept: only an update creates and deletes them."""

from concurrent.futures import ThreadPoolExecutor
from typing import Dict

from scheduler.elastic.slurm import NodeState
from scheduler.elastic.work import Work

#: slurmctld's own reason for a node whose slurmd does not answer. The reason that this module sets begins with the same
#: text, and adds why the node could not be set up again.
_SILENT = "Not responding"
_PERIOD_S = 60
_WINDOW = 32


def static_nodes(work: Work, states: Dict[str, NodeState]) -> None:
    """Set up silent static nodes again, once a minute: name, munge key and slurmd. If this fails, `sinfo -R` shows why.

    Raises:
        SlurmError: Slurm does not answer.
    """
    state, now = work.state, work.clock()
    silent = [node for node in work.settings.static if node in states and _is_silent(states[node])]
    state.repaired = {node: at for node, at in state.repaired.items() if node in silent}
    due = [node for node in silent if now - state.repaired.get(node, 0) >= _PERIOD_S]
    if not due:
        return
    for node in due:
        state.repaired[node] = now
    work.save()
    with ThreadPoolExecutor(max_workers=_WINDOW) as pool:
        whys = list(pool.map(lambda node: work.join(node, *work.settings.static[node], work.addresses), due))
    for node, why in zip(due, whys):
        reason = f"{_SILENT}, and not reached: {why}"
        work.say(f"{node}: {reason}" if why else f"{node}: slurmd was started again")
        if why and states[node].reason != reason:
            work.slurm.down([node], reason)
    # A node that is DOWN for a reason set by this program stays DOWN until it is resumed (slurm.conf(5), ReturnToService).
    work.slurm.resume([node for node, why in zip(due, whys) if not why and states[node].reason != _SILENT])


def _is_silent(its: NodeState) -> bool:
    return "DOWN" in its.flags and "DRAIN" not in its.flags and its.reason.startswith(_SILENT)
