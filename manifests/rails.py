"""Rails of pods: one NetworkAttachmentDefinition per rail, by which a pod gets the node's interface, with an address.

Sources: Multus 4.1.4 (docs/quickstart.md, annotation `name@interface`), CNI plugins (host-device), whereabouts 0.8.0
(README: `range`), rdma-cni (README: chained, `deviceID`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from manifests import ours

if TYPE_CHECKING:
    from collections.abc import Sequence

    from config.kubernetes.model import Rail

#: Annotation from which Multus reads which networks a pod has in addition to the default network.
NETWORKS = "k8s.v1.cni.cncf.io/networks"


def definition(index: int, rail: Rail, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the NetworkAttachmentDefinition of rail number `index`, which counts from 0."""
    name = f"{ours.RAIL}{index}"
    config = {"cniVersion": "0.3.1", "name": name, "plugins": plugins(rail)}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata | {"name": name},
        "spec": {"config": json.dumps(config, sort_keys=True)},
    }


def plugins(rail: Rail) -> list[dict[str, Any]]:
    """Return the plugins that move a rail into a pod."""
    moved = {"type": "host-device", "device": rail.interface, "ipam": {"type": "whereabouts", "range": rail.range}}
    # An RDMA device stays in the node's network namespace when its interface leaves, unless the plugin `rdma` moves the device.
    return [moved, {"type": "rdma", "deviceID": rail.pci}] if rail.pci else [moved]


def inside(index: int) -> str:
    """Return the name of rail `index`'s interface in a pod: net1 for rail 0. eth0 is the interface of the default network."""
    return f"net{index + 1}"


def annotation(rails: Sequence[Rail]) -> dict[str, str]:
    """Return the annotation that gives a pod all rails; empty if there are no rails."""
    wanted = ",".join(f"{ours.RAIL}{index}@{inside(index)}" for index in range(len(rails)))
    return {NETWORKS: wanted} if wanted else {}
