"""Defines this stack's tags; finds cluster networks and instances by these tags, unless they are terminating or terminated."""

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


def slurms_stack() -> str:
    """Return the value of the tag `STACK` on cluster networks that Slurm's controller creates.

    The stack's own resources have another value; otherwise a preview would count Slurm's machines as the stack's.
    """
    return f"{pulumi.get_stack()}/slurm"


def living(found: Sequence[Any], untagged: str = "", mine: str | None = None) -> list[Any]:
    """Return the resources that are neither terminating nor terminated, and whose tag `STACK` has the value `mine`.

    If `mine` is None, this stack's name takes its place. A resource without the tag counts as if its tag were `untagged`.
    """
    its = mine or pulumi.get_stack()
    return [one for one in found if one.state.upper() not in _GONE and (one.freeform_tags or {}).get(STACK, untagged) == its]


async def networks_named(compartment: str, label: str) -> list[LeftBehind]:
    """Return this stack's cluster networks with the display name `label`."""
    given = {"compartmentId": compartment, "displayName": label}
    found = await asked("getClusterNetworks", core.GetClusterNetworksResult, **given)
    return _left_behind(found.cluster_networks or ())


async def instances_named(compartment: str, label: str) -> list[LeftBehind]:
    """Return this stack's single instances with the display name `label`."""
    given = {"compartmentId": compartment, "displayName": label}
    found = await asked("getInstances", core.GetInstancesResult, **given)
    return _left_behind(found.instances or ())


async def asked(function: str, result: type, **given: str) -> Any:
    """Call a function of the SDK's module for compute with `given`; return its `result`."""
    # A failed output ends the program with a traceback, even if its error was caught. So this function awaits the look-up, not
    # an output.
    options = _utilities.get_invoke_opts_defaults()
    return await pulumi.runtime.invoke_async(f"oci:Core/{function}:{function}", given, options, result)


def _left_behind(found: Sequence[Any]) -> list[LeftBehind]:
    return [LeftBehind(one.id, f"{one.display_name} ({one.id}, since {one.time_created})") for one in living(found)]
