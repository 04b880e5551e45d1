"""Reads Slurm's node states: which nodes take jobs, and why the other nodes do not."""

from typing import Dict, List, NamedTuple, Sequence

from benchmarks.launch.protocol import Node
from benchmarks.runner import slurm_command
from benchmarks.runner.refusal import Refusal

#: States in which a node takes jobs (sinfo(1), NODE STATE CODES). A node whose state ends in `*` does not answer.
_TAKES_JOBS = ("idle", "mixed", "allocated", "completing")
_NO_REASON = "none"


class State(NamedTuple):
    """One node's state in sinfo's long form, and the reason for this state.

    `user` is who set the reason, and `time` is when. `reason` is empty if nobody set a reason.
    """

    state: str
    reason: str
    user: str
    time: str

    @property
    def ready(self) -> bool:
        """Whether the node takes jobs."""
        return self.state in _TAKES_JOBS

    @property
    def drained(self) -> bool:
        """Whether a person or Slurm took the node out of service; it stays out until a person returns it to service."""
        return self.state.startswith("drain")

    @property
    def sentence(self) -> str:
        """The node's state and reason as `sinfo -R` shows them."""
        said = f": {self.reason} (set by {self.user} at {self.time})" if self.reason else ""
        return f"is {self.state} in Slurm{said}"


def states() -> Dict[str, State]:
    """Return the state of every node of the cluster, by the node's name.

    Raises:
        Refusal: the controller does not answer.
    """
    words = ["sinfo", "--noheader", "--Node", "--all", "--format", "%N|%T|%u|%H|%E"]
    return read(slurm_command.said(words, "Slurm's controller does not answer on this node"))


def read(text: str) -> Dict[str, State]:
    """Return the state of each node that the output of sinfo lists, by the node's name."""
    found = {}
    for line in text.splitlines():
        name, state, user, time, reason = line.split("|", 4)
        given = reason.strip() != _NO_REASON
        found[name.strip()] = State(state, reason.strip() if given else "", user, time)
    return found


def unusable(nodes: Sequence[Node], known: Dict[str, State]) -> List[str]:
    """Return a sentence for each of `nodes` that takes no jobs."""
    found = []
    for node in nodes:
        its = known.get(node.name)
        if its is None:
            found.append(f"{node.name} is not in this Slurm cluster")
        elif not its.ready:
            found.append(f"{node.name} {its.sentence}")
    return found


def refuse_unusable(nodes: Sequence[Node]) -> None:
    """Refuse to start jobs that would wait in Slurm indefinitely."""
    found = unusable(nodes, states())
    if found:
        raise Refusal(
            "{}; nothing was started; `scontrol update nodename=NAME state=resume` on the controller returns a node to "
            "service".format("; ".join(found))
        )
