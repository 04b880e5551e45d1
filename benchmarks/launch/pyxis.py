"""Starts the ranks of a Slurm job in containers: one `srun` starts all ranks, and the plugin Pyxis puts each rank in the image.

There is no mpirun: the ranks find each other through Slurm's PMIx server.
"""

from typing import List, Sequence

from benchmarks.launch.protocol import Launch, Node, Ranks

#: Prefixes of Open MPI's parameters that only mpirun's daemons use.
_DAEMONS = ("plm_", "oob_", "orte_", "prte_")


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts the ranks of one program on all nodes of the job; the command runs on the first node."""
    if "srun" not in launch.start:
        raise ValueError("launch.start has no srun; pyxis needs the words that start tasks in the container")
    if len(contexts) != 1 or contexts[0].nodes is not None:
        raise ValueError("pyxis starts one program, on all nodes of its job")
    (ranks,) = contexts
    variables = {f"OMPI_MCA_{name}": value for name, value in launch.mca.items() if not name.startswith(_DAEMONS)}
    variables.update(ranks.environment)
    own = ["env", *(f"{name}={value}" for name, value in sorted(variables.items()))]
    return [*placed(launch.start, nodes, ranks.per_node), *own, ranks.program, *ranks.arguments]


def placed(start: Sequence[str], nodes: Sequence[Node], per_node: int) -> List[str]:
    """Return the command `start` with options that set the nodes and the number of tasks; Slurm orders the nodes itself."""
    at = list(start).index("srun") + 1
    count, names = len(nodes), ",".join(node.name for node in nodes)
    where = [f"--nodes={count}", f"--ntasks={count * per_node}", f"--ntasks-per-node={per_node}", f"--nodelist={names}"]
    return [*start[:at], *where, *start[at:]]
