"""Applies the objects of Multus or whereabouts and waits until their pods run on all nodes; with `remove`, removes the objects.

The program uses server-side apply without force and never changes foreign objects. If anything uses the network, nothing is
removed: a pod with a secondary network would lose this network at the pod's next start. The program prints one JSON line, or
exits with a message.
"""

import json
import sys
import time
from typing import Any, Dict, List

from components.remote_scripts.kubectl import Kubectl, is_applied_by_another
from components.remote_scripts.kubernetes_checks import refuse_other
from components.remote_scripts.kubernetes_manifest import apply_manifest, foreign_objects, pods_wait_for, remove_manifest

_PAUSE_S = 1.0
#: Multus and whereabouts have no readiness probe. A pod that fails exits within this time. A pod that runs longer has written
#: the node's configuration.
_STEADY_S = 4.0
#: Annotations of pods with an additional network, or with a default network of their own (Multus, docs/configuration.md).
_ASKED = ("k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network")
_DEFINITIONS = "network-attachment-definitions.k8s.cni.cncf.io"


def main(ask: Dict[str, Any]) -> None:
    """Apply the objects, or remove them.

    `ask` has what `kubernetes_manifest` needs, and: `kubectl` (how kubectl finds the cluster); `server` (address of the API
    server); `title` and `name` of the software; `daemon_set`, which puts the software on the nodes, and its `namespace`; `way`
    (the annotation of the daemon set that records where kubectl runs, and its value here); `nodes`; `timeout_s`.
    """
    kubectl = Kubectl(ask["kubectl"], ask["namespace"])
    if sys.argv[1:] == ["remove"]:
        refuse_other(kubectl, ask)
        if not is_applied_by_another(kubectl, ("daemonset.apps", ask["daemon_set"]), ask["way"]):
            _remove(kubectl, ask)
        return
    refuse_other(kubectl, ask)
    foreign = foreign_objects(kubectl, ask)
    if foreign:
        sys.exit(
            "kubernetes.secondaryNetworks.install has {0}, but the cluster already has {1}, which was not changed ({2}); take "
            "{0} out of the list, or first remove {1} from the cluster".format(ask["name"], ask["title"], foreign)
        )
    apply_manifest(kubectl, ask, ask["title"])
    _wait(kubectl, ask)
    print(json.dumps({"schema": 1, "kind": ask["name"], "nodes": ask["nodes"]}, sort_keys=True))


def _wait(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Return once a pod runs on every node and no pod has restarted for some seconds.

    After the time limit, exit with a message that names the nodes that fail.
    """
    deadline, last = time.monotonic() + ask["timeout_s"], ""
    restarts = {}  # type: Dict[str, int]
    since = time.monotonic()
    while True:
        pods = _pods(kubectl, ask)
        running = {pod["spec"].get("nodeName", ""): _restarts(pod) for pod in pods if _is_ready(pod)}
        lacking = [node for node in ask["nodes"] if node not in running]
        if running != restarts:
            restarts, since = running, time.monotonic()
        if not lacking and time.monotonic() - since >= _STEADY_S:
            return
        waits = pods_wait_for([pod for pod in pods if pod["spec"].get("nodeName") in lacking])
        if lacking and waits != last:
            print("{} does not run yet on {}: {}".format(ask["title"], ", ".join(lacking), waits), file=sys.stderr, flush=True)
            last = waits
        if time.monotonic() > deadline:
            sys.exit(
                "{} is applied, but does not run steadily on {} after {:.0f} s: {}{}".format(
                    ask["title"],
                    ", ".join(lacking or ask["nodes"]),
                    ask["timeout_s"],
                    waits if lacking else "its pods restart",
                    _said(kubectl, pods, lacking or ask["nodes"]),
                )
            )
        time.sleep(_PAUSE_S)


def _pods(kubectl: Kubectl, ask: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the pods of the template that was applied last; empty before the cluster has processed that template."""
    found = kubectl.get("daemonset.apps", ask["daemon_set"])
    if found is None or found.get("status", {}).get("observedGeneration", 0) < found["metadata"]["generation"]:
        return []
    chosen = ",".join("{}={}".format(*one) for one in sorted(found["spec"]["selector"]["matchLabels"].items()))
    template = found["metadata"].get("annotations", {}).get("deprecated.daemonset.template.generation")
    pods = (kubectl.get("pods", "--selector", chosen) or {}).get("items", [])
    return [
        pod
        for pod in pods
        if "deletionTimestamp" not in pod["metadata"]
        and pod["metadata"].get("labels", {}).get("pod-template-generation", template) == template
    ]


def _is_ready(pod: Dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", []))


def _restarts(pod: Dict[str, Any]) -> int:
    return sum(one.get("restartCount", 0) for one in pod["status"].get("containerStatuses", []))


def _said(kubectl: Kubectl, pods: List[Dict[str, Any]], nodes: List[str]) -> str:
    """Return the last log line of a pod on one of `nodes`: Multus exits with status 0 even on errors, but logs each error."""
    for pod in pods:
        if pod["spec"].get("nodeName") in nodes:
            lines = kubectl("logs", pod["metadata"]["name"], "--tail=1").out.strip()
            return f" (its last log line: {lines[-300:]})" if lines else ""
    return ""


def _remove(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    users = _users(kubectl, ask["name"])
    if users:
        more = f" and {len(users) - 4} more" if len(users) > 4 else ""  # noqa: PLR2004
        print(
            "{} is left in the cluster, because it is in use and pods would lose their network: {}{}. To remove it later, run "
            "`pulumi up` with kubernetes.secondaryNetworks, and then `pulumi destroy` when nothing uses it any more".format(
                ask["title"], ", ".join(users[:4]), more
            ),
            file=sys.stderr,
            flush=True,
        )
        return
    # Foreground deletion: Multus removes its configuration from a node only when Multus's pod there terminates.
    remove_manifest(kubectl, ask, ask["title"], "--cascade=foreground")


def _users(kubectl: Kubectl, name: str) -> List[str]:
    """Return the definitions and pods that may use the software `name`.

    A definition may lack a configuration. Multus then reads the configuration from a file on each node. This program cannot
    read that file, so the definition may use the software and is in the result.
    """
    users = []
    answer = kubectl("get", _DEFINITIONS, "--all-namespaces", "--output", "json")
    # A kind that the cluster does not know has no objects.
    if answer.status != 0 and "the server doesn't have a resource type" not in answer.err:
        sys.exit(f"destroy could not find out who uses the network: {answer.why}")
    for one in json.loads(answer.out)["items"] if answer.status == 0 else []:
        config = one.get("spec", {}).get("config", "")
        if name == "multus" or not config or name in config:
            users.append("networkattachmentdefinition {namespace}/{name}".format(**one["metadata"]))
    for pod in (kubectl.get("pods", "--all-namespaces") or {}).get("items", []):
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if not ended and any(pod["metadata"].get("annotations", {}).get(key) for key in _ASKED):
            users.append("pod {namespace}/{name}".format(**pod["metadata"]))
    return users
