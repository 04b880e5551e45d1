"""Starts ranks in a Slurm job: `salloc` waits for nodes, on which mpirun starts its daemons through Slurm instead of SSH.

`sbatch` cannot be used: it writes a job's output on the job's first node, which need not be the head node, but the runner must
read each line as it is printed. Slurm runs jobs of `salloc` and of `sbatch` alike.
"""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks

#: How long a job waits for nodes that another job uses; after that `salloc` reports that it got no nodes, and exits.
_QUEUED_S = 120


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts the ranks in `contexts` on `nodes`; the command runs on the controller."""
    if not launch.queue:
        raise ValueError("launch.queue is empty; it must name the Slurm partition in which ranks run")
    known = [node._replace(address=node.name) for node in nodes]  # inside a job Open MPI knows nodes by their Slurm names
    placed = [one for ranks in contexts for one in _by_node(ranks, len(nodes))]
    used = sorted({index for ranks in placed for index in ranks.nodes or []})
    per_node = max(ranks.per_node for ranks in contexts)
    words = ["salloc", "--partition", launch.queue, "--job-name", "busbar", f"--immediate={_QUEUED_S}"]
    words += ["--nodes", str(len(used)), "--nodelist", ",".join(known[index].name for index in used), "--exclusive"]
    # One rank per GPU, even on nodes with fewer processors than GPUs; `--ntasks-per-node` would refuse more ranks than
    # processors.
    words += ["--ntasks", str(len(used) * per_node), "--overcommit", "--gres", f"gpu:{per_node}"]
    # With this option, Slurm also kills mpirun when Slurm ends the job because a node died.
    words += ["--kill-command"]
    kept = {name: value for name, value in launch.mca.items() if not name.startswith("plm_rsh_")}
    return words + mpirun.command(launch._replace(mca=dict(kept, plm="slurm")), known, placed)


def _by_node(ranks: Ranks, count: int) -> List[Ranks]:
    """Return the ranks as one app context per node, so that each rank runs on the node that the request gives it.

    Inside a Slurm job, Open MPI 4 sorts the nodes of a context by name, as Slurm does, but keeps the order of the contexts. The
    judge assumes the request's order.
    """
    return [ranks._replace(nodes=[index]) for index in (range(count) if ranks.nodes is None else ranks.nodes)]
