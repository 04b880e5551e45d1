"""Installs or removes the exporter of RDMA counters on every node, from the head node, and names nodes where that failed."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

#: How many nodes are contacted at the same time.
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
#: At most this many failed nodes are named; the rest are counted.
_NAMED = 16
#: In a pod, the program that replaces ssh (manifests/ranks.py); empty elsewhere.
_OWN_SHELL = os.environ.get("BUSBAR_REMOTE_SHELL", "")


def main(nodes: List[Dict[str, str]], program: str, there: bool) -> None:
    """Run `program` on all nodes and print one JSON line.

    If `program` fails on some nodes, exit with one sentence that names these nodes.

    Args:
        nodes: {name, address} of each node; the first node is this machine, the head node.
        program: Python program that installs or removes the exporter on one node.
        there: true if `program` installs the exporter, false if it removes the exporter.
    """
    # This SSH session comes from the jump host or, without a jump host, from the operator's machine. The address from which
    # the session comes may read the counters.
    client = os.environ.get("SSH_CONNECTION", "").split(" ")[0]

    def run_on(number: int) -> str:
        address = nodes[number]["address"]
        # A pod has neither sudo nor $SSH_CONNECTION, so in a pod the only argument of `program` is the pod's address. The text
        # of `program` contains the networks that may read the counters.
        command = f"python3 -IS - {address}" if _OWN_SHELL else f"sudo -n python3 -IS - \"$SSH_CONNECTION\" '{client}'"
        remote = [_OWN_SHELL, address] if _OWN_SHELL else [*_SSH, address]
        argv = ["sh", "-c", command] if number == 0 else [*remote, command]
        return _failure(argv, program)

    with ThreadPoolExecutor(min(_WINDOW, len(nodes))) as pool:
        reasons = list(pool.map(run_on, range(len(nodes))))
    failed = ["{} ({}): {}".format(node["name"], node["address"], why) for node, why in zip(nodes, reasons) if why]
    if failed:
        what = "have no exporter of RDMA counters" if there else "still have the exporter of RDMA counters"
        more = [f"and {len(failed) - _NAMED} more"] if len(failed) > _NAMED else []
        sys.exit("{} of {} nodes {}: {}".format(len(failed), len(nodes), what, "; ".join([*failed[:_NAMED], *more])))
    print(json.dumps({"schema": 1, "kind": "exporter", "nodes": len(nodes), "there": there}, sort_keys=True))


def _failure(argv: List[str], program: str) -> str:
    """Run `argv` with `program` as its standard input; return why `argv` failed, or an empty text after a success."""
    try:
        done: Any = subprocess.run(
            argv, input=program.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    if done.returncode == 0:
        return ""
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit status {done.returncode}"]
    return str(lines[-1])
