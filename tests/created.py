"""Calls the program's hooks as the engine does before it creates a resource."""

from __future__ import annotations

import asyncio

import pulumi

#: The resource that the hooks are told about.
URN = "urn:pulumi:dev::busbar::busbar:oci:Pool$oci:Core/clusterNetwork:ClusterNetwork::cluster-pool-gpu-nodes"


def asked(hook: pulumi.ResourceHook) -> None:
    """Call a hook as the engine does before it creates the resource of the hook."""
    asyncio.get_event_loop().run_until_complete(hook(pulumi.ResourceHookArgs(URN, "", "nodes", "type")))  # type: ignore[arg-type]
