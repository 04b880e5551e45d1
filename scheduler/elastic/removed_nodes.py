"""Refuses an update that removes nodes on which jobs run, unless the stack file allows that many terminations."""

from typing import Callable, Dict

from scheduler.elastic.settings import Settings
from scheduler.elastic.slurm import NodeState, SlurmError
from scheduler.elastic.state import State

#: Flags of a node that runs a job, or whose job is ending (scontrol(1), "show node": State).
_BUSY = frozenset(("ALLOCATED", "MIXED", "COMPLETING"))


def refusal(state: State, wanted: Settings, states: Callable[[], Dict[str, NodeState]], path: str, allowed: int) -> str:
    """Return why the update to `wanted` is refused; empty if it is not.

    If Slurm does not answer, every removed node counts as a node on which jobs run.

    Args:
        state: the nodes with machines.
        wanted: the settings after the update.
        states: returns the states of Slurm's nodes; called only if a node with a machine would be removed.
        path: the key that allows terminations, as users type it.
        allowed: the value of that key.
    """
    removed = [node for batch in state.batches.values() for node in batch.nodes if wanted.set_of(node) != batch.node_set]
    if len(removed) <= allowed:
        return ""
    which = "on which jobs run"
    try:
        known = states()
        removed = [node for node in removed if node in known and known[node].flags & _BUSY]
    except SlurmError as error:
        which = f"on which jobs may run (Slurm does not answer: {error})"
    if len(removed) <= allowed:
        return ""
    names = ", ".join(sorted(removed))
    return (
        f"{path} is {allowed}, and the stack file no longer has these nodes, {which}: {names}. Their machines would be "
        f"terminated, and the jobs would end. Set {path} to {len(removed)} to allow this, wait until the jobs have ended, or "
        "undo the change"
    )
