"""Starts ranks with mpirun through a program that replaces ssh: `kubectl exec` into pods, or `srun` within a Slurm job.

That program takes the same arguments as ssh (an address and a command), so no machine needs sshd. MPI Operator's first version
also started ranks through `kubectl exec`.
"""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts `contexts` on `nodes`; it runs on the first node."""
    if "plm_rsh_agent" not in launch.mca:
        raise ValueError(
            "launch.mca has no plm_rsh_agent; remote_shell needs the program that starts a command on another node"
        )
    kept = {name: value for name, value in launch.mca.items() if name != "plm_rsh_args"}
    return mpirun.command(launch._replace(mca=kept), nodes, contexts)
