"""Before a hung run is stopped, asks every node which of the run's ranks have exited, are stopped or wait for a device."""

import json
import os
import shlex
from typing import Any, Dict, List, Sequence

from benchmarks.launch.protocol import Node
from benchmarks.runner import fanout, rank_states

_TIMEOUT_S = 30
#: Words for the state letters (proc(5)) of a process that does not run.
_HALTED = {"T": "stopped", "t": "stopped by a debugger", "Z": "dead", "X": "dead", "D": "waiting for a device"}
_NAMED = 16


def named(nodes: Sequence[Node], program: str, per_node: int, nccl_home: str = "") -> List[str]:
    """Return up to 16 sentences about ranks that are halted, nodes that do not answer, and nodes on which ranks are missing.

    NCCL's own sentences about ranks that lag come last.
    `program` is the path of the program that the ranks run. NCCL's client `ncclras` is taken from `nccl_home`, or from the PATH
    if `nccl_home` does not contain it.
    """
    words = [os.path.basename(program), *([os.path.join(nccl_home, "bin/ncclras")] if nccl_home else []), "ncclras"]
    command = fanout.PYTHON + " - " + " ".join(map(shlex.quote, words))
    answers = fanout.each(nodes, command, fanout.source_of(rank_states), _TIMEOUT_S)
    found, told = [], []  # type: List[str], List[str]
    for node, answer in zip(nodes, answers):
        if answer.status != 0:
            found.append(f"{node.name} does not answer ({answer.why})")
            continue
        said = json.loads(answer.out.splitlines()[-1])
        found.extend(_of(node.name, said["ranks"], per_node))
        told.extend(said["ras"])
    # On every node, NCCL knows the state of all ranks, so most nodes report the same lines.
    return [*found, *(f"NCCL says: {line}" for line in dict.fromkeys(told))][:_NAMED]


def _of(name: str, ranks: List[Dict[str, Any]], per_node: int) -> List[str]:
    found = [
        "{}: rank {} (process {}) is {}".format(
            name, "?" if one["rank"] is None else one["rank"], one["pid"], _HALTED[one["state"]]
        )
        for one in ranks
        if one["state"] in _HALTED
    ]
    return found + [f"{name}: {len(ranks)} of {per_node} ranks exist"] * (len(ranks) < per_node)
