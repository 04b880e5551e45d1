"""A stack's state as the engine exports it, with a pool on OCI and instances on AWS."""

from __future__ import annotations

from typing import Any

NODES = [{"name": f"gpu-{number}", "address": f"10.0.1.{number}", "pool": "gpu"} for number in (2, 3)]


def state(target: str, *resources: dict[str, Any]) -> dict[str, Any]:
    stack = {"type": "pulumi:pulumi:Stack", "urn": "urn::dev", "outputs": {"target": target, "nodes": NODES}}
    return {"deployment": {"resources": [stack, *resources]}}


POOL = {
    "type": "oci:Core/clusterNetwork:ClusterNetwork",
    "urn": "urn::cluster-pool-gpu-nodes",
    "outputs": {"compartmentId": "c", "id": "network", "instancePools": [{"id": "pool"}]},
}
KIND = "aws:ec2/instance:Instance"
INSTANCES = [
    {"type": KIND, "urn": f"urn::cluster-pool-gpu-{number}", "outputs": {"privateIp": f"10.0.1.{number}"}} for number in (2, 3)
]
