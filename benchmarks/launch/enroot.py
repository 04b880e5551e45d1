"""Ranks in a container: mpirun runs `enroot start` on each node, which starts the program. MPI's daemons stay outside."""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts `contexts` on `nodes`, typed on the first one."""
    if not launch.start:
        raise ValueError("launch.start is empty; enroot needs the words that start a command in the container")
    return mpirun.command(launch, nodes, contexts)
