"""Starts ranks in one container on one node: nerdctl starts the container, in which the image's own mpirun starts the ranks."""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts `contexts`; it runs on the node."""
    if not launch.start:
        raise ValueError("launch.start is empty; containerd needs the words that start a command in the container")
    return [*launch.start, *mpirun.command(launch._replace(start=[]), nodes, contexts)]
