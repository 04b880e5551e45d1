"""Defines this stack's tags; finds cluster networks and instances with these tags that are not terminating or terminated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
from pulumi_oci import _utilities, core

from components.left_behind import LeftBehind
from config.oci.model import STACK, Oci

#: The right that a search for machines by name needs.
RIGHT = "inspect instances and cluster networks in the compartment"
_GONE = frozenset({"TERMINATING", "TERMINATED"})


def stack_tags(wanted: Oci) -> dict[str, str]:
    """Return the tags of the stack's resources; they distinguish the resources from other stacks' resources.

    Nodes of cluster networks lack the tag `STACK`.
    """
    return {**wanted.all_tags, STACK: pulumi.get_stack()}


def living(found: Sequence[Any], untagged: str = "") -> list[Any]:
    """Return this stack's resources that are neither terminating nor terminated.

    A resource without the stack's tag counts as a resource of the stack `untagged`.
    """
    mine = pulumi.get_stack()
    return [one for one in found if one.state.upper() not in _GONE and (one.freeform_tags or {}).get(STACK, untagged) == mine]


async def networks_named(compartment: str, label: str) -> list[LeftBehind]:
    """Return this stack's cluster networks with the display name `label`."""
    found = await _asked("getClusterNetworks", core.GetClusterNetworksResult, compartment, label)
    return _left_behind(found.cluster_networks if found else ())


async def instances_named(compartment: str, label: str) -> list[LeftBehind]:
    """Return this stack's single instances with the display name `label`."""
    found = await _asked("getInstances", core.GetInstancesResult, compartment, label)
    return _left_behind(found.instances if found else ())


async def _asked(function: str, result: type, compartment: str, label: str) -> Any:
    # A failed output ends the program with a traceback, even if its error was caught. So this function awaits the look-up, not
    # an output.
    arguments = {"compartmentId": compartment, "displayName": label}
    return await pulumi.runtime.invoke_async(
        f"oci:Core/{function}:{function}", arguments, _utilities.get_invoke_opts_defaults(), result
    )


def _left_behind(found: Sequence[Any]) -> list[LeftBehind]:
    return [LeftBehind(one.id, f"{one.display_name} ({one.id}, since {one.time_created})") for one in living(found)]
