"""Ranks in a Slurm job: `salloc` waits for the nodes, and mpirun starts its daemons on them through Slurm instead of SSH.

It is `salloc` and not `sbatch`, because a batch job's output is on its first node, which may be another one, and the runner
reads the output line by line as it is printed. For Slurm, both are the same job.
"""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks

#: How long a job waits for nodes that another job holds; then `salloc` reports it and exits.
_QUEUED_S = 120


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts `contexts` on `nodes`, typed on the controller."""
    if not launch.queue:
        raise ValueError("launch.queue is empty; slurm needs the partition that ranks run in")
    known = [node._replace(address=node.name) for node in nodes]  # inside a job Open MPI knows nodes by their Slurm names
    placed = [one for ranks in contexts for one in _by_node(ranks, len(nodes))]
    used = sorted({index for ranks in placed for index in ranks.nodes or []})
    per_node = max(ranks.per_node for ranks in contexts)
    words = ["salloc", "--partition", launch.queue, "--job-name", "busbar", f"--immediate={_QUEUED_S}"]
    words += ["--nodes", str(len(used)), "--nodelist", ",".join(known[index].name for index in used), "--exclusive"]
    # One rank per GPU, on however few processors; `--ntasks-per-node` would refuse that.
    words += ["--ntasks", str(len(used) * per_node), "--overcommit", "--gres", f"gpu:{per_node}"]
    # If Slurm ends the job because a node died, it also kills mpirun.
    words += ["--kill-command"]
    kept = {name: value for name, value in launch.mca.items() if not name.startswith("plm_rsh_")}
    return words + mpirun.command(launch._replace(mca=dict(kept, plm="slurm")), known, placed)


def _by_node(ranks: Ranks, count: int) -> List[Ranks]:
    """Return the ranks as one context per node: inside a job Open MPI 4 numbers nodes as Slurm does, by name.

    Contexts keep their order, and the judge assumes that ranks are on the requested nodes.
    """
    return [ranks._replace(nodes=[index]) for index in (range(count) if ranks.nodes is None else ranks.nodes)]
