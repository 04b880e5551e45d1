"""What a chart brings, as `helm template` renders it, made a stack's own: labelled, without hooks, in the order of use."""

from __future__ import annotations

from collections import Counter
from typing import Any

import yaml

from manifests import ours

#: What other objects need to be there first; helm orders by kind as well (pkg/releaseutil/kind_sorter.go, InstallOrder).
_FIRST = (
    *("Namespace", "CustomResourceDefinition", "PriorityClass", "ServiceAccount", "Secret", "ConfigMap"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "DaemonSet", "Deployment", "Job"),
)
_HOOK = "helm.sh/hook"


def documents(rendered: str, namespace: str, labels: dict[str, str], way: str) -> list[dict[str, Any]]:
    """Return the objects of a rendered chart and its namespace, with the stack's labels beside the chart's own.

    `way` is where kubectl works (`ours.WAY`).

    Raises:
        ValueError: a document is no object; the sentence says which.
    """
    # Its pods mount folders of the node and load kernel modules.
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    named = {"name": namespace, "labels": level, "annotations": {ours.WAY: way}}
    found: list[dict[str, Any]] = [{"apiVersion": "v1", "kind": "Namespace", "metadata": named}]
    for number, one in enumerate(yaml.load_all(rendered, Loader=yaml.CSafeLoader), 1):
        if one is None:
            continue
        if not isinstance(one, dict) or not {"apiVersion", "kind", "metadata"} <= one.keys():
            raise ValueError(f"document {number} of the rendered chart is no object of Kubernetes")
        if _HOOK not in one["metadata"].get("annotations", {}):
            found.append(one)
    for one in found:
        one["metadata"]["labels"] = one["metadata"].get("labels", {}) | labels
    return sorted(found, key=_turn)


def _turn(one: dict[str, Any]) -> int:
    # A kind that a chart defines itself comes last: its definition must be in use by then.
    return _FIRST.index(one["kind"]) if one["kind"] in _FIRST else len(_FIRST)


def summary(found: list[dict[str, Any]]) -> str:
    """Return how many objects of each kind there are."""
    counted = Counter(one["kind"] for one in found)
    return ", ".join(f"{count} {kind}" for kind, count in counted.items())
