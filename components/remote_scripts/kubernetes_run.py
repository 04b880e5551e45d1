"""Runs a command in the pod of one node, from the machine that runs kubectl.

The command gets this program's standard input, and writes to this program's standard output.
Before the command runs, the files that a stack copied to this machine are copied into the pod if the pod lacks them. If the
command is a measurement or a search, the runner's files are copied out of the pod while the command runs and when it ends. If
the pod terminates, this program answers in the runner's place: it prints a refusal with the reason.
"""

import json
import subprocess
import sys
from typing import Any, Dict, List

from components.remote_scripts.kubectl import CONTAINER, HOME, Kubectl, brought, disrupted, ended, on_node, pods_of
from components.remote_scripts.kubernetes_evidence import Evidence

_COPY_S = 300
#: How much longer kubectl may run than the runner in the pod, which itself gives up after twice its time limit and 300 s.
_STALLED_S = 600
#: The schema of a refusal: `benchmarks.launch.protocol.LINE_SCHEMA`.
_SCHEMA = 2


def main(ask: Dict[str, Any]) -> None:
    """Run the `command` of `ask`.

    `ask` also has `kubectl` (how kubectl finds the cluster), `namespace`, `pods` (the pods' selector), `node`, `files` (to copy
    into the pod) and `cluster` (name of the folder that keeps the files of the cluster's measurements).
    """
    given = sys.stdin.buffer.read()
    request = _request(given)
    kubectl = Kubectl(ask["kubectl"], ask["namespace"])
    pods = pods_of(kubectl, ask["pods"])
    pod = on_node(pods, ask["node"])
    if pod is None:
        _refuse(request, _gone(ended(pods, ask["node"]), ask["node"], "", kubectl.host))
        return
    name = pod["metadata"]["name"]
    bring(kubectl, name, ask["files"])
    words = [
        *kubectl.words,
        "exec",
        "--stdin",
        name,
        "--container",
        CONTAINER,
        "--",
        "sh",
        "-c",
        f"cd {HOME} && {ask['command']}",
    ]
    evidence = Evidence(kubectl, ask["cluster"], name, request)
    evidence.give_back()
    with evidence:
        ran = _ran(words, given, request)
        # An evicted pod disappears in a moment, and the reason for the eviction disappears with it.
        last = kubectl.get("pods", name) if ran.returncode != 0 else None
    if ran.returncode == 0:
        return
    pods = pods_of(kubectl, ask["pods"])
    left = on_node(pods, ask["node"])
    if left is None or left["metadata"]["uid"] != pod["metadata"]["uid"]:
        _refuse(request, _gone(ended(pods, ask["node"]) or disrupted(last), ask["node"], evidence.kept, kubectl.host))
        return
    sys.exit(ran.returncode)


def _ran(words: List[str], given: bytes, request: Dict[str, Any]) -> "subprocess.CompletedProcess[bytes]":
    """Run kubectl; if its connection stalls, stop it after twice the time limit of the request, and some minutes.

    The runner may use the limit twice: once to wait for another measurement, then to measure.
    """
    limit_s = 2 * float(request["timeout_s"]) + _STALLED_S if request.get("timeout_s") else None
    try:
        return subprocess.run(words, input=given, check=False, timeout=limit_s)
    except subprocess.TimeoutExpired:
        sys.exit(f"kubectl exec did not end within {limit_s:.0f} s, so its connection to the pod has stalled")


def _gone(said: str, node: str, kept: str, host: str) -> str:
    why = said or "the cluster does not say why"
    left = f"; its measurements up to then are in {kept} on {host}" if kept else ""
    return f"the pod on {node} is gone: {why}{left}; raise measure.run (make measure) to create the pods again"


def _request(given: bytes) -> Dict[str, Any]:
    """Return the runner's request if the command's input is a request; otherwise an empty dictionary."""
    try:
        found = json.loads(given.decode() or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _refuse(asked: Dict[str, Any], why: str) -> None:
    if not asked:
        sys.exit(why)
    line = {"run_id": asked.get("run_id", ""), "failed": why, "kind": asked.get("kind", ""), "schema": _SCHEMA}
    print(json.dumps(line, sort_keys=True))


def bring(kubectl: Kubectl, pod: str, files: List[str]) -> None:
    """Copy the files that the pod lacks; a file's name contains a hash of its content, so the name is enough to compare."""
    for name in files:
        there = f"{HOME}/{name}"
        if kubectl.inside(pod, f"test -s {there}").status == 0:
            continue
        with open(brought(name), "rb") as source:
            data = source.read()
        done = kubectl.inside(pod, f"cat > {there}.part && mv {there}.part {there}", data, _COPY_S)
        if done.status != 0:
            sys.exit(f"{name} could not be copied into {pod}: {done.why}")
