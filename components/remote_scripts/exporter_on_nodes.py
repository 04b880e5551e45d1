"""Runs the program that installs or removes the exporter on every node, from the head node, and names those where it failed."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

_WINDOW = 32
_TIMEOUT_S = 180
_SSH = [
    "ssh",
    *("-o", "BatchMode=yes"),
    *("-o", "StrictHostKeyChecking=yes"),
    *("-o", "UserKnownHostsFile=~/.ssh/known_hosts"),
    *("-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=15"),
]
_NAMED = 16
#: The program in ssh's place, in a pod (manifests/ranks.py).
_OWN_SHELL = os.environ.get("BUSBAR_REMOTE_SHELL", "")


def main(nodes: List[Dict[str, str]], program: str, there: bool) -> None:
    """Run `program` on `nodes` ({name, address}, this one first) and print one line, or exit with a sentence.

    `there` says whether they have the exporter afterwards.
    """
    # Who asks this machine is the jump host as the nodes see it, or the operator where there is none.
    reader = os.environ.get("SSH_CONNECTION", "").split(" ")[0]

    def on(number: int) -> str:
        address = nodes[number]["address"]
        # A pod knows neither sudo nor who asks: it is told its address, and its readers are networks.
        command = f"python3 -IS - {address}" if _OWN_SHELL else f"sudo -n python3 -IS - \"$SSH_CONNECTION\" '{reader}'"
        there = [_OWN_SHELL, address] if _OWN_SHELL else [*_SSH, address]
        argv = ["sh", "-c", command] if number == 0 else [*there, command]
        return _failure(argv, program)

    with ThreadPoolExecutor(min(_WINDOW, len(nodes))) as pool:
        said = list(pool.map(on, range(len(nodes))))
    failed = ["{} ({}): {}".format(node["name"], node["address"], why) for node, why in zip(nodes, said) if why]
    if failed:
        what = "have no exporter of RDMA counters" if there else "still have the exporter of RDMA counters"
        more = [f"and {len(failed) - _NAMED} more"] if len(failed) > _NAMED else []
        sys.exit("{} of {} nodes {}: {}".format(len(failed), len(nodes), what, "; ".join([*failed[:_NAMED], *more])))
    print(json.dumps({"schema": 1, "kind": "exporter", "nodes": len(nodes), "there": there}, sort_keys=True))


def _failure(argv: List[str], program: str) -> str:
    """Return why it failed; nothing where it did not."""
    try:
        found: Any = subprocess.run(
            argv, input=program.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if found.returncode == 0:
        return ""
    lines = found.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {found.returncode}"]
    return str(lines[-1])
