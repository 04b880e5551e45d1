"""Makes first contact with a stack's pods from the machine that runs kubectl, and lets the first pod start ranks in all pods.

The program prints the same JSON line as first contact over SSH, or exits with a message that names every faulty pod.
"""

import json
import os
import shlex
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

from components.remote_scripts.kubectl import HOME, Kubectl, ended, on_node, pods_of
from components.remote_scripts.ready_line import ready_line

_WINDOW = 16
_COPY_S = 120
#: Program that replaces ssh in pods: it runs a shell command in another pod. The file `pods` maps addresses to pods.
IN_POD = """#!/bin/sh
# in-pod ADDRESS COMMAND...: run a shell command in another pod, as ssh does on another machine.
address=$1
shift
pod=$(sed -n "s/^$address //p" {home}/pods)
if [ -z "$pod" ]; then
  echo "in-pod: no pod of this stack has the address $address" >&2
  exit 255
fi
exec {home}/kubectl --namespace {namespace} exec --stdin "$pod" --container ranks -- sh -c "$*"
"""


def main(nodes: List[Dict[str, str]], ask: Dict[str, Any]) -> None:
    """Contact the pods of `nodes` ({name, address}) and print the JSON line.

    `ask` has `kubectl` (how it finds the cluster), `namespace`, `pods` (the pods' selector), `host_key` of this machine,
    `devices` (RDMA devices of the rails), `rails` (the rails' interfaces in a pod), `rdma` (the requested RDMA mode), `gpus`,
    `facts` (the source of a program that collects the facts of a pod) and `mpi` (patterns of the folders in which this program
    looks for Open MPI).
    """
    kubectl = Kubectl(ask["kubectl"], ask["namespace"])
    pods = pods_of(kubectl, ask["pods"])
    named = {}  # type: Dict[str, str]
    for node in nodes:
        pod = on_node(pods, node["name"])
        if pod is None or pod["status"].get("podIP") != node["address"]:
            why = ended(pods, node["name"]) or "that pod is gone"
            sys.exit(
                "the pod on {} is not the pod that was found before: {}; raise measure.run (make measure) to create the "
                "pods again".format(node["name"], why)
            )
        named[node["name"]] = pod["metadata"]["name"]
    with ThreadPoolExecutor(_WINDOW) as pool:
        seen = list(pool.map(lambda node: _look(kubectl, node, named[node["name"]], ask), nodes))
    wrong = [
        "{} ({}): {}".format(named[node["name"]], node["name"], one["wrong"]) for node, one in zip(nodes, seen) if one["wrong"]
    ]
    if wrong:
        sys.exit("{} of {} pods are not ready: {}".format(len(wrong), len(nodes), "; ".join(wrong)))
    if len(nodes) > 1:
        _join(kubectl, nodes, named, ask)
    print(_line(nodes, [one["facts"] for one in seen], ask))


