"""Starts ranks with Open MPI's mpirun over SSH.

The ranks that one command starts are one MPI job; each object of class `Ranks` becomes one app context of mpirun.
"""

from typing import List, Sequence

from benchmarks.launch.protocol import Launch, Node, Ranks


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts the ranks in `contexts` on `nodes`; the command runs on the first node."""
    words = [launch.mpi_home + "/bin/mpirun"]
    words += ["--prefix", launch.mpi_home] if launch.prefix else []
    words += ["--bind-to", launch.bind_to]
    words += [word for name, value in launch.mca.items() for word in ("--mca", name, value)]
    for index, ranks in enumerate(contexts):
        words += [":"] if index else []
        words += placed(launch, nodes, ranks)
        words += [word for name, value in sorted(ranks.environment.items()) for word in ("-x", name + "=" + value)]
        words += [*launch.start, ranks.program, *ranks.arguments]
    return words


def placed(launch: Launch, nodes: Sequence[Node], ranks: Ranks) -> List[str]:
    """Return the arguments that place ranks: how many, and on which nodes (those that `ranks` names, or the whole hostfile)."""
    if ranks.nodes is None:
        count = str(len(nodes) * ranks.per_node)
        return ["-np", count, "-npernode", str(ranks.per_node), "--hostfile", launch.hostfile]
    hosts = ",".join(f"{nodes[index].address}:{ranks.per_node}" for index in ranks.nodes)
    return ["-np", str(len(ranks.nodes) * ranks.per_node), "--map-by", f"ppr:{ranks.per_node}:node", "--host", hosts]


def hostfile(nodes: Sequence[Node], slots: int) -> str:
    """Return the hostfile: one line for each node, with its number of slots.

    If there is only one node, its line has the name localhost: the address at which other machines reach the node may belong to
    none of the node's interfaces.
    """
    addresses = [node.address for node in nodes] if len(nodes) > 1 else ["localhost"]
    return "".join(f"{address} slots={slots}\n" for address in addresses)
