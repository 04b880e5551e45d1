"""Reads and changes the states of Slurm's nodes, with `scontrol` on the controller."""

import re
import subprocess
from typing import Dict, FrozenSet, NamedTuple, Sequence

from scheduler import hostlist

_TIMEOUT_S = 60
_NODE = re.compile(r"NodeName=(\S+) .*?\bState=(\S+)(?:.*? Reason=(.*?) \[[^\]\s]+@[^\]\s]+\])?")


#: States of a node that Slurm was asked to start, or that is starting.
_STARTING = frozenset(("POWER_UP", "POWERING_UP"))


class NodeState(NamedTuple):
    """One node: its flags in `scontrol show node` (IDLE, CLOUD, POWERED_DOWN ...), and its reason."""

    flags: FrozenSet[str]
    reason: str

    @property
    def starts(self) -> bool:
        """Whether Slurm was asked to start the node, or the node is starting."""
        return bool(self.flags & _STARTING)

    @property
    def is_off(self) -> bool:
        """Whether the node has no machine and is not starting.

        POWERED_DOWN is not enough: if a node's start was requested twice, Slurm 22.05 shows POWERED_DOWN even while it starts.
        """
        return "POWERED_DOWN" in self.flags and not self.starts


class SlurmError(Exception):
    """slurmctld does not answer, or refuses the request."""


class Slurm:
    """The cluster's slurmctld."""

    def states(self) -> Dict[str, NodeState]:
        """Return the state of every node by name."""
        return read(_said(["scontrol", "--oneliner", "show", "nodes"]))

    def down(self, nodes: Sequence[str], reason: str) -> None:
        """Take nodes out of service: Slurm requeues their jobs, and `sinfo -R` shows the reason."""
        _update(nodes, "state=DOWN", f"reason={reason}")

    def power_down(self, nodes: Sequence[str]) -> None:
        """Let Slurm power nodes down, after which it can use their names again."""
        _update(nodes, "state=POWER_DOWN")

    def power_up(self, nodes: Sequence[str]) -> None:
        """Make Slurm start these nodes, although no job has asked for them."""
        _update(nodes, "state=POWER_UP")

    def resume(self, nodes: Sequence[str]) -> None:
        """Return nodes to service."""
        _update(nodes, "state=RESUME")

    def reconfigure(self) -> None:
        """Make Slurm read its files again; call this only while no node is starting. Running jobs and nodes continue."""
        _said(["scontrol", "reconfigure"])

    def comment(self, node: str, text: str) -> None:
        """Set the comment that `scontrol show node` shows."""
        _update([node], f"comment={text}")


def read(text: str) -> Dict[str, NodeState]:
    """Return the nodes in the output of `scontrol --oneliner show nodes`."""
    found = {}
    for line in text.splitlines():
        match = _NODE.match(line)
        if match:
            name, state, reason = match.groups()
            found[name] = NodeState(frozenset(state.replace("*", "").split("+")), reason or "")
    return found


def _update(nodes: Sequence[str], *changes: str) -> None:
    if nodes:
        _said(["scontrol", "update", f"nodename={hostlist.short(nodes)}", *changes])


def _said(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise SlurmError(str(error)) from None
    if done.returncode:
        raise SlurmError((done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1])
    return done.stdout.decode("utf-8", "replace")
