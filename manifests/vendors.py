"""Makes the objects of a vendor's manifest part of a stack: parses them, labels them, and sorts them for kubectl apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

#: Kinds that come before all other kinds, in the order in which to apply them; helm also sorts by kind
#: (pkg/releaseutil/kind_sorter.go, InstallOrder).
_FIRST = (
    *("Namespace", "CustomResourceDefinition", "PriorityClass", "ServiceAccount", "Secret", "ConfigMap"),
    *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "DaemonSet", "Deployment", "Job"),
)


def read(text: str, source: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest.

    Raises:
        ValueError: a document of `source` is not a Kubernetes object; the message says which document.
    """
    found = [one for one in enumerate(yaml.load_all(text, Loader=yaml.CSafeLoader), 1) if one[1] is not None]
    for number, one in found:
        if not isinstance(one, dict) or not {"apiVersion", "kind", "metadata"} <= one.keys():
            raise ValueError(f"document {number} of {source} is no object of Kubernetes")
    return [one for _, one in found]


def labelled(found: Iterable[dict[str, Any]], labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the objects, with a stack's labels added to each object's labels, in the order in which to apply them."""
    mine = [one | {"metadata": one["metadata"] | {"labels": one["metadata"].get("labels", {}) | labels}} for one in found]
    return sorted(mine, key=_turn)


def _turn(one: dict[str, Any]) -> int:
    # Objects of any other kind come last, because the manifest itself defines that kind, and the cluster must know it by then.
    return _FIRST.index(one["kind"]) if one["kind"] in _FIRST else len(_FIRST)


def summary(found: list[dict[str, Any]]) -> str:
    """Return how many objects there are, and how many of each kind."""
    counted = Counter(one["kind"] for one in found)
    return f"{len(found)} objects: " + ", ".join(f"{count} {kind}" for kind, count in counted.items())


def kind(one: dict[str, Any]) -> str:
    """Return an object's kind in kubectl's form, followed by the API group if the kind has one."""
    group, slash, _ = one["apiVersion"].partition("/")
    name = one["kind"].lower()
    return f"{name}.{group}" if slash else name
