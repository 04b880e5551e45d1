"""Checks, before anything is created, that a cluster is the intended cluster and has what a stack's pods need."""

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

from components.remote_scripts.kubectl import Kubectl

#: Permissions that the kubeconfig's user needs for objects of the namespace.
_NEEDED = (
    ("list", "pods"),
    ("create", "pods/exec"),
    ("list", "events"),
    ("patch", "serviceaccounts"),
    ("patch", "roles.rbac.authorization.k8s.io"),
    ("patch", "rolebindings.rbac.authorization.k8s.io"),
)
#: Permissions that the user needs for the object that creates the pods, by the object's kind.
_JOBS = {
    "job.batch": (("patch", "jobs.batch"), ("delete", "jobs.batch"), ("patch", "services")),
    "mpijob.kubeflow.org": (("patch", "mpijobs.kubeflow.org"), ("delete", "mpijobs.kubeflow.org"), ("delete", "pods")),
}
_RAILS = (("patch", "network-attachment-definitions.k8s.cni.cncf.io"),)
#: API groups that rails need, and the software that provides them.
_GROUPS = (("k8s.cni.cncf.io", "Multus"), ("whereabouts.cni.cncf.io", "whereabouts"))


def refuse_unfit(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Exit with a message unless the cluster is the intended cluster and can run the pods."""
    refuse_other(kubectl, ask)
    _refuse_nodes(kubectl, ask)
    if ask["rails"]:
        for group, owner in _GROUPS:
            if not kubectl("api-resources", f"--api-group={group}", "--no-headers").out.strip():
                sys.exit(
                    f"kubernetes.rails is set, but the cluster does not know {group}: {owner} is not installed there, so pods "
                    f"cannot get a rail; install {owner}, let the stack install it (kubernetes.secondaryNetworks), or measure "
                    "one node"
                )
    if ask["job"] == "mpijob.kubeflow.org":
        known = kubectl("api-resources", "--api-group=kubeflow.org", "--no-headers").out
        if not any("kubeflow.org/v2beta1" in line and line.split()[-1] == "MPIJob" for line in known.splitlines()):
            sys.exit(
                "kubernetes.job is MPIJob, but the cluster does not know MPIJob of kubeflow.org/v2beta1: MPI Operator is not "
                "installed there, or is older than 0.3; install MPI Operator 0.3 or later, or set kubernetes.job to Job"
            )
    _refuse_forbidden(kubectl, ask)


def refuse_other(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Exit with a message unless the kubeconfig leads to the intended cluster, and its API server is ready."""
    named = kubectl("config", "view", "--minify", "--output", "jsonpath={.clusters[0].cluster.server}")
    if named.status != 0 or not named.out.strip():
        where = ask["kubectl"]["kubeconfig"] or "not set"
        sys.exit(
            f"kubernetes.kubeconfig is {where}, and kubectl on {kubectl.host} finds no cluster ({named.why}); "
            "set kubernetes.kubeconfig, or kubernetes.context"
        )
    server = named.out.strip()
    if ask["server"] and server != ask["server"]:
        sys.exit(
            f"kubernetes.server is {ask['server']}, but the kubeconfig on {kubectl.host} leads to {server}, which is "
            "another cluster; nothing was changed there"
        )
    ready = kubectl("get", "--raw", "/readyz")
    if ready.status != 0:
        sys.exit(f"the API server {server} is not ready: {ready.why}")


def _refuse_nodes(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    known = {node["metadata"]["name"]: node for node in (kubectl.get("nodes") or {}).get("items", [])}
    wrong = []
    for name in ask["nodes"]:
        if name not in known:
            wrong.append(
                "has {}, but the cluster has no such node; it has {}".format(name, ", ".join(sorted(known)) or "no nodes")
            )
            continue
        wrong += [f"has {name}, which {why}" for why in _unfit(known[name], ask)]
    if wrong:
        sys.exit("kubernetes.nodes {}".format("; ".join(wrong)))


def _unfit(node: Dict[str, Any], ask: Dict[str, Any]) -> List[str]:
    """Return the reasons why a node cannot run a pod."""
    ready: Dict[str, Any] = next((one for one in node["status"].get("conditions", []) if one["type"] == "Ready"), {})
    if ready.get("status") != "True":
        return ["is NotReady ({}); see kubectl describe node".format(ready.get("message") or "its kubelet is silent")]
    if node["spec"].get("unschedulable"):
        return ["is cordoned; kubectl uncordon lets pods onto it"]
    there = int(node["status"].get("allocatable", {}).get(ask["gpu_resource"], "0"))
    if there < ask["gpus"]:
        return [
            "offers {} of {} to pods, but kubernetes.gpus is {}; the device plugin (GPU Operator) must advertise GPUs".format(
                there, ask["gpu_resource"], ask["gpus"]
            )
        ]
    return []


def _refuse_forbidden(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    needed = [*_NEEDED, *_JOBS[ask["job"]], *(_RAILS if ask["rails"] else ())]

    def may(what: Any) -> bool:
        return kubectl("auth", "can-i", *what).out.strip() == "yes"

    with ThreadPoolExecutor(4) as pool:
        lacking = [" ".join(what) for what, allowed in zip(needed, pool.map(may, needed)) if not allowed]
    if lacking:
        sys.exit(
            "the kubeconfig's user may not {} in namespace {} (RBAC); nothing was changed. Grant these permissions, or "
            "name another user's file in kubernetes.kubeconfig".format(", ".join(lacking), ask["namespace"])
        )
