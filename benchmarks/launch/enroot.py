"""Starts each rank in a container: mpirun runs `enroot start`, which starts the program. MPI's daemons run outside."""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts `contexts` on `nodes`; it runs on the first node."""
    if not launch.start:
        raise ValueError("launch.start is empty; enroot needs the words that start a command in the container")
    return mpirun.command(launch, nodes, contexts)
