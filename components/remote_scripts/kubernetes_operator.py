"""Applies GPU Operator's objects to a cluster and waits until the nodes offer their GPUs; called with `remove`, removes them.

As with the pods: server-side apply without force, and nothing of somebody else is changed. It prints one JSON line, or exits
with a sentence.
"""

import json
import sys
import time
from typing import Any, Dict, List

from components.remote_scripts.kubectl import Kubectl, brought, is_applied_by_another

_PAUSE_S, _APPLY_S, _REMOVE_S = 3.0, 120, 180


def main(ask: Dict[str, Any]) -> None:
    """Apply or remove.

    `ask` has `kubectl` (how it finds the cluster), `namespace` (the operator's), `file` (the manifest, as it was brought here),
    `definitions` (names of custom resource definitions), `objects` ([kind, name, namespace] of each, in the order of use),
    `labels` of the stack, `way` (annotation of the namespace and its value), `nodes`, `gpus`, `gpu_resource` and `timeout_s`.
    """
    kubectl = Kubectl(ask["kubectl"], ask["namespace"])
    if sys.argv[1:] == ["remove"]:
        if not is_applied_by_another(kubectl, ask["namespace"], ask["way"]):
            _remove(kubectl, ask)
        return
    _refuse_foreign(kubectl, ask)
    with open(brought(ask["file"]), encoding="utf-8") as source:
        manifest = source.read()
    _apply(kubectl, ask, manifest)
    print(json.dumps({"schema": 1, "kind": "gpu-operator", "gpus": _offered(kubectl, ask)}, sort_keys=True))


def _within(namespace: str) -> List[str]:
    return ["--namespace", namespace] if namespace else []


def _refuse_foreign(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    foreign = []
    for kind, name, namespace in ask["objects"]:
        answer = kubectl("get", kind, name, *_within(namespace), "--output", "json", "--ignore-not-found")
        # A kind that the cluster does not know yet has no objects.
        if answer.status != 0 or not answer.out.strip():
            if "(Forbidden)" in answer.err:
                sys.exit(f"the kubeconfig's user may not read {kind}, which GPU Operator's chart has (RBAC): {answer.why}")
            continue
        labels = json.loads(answer.out)["metadata"].get("labels", {})
        if any(labels.get(key) != value for key, value in ask["labels"].items()):
            foreign.append(f"{kind} {name}")
    if foreign:
        more = f" and {len(foreign) - 4} more" if len(foreign) > 4 else ""  # noqa: PLR2004
        sys.exit(
            "kubernetes.gpuOperator is set, and the cluster has one already, which was left as it is ({}{}); leave it out of "
            "the stack, or remove that one first".format(", ".join(foreign[:4]), more)
        )


def _apply(kubectl: Kubectl, ask: Dict[str, Any], manifest: str) -> None:
    """Apply all, in two steps where the chart defines kinds: their objects are accepted once the definitions are in use."""
    documents = manifest.split("\n---\n")
    first = [one for one in documents if "\nkind: CustomResourceDefinition\n" in one or "\nkind: Namespace\n" in "\n" + one]
    for part in (first, documents):
        done = kubectl(
            *("apply", "--server-side", "--field-manager=busbar", "--filename=-"),
            stdin="\n---\n".join(part),
            timeout_s=_APPLY_S,
        )
        if done.status != 0:
            sys.exit(f"the cluster did not accept an object of GPU Operator: {done.why}")
        if ask["definitions"]:
            names = [f"crd/{name}" for name in ask["definitions"]]
            used = kubectl("wait", "--for=condition=Established", "--timeout=60s", *names, timeout_s=90)
            if used.status != 0:
                sys.exit(f"the cluster does not use a definition of GPU Operator's: {used.why}")


def _offered(kubectl: Kubectl, ask: Dict[str, Any]) -> Dict[str, int]:
    """Return the GPUs that each node offers, once that is enough; exit with what the operator's pods lack otherwise."""
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
        waits = _waits(kubectl, ask["namespace"])
        if waits != last:
            print("no GPUs yet on {}: {}".format(", ".join(lacking), waits), file=sys.stderr, flush=True)
            last = waits
        if time.monotonic() > deadline:
            sys.exit(
                "GPU Operator is applied, and {} offer less than {} of {} to pods within {:.0f} s: {}".format(
                    ", ".join(lacking), ask["gpus"], ask["gpu_resource"], ask["timeout_s"], waits
                )
            )
        time.sleep(_PAUSE_S)


def _waits(kubectl: Kubectl, namespace: str) -> str:
    """Return what the operator's pods wait for, each reason once."""
    whys = {}  # type: Dict[str, str]
    for pod in (kubectl.get("pods", "--namespace", namespace) or {}).get("items", []):
        status = pod["status"]
        if status.get("phase") == "Succeeded":
            continue
        for one in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
            waiting = one.get("state", {}).get("waiting", {})
            if waiting.get("reason"):
                said = "{} ({})".format(waiting["reason"], waiting.get("message", "")[:200])
                whys.setdefault(said, pod["metadata"]["name"])
        for one in status.get("conditions", []):
            if one["type"] == "PodScheduled" and one["status"] == "False":
                whys.setdefault("no node takes it ({})".format(one.get("message", "")[:200]), pod["metadata"]["name"])
    reasons = [f"{name}: {why}" for why, name in list(whys.items())[:4]]
    return "; ".join(reasons) or "its pods say nothing"


def _remove(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Remove what has all labels, the last first: objects of the chart's own kinds before what defines them."""
    selector = ",".join(f"{key}={value}" for key, value in sorted(ask["labels"].items()))
    seen = {}  # type: Dict[str, None]
    for kind, _, namespace in reversed(ask["objects"]):
        if f"{kind} {namespace}" in seen:
            continue
        seen[f"{kind} {namespace}"] = None
        words = ("delete", kind, "--selector", selector, *_within(namespace), "--ignore-not-found", "--wait")
        gone = kubectl(*words, timeout_s=_REMOVE_S)
        if gone.status != 0 and "the server doesn't have a resource type" not in gone.err:
            sys.exit(f"destroy could not remove {kind} of GPU Operator with the labels {selector}: {gone.why}")
