"""The launchers by name. To add one, write a module with a function `command`, and list it in `LAUNCHERS`."""

from typing import Callable, Dict, List, Sequence

from benchmarks.launch import containerd, enroot, mpirun, pyxis, remote_shell, slurm
from benchmarks.launch.protocol import Launch, Measure, Node, Ranks

#: Each function turns a launch, the nodes and the ranks of one or more programs into the command that starts all these ranks.
LAUNCHERS: Dict[str, Callable[[Launch, Sequence[Node], Sequence[Ranks]], List[str]]] = {
    "mpirun": mpirun.command,
    "enroot": enroot.command,
    "containerd": containerd.command,
    "slurm": slurm.command,
    "remote_shell": remote_shell.command,
    "pyxis": pyxis.command,
}


def deciding(request: Measure) -> List[str]:
    """Return the command of the deciding step, as the runner starts it."""
    (step,) = [one for one in request.steps if one.decides]
    return command(request.launch, request.nodes, [step.ranks])


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts the ranks in `contexts`, one item for each program, on `nodes`.

    Raises:
        ValueError: no launcher has the name `launch.kind`, or `launch` lacks something that the launcher needs.
    """
    if launch.kind not in LAUNCHERS:
        raise ValueError("launch.kind is {!r}; it must be one of {}".format(launch.kind, ", ".join(LAUNCHERS)))
    return LAUNCHERS[launch.kind](launch, nodes, contexts)
