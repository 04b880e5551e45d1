"""The objects of Multus and whereabouts, from their vendors' manifests, with pinned images and a stack's labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manifests import ours, vendors


@dataclass(frozen=True)
class Pods:
    """The changes to the pods of a vendor's manifest.

    Attributes:
        image: the image of all containers of these pods.
        arguments: arguments that are added to the first container's arguments.
        pull_secret: the secret to pull the image with, in the pods' namespace.
    """

    image: str
    arguments: tuple[str, ...]
    pull_secret: str | None


def documents(texts: Mapping[str, str], pods: Pods, labels: dict[str, str], way: str) -> list[dict[str, Any]]:
    """Return the objects of Multus or of whereabouts.

    `texts` has the text of each manifest by its URL. `way` says where kubectl runs (`ours.WAY`).
    """
    found = [one for source, text in texts.items() for one in vendors.read(text, source)]
    return vendors.labelled([_on_nodes(one, pods, way) if one["kind"] == "DaemonSet" else one for one in found], labels)


def _on_nodes(one: dict[str, Any], pods: Pods, way: str) -> dict[str, Any]:
    """Return the DaemonSet with its pods changed as `pods` says."""
    spec = one["spec"]
    pod = dict(spec["template"]["spec"])
    for key in ("containers", "initContainers"):
        if key in pod:
            pod[key] = [each | {"image": pods.image} for each in pod[key]]
    first, *others = pod["containers"]
    pod["containers"] = [first | {"args": [*first.get("args", []), *pods.arguments]}, *others]
    if pods.pull_secret:
        pod["imagePullSecrets"] = [{"name": pods.pull_secret}]
    metadata = one["metadata"] | {"annotations": one["metadata"].get("annotations", {}) | {ours.WAY: way}}
    return one | {"metadata": metadata, "spec": spec | {"template": spec["template"] | {"spec": pod}}}
