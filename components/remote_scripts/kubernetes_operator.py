"""Applies GPU Operator's objects to a cluster and waits until the nodes offer their GPUs; with `remove`, removes the objects.

Like `kubernetes_objects`, this program uses server-side apply without force and never changes foreign objects. The program
prints one JSON line, or exits with a message.
"""

import json
import sys
import time
from typing import Any, Dict

from components.remote_scripts.kubectl import Kubectl, is_applied_by_another
from components.remote_scripts.kubernetes_checks import refuse_other
from components.remote_scripts.kubernetes_manifest import apply_manifest, foreign_objects, pods_wait_for, remove_manifest

_PAUSE_S = 3.0
_WHOSE = "GPU Operator"


def main(ask: Dict[str, Any]) -> None:
    """Apply the objects, or remove them.

    `ask` has the arguments of `kubernetes_manifest`, and `kubectl` (how kubectl finds the cluster), `server`, `namespace` (of
    the operator), `way` (name and value of an annotation of this namespace), `nodes`, `gpus`, `gpu_resource` and
    `timeout_s`.
    """
    kubectl = Kubectl(ask["kubectl"], ask["namespace"])
    if sys.argv[1:] == ["remove"]:
        refuse_other(kubectl, ask)
        if not is_applied_by_another(kubectl, ("namespace", ask["namespace"]), ask["way"]):
            remove_manifest(kubectl, ask, _WHOSE)
        return
    refuse_other(kubectl, ask)
    foreign = foreign_objects(kubectl, ask)
    if foreign:
        sys.exit(
            f"kubernetes.gpuOperator is set, but the cluster already has a GPU Operator, which was not changed ({foreign}); "
            "unset kubernetes.gpuOperator, or first remove that GPU Operator"
        )
    apply_manifest(kubectl, ask, _WHOSE)
    print(json.dumps({"schema": 1, "kind": "gpu-operator", "gpus": _offered(kubectl, ask)}, sort_keys=True))


def _offered(kubectl: Kubectl, ask: Dict[str, Any]) -> Dict[str, int]:
    """Return how many GPUs each node offers, once all nodes offer enough, or exit and say why the operator's pods wait."""
    deadline, last = time.monotonic() + ask["timeout_s"], ""
    while True:
        known = {node["metadata"]["name"]: node for node in (kubectl.get("nodes") or {}).get("items", [])}
        offered = {
            name: int(known[name]["status"].get("allocatable", {}).get(ask["gpu_resource"], "0")) if name in known else 0
            for name in ask["nodes"]
        }
        lacking = [name for name, count in offered.items() if count < ask["gpus"]]
        if not lacking:
            return offered
        waits = pods_wait_for((kubectl.get("pods", "--namespace", ask["namespace"]) or {}).get("items", []))
        if waits != last:
            print("no GPUs yet on {}: {}".format(", ".join(lacking), waits), file=sys.stderr, flush=True)
            last = waits
        if time.monotonic() > deadline:
            sys.exit(
                "GPU Operator is applied, but {} did not offer {} x {} to pods within {:.0f} s: {}".format(
                    ", ".join(lacking), ask["gpus"], ask["gpu_resource"], ask["timeout_s"], waits
                )
            )
        time.sleep(_PAUSE_S)
