"""Ranks in pods: mpirun starts its daemons in the other pods by `kubectl exec`, so no pod runs sshd.

The program that does so takes ssh's place and its arguments, an address and a command, as in MPI Operator's first version.
"""

from typing import List, Sequence

from benchmarks.launch import mpirun
from benchmarks.launch.protocol import Launch, Node, Ranks


def command(launch: Launch, nodes: Sequence[Node], contexts: Sequence[Ranks]) -> List[str]:
    """Return the command that starts `contexts` in the pods, typed in the first one."""
    if "plm_rsh_agent" not in launch.mca:
        raise ValueError("launch.mca has no plm_rsh_agent; kubernetes needs the program that starts a command in another pod")
    kept = {name: value for name, value in launch.mca.items() if name != "plm_rsh_args"}
    return mpirun.command(launch._replace(mca=kept), nodes, contexts)
