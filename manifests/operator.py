"""The objects of GPU Operator's chart as `helm template` renders them, plus a namespace for them, but without helm's hooks."""

from __future__ import annotations

from typing import Any

from manifests import ours, vendors

_HOOK = "helm.sh/hook"


def documents(rendered: str, namespace: str, labels: dict[str, str], way: str) -> list[dict[str, Any]]:
    """Return a namespace and the objects of a rendered chart except hooks, each with the stack's labels besides its own labels.

    `way` is where kubectl runs (`ours.WAY`).

    Raises:
        ValueError: a document of the chart is not a Kubernetes object; the message says which document.
    """
    # The operator's pods mount folders of the node and load kernel modules.
    level = {"pod-security.kubernetes.io/enforce": "privileged"}
    named = {"name": namespace, "labels": level, "annotations": {ours.WAY: way}}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": named}
    theirs = vendors.read(rendered, "the rendered chart")
    return vendors.labelled([space, *(one for one in theirs if _HOOK not in one["metadata"].get("annotations", {}))], labels)