def _look(kubectl: Kubectl, node: Dict[str, str], pod: str, ask: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts of one pod, or the pod's fault."""
    call = "\n\nmain(**json.loads({!r}))\n".format(json.dumps({"address": node["address"], "mpi": ask["mpi"]}))
    answer = kubectl.inside(pod, "python3 -IS -", stdin=ask["facts"] + call, timeout_s=_COPY_S)
    if answer.status != 0:
        missing = "its image has no python3, which the runner needs" if answer.status in (126, 127) else answer.why
        return {"facts": {}, "wrong": missing}
    facts = dict(json.loads(answer.out.splitlines()[-1]))
    return {"facts": _of_rails(facts, ask), "wrong": _wrong(kubectl, pod, facts, ask)}


def _wrong(kubectl: Kubectl, pod: str, facts: Dict[str, Any], ask: Dict[str, Any]) -> str:
    """Return the fault of a pod; empty if the pod has no fault."""
    if facts["gpus"] != ask["gpus"]:
        return "nvidia-smi shows {} GPUs, but kubernetes.gpus is {}".format(facts["gpus"], ask["gpus"])
    if not facts["mpi"]:
        return "its image has no Open MPI: no folder like {} has bin/mpirun".format(" or ".join(ask["mpi"]))
    return _wrong_rdma(kubectl, pod, facts, ask) if ask["devices"] else ""


def _wrong_rdma(kubectl: Kubectl, pod: str, facts: Dict[str, Any], ask: Dict[str, Any]) -> str:
    """Return why the rails' RDMA devices cannot be used in a pod; empty if they can be used."""
    mode = kubectl.inside(pod, "rdma system")
    shared = mode.status == 0 and "netns shared" in mode.out
    if shared and ask["rdma"] != "shared":
        return (
            "kubernetes.rdma is exclusive, but the node shares its RDMA devices (`rdma system` says netns shared): every pod "
            "could use every device. `rdma system set netns exclusive` on the node, before any pod has a network, changes the "
            "mode until the node reboots; `options ib_core netns_mode=0` in /etc/modprobe.d changes it permanently"
        )
    if mode.status == 0 and not shared and ask["rdma"] == "shared":
        return "kubernetes.rdma is shared, but the node's mode is exclusive (`rdma system`); set kubernetes.rdma to exclusive"
    up = {hca[0]: hca[3] for hca in facts["hca"]}
    lacking = [name for name in ask["devices"] if name not in up]
    if lacking:
        return (
            "the pod does not see the RDMA device {} (it sees {}): the device stayed in the node's network namespace. Set the "
            "rail's pci, so that rdma-cni moves the device, too".format(", ".join(lacking), ", ".join(sorted(up)) or "none")
        )
    down = [name for name in ask["devices"] if not up[name]]
    return "the RDMA device {} has no active port".format(", ".join(down)) if down else ""


def _of_rails(facts: Dict[str, Any], ask: Dict[str, Any]) -> Dict[str, Any]:
    """Return the facts without the RDMA devices that belong to no rail.

    If the rails have no RDMA devices, the facts name the rails' interfaces as the front end, so NCCL uses sockets on them.
    """
    kept = [hca for hca in facts["hca"] if hca[0] in ask["devices"]]
    front = facts["front"] if ask["devices"] or not ask["rails"] else ",".join(ask["rails"])
    return dict(facts, hca=kept, front=front)


def _join(kubectl: Kubectl, nodes: List[Dict[str, str]], named: Dict[str, str], ask: Dict[str, Any]) -> None:
    """Let the first pod start commands in the other pods, and verify that it can."""
    head = named[nodes[0]["name"]]
    script = IN_POD.format(home=HOME, namespace=ask["namespace"])
    places = "".join("{} {}\n".format(node["address"], named[node["name"]]) for node in nodes)
    # Every pod needs the program `in-pod`, or Open MPI's daemon exits there. Only the first pod calls the program.
    with ThreadPoolExecutor(_WINDOW) as pool:
        list(pool.map(lambda pod: _put(kubectl, pod, "in-pod", script.encode()), named.values()))
    _put(kubectl, head, "pods", places.encode())
    # The machine that runs kubectl may have another architecture than the pods, so the image's own kubectl is preferred.
    if kubectl.inside(head, f'its=$(command -v kubectl) && ln -sf "$its" {HOME}/kubectl').status != 0:
        with open(os.path.realpath(kubectl.program), "rb") as program:
            _put(kubectl, head, "kubectl", program.read())
    runs = kubectl.inside(head, f"{HOME}/kubectl version --client")
    if runs.status != 0:
        sys.exit(
            f"kubectl of {kubectl.host} ({kubectl.program}) does not run in the image: {runs.why}; use an image that "
            "contains kubectl"
        )
    tries = "; ".join("{0}/in-pod {1} true || echo {1}".format(HOME, shlex.quote(node["address"])) for node in nodes[1:])
    tried = kubectl.inside(head, tries, timeout_s=_COPY_S)
    failed = tried.out.split()
    if tried.status != 0 or failed:
        names = [node["name"] for node in nodes if node["address"] in failed]
        sys.exit(
            "the pod on {} cannot start a command in the pods on {}: {}".format(
                nodes[0]["name"], ", ".join(names) or "other nodes", tried.why if tried.err.strip() else "no answer"
            )
        )


def _put(kubectl: Kubectl, pod: str, name: str, data: bytes) -> None:
    """Write an executable file to a pod's home folder, atomically."""
    there = f"{HOME}/{name}"
    done = kubectl.inside(pod, f"cat > {there}.part && chmod 755 {there}.part && mv {there}.part {there}", data, _COPY_S)
    if done.status != 0:
        sys.exit(f"{name} could not be written into {pod}: {done.why}")


def _line(nodes: List[Dict[str, str]], facts: List[Dict[str, Any]], ask: Dict[str, Any]) -> str:
    first = facts[0]
    for node, its in zip(nodes, facts):
        kinds = [f"{one['gpus']} x {one['gpu']}" for one in (first, its)]
        if kinds[0] != kinds[1]:
            sys.exit(
                "the pods are not alike: {} has {}, and {} has {}".format(node["name"], kinds[1], nodes[0]["name"], kinds[0])
            )
    return ready_line(ask["host_key"], [node["name"] for node in nodes], facts)
