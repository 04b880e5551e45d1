"""Checks the sha256 of programs on nodes: after they were copied, and again before they run."""

import shlex
from typing import Dict, List

from benchmarks.launch.protocol import Node
from benchmarks.runner import fanout

_TIMEOUT_S = 60


def command(folder: str, hashes: Dict[str, str]) -> str:
    """Return a command that fails and names the file if a file in `folder` is missing or has another sha256."""
    sums = "".join(f"{hashed}  {name}\n" for name, hashed in sorted(hashes.items()))
    return f"cd {shlex.quote(folder)} && printf %s {shlex.quote(sums)} | sha256sum --check --quiet --strict -"


def changed(nodes: List[Node], folder: str, hashes: Dict[str, str]) -> List[str]:
    """Return what sha256sum reports on each node where a file is missing or differs from the build."""
    answers = fanout.each(nodes, command(folder, hashes), b"", _TIMEOUT_S) if hashes else []
    failed = [(node, answer) for node, answer in zip(nodes, answers) if answer.status != 0]
    return [f"{node.name} ({(answer.out.splitlines() or [answer.why])[0]})" for node, answer in failed]
