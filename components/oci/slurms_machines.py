"""Finds the machines that Slurm started for this stack: the nodes of cluster networks that the controller created."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from pulumi_oci import core

from components.engine_state import ids_in_state
from components.oci.tagged_machines import asked, living, slurms_stack
from components.slurm.new_controller import STARTED, Started
from components.terminations import Ending
from config.oci.model import OWNER, Oci

#: The right that the search needs.
RIGHT = "read compute-management-family and inspect instances in the compartment"


async def started_by_slurm(wanted: Oci) -> Started:
    """Return the machines that Slurm started.

    Machines with the current `oci.name` are listed by cluster network, and machines with an earlier `oci.name` separately.
    Another project may have a stack of the same name. So a name counts as an earlier `oci.name` of this stack only if this
    stack's state has an instance, such as the login node, that was created with the name.
    """
    found = await asked("getClusterNetworks", core.GetClusterNetworksResult, compartmentId=wanted.compartment)
    networks = living(found.cluster_networks or (), mine=slurms_stack())
    own = [one for one in networks if one.freeform_tags.get(OWNER) == wanted.name]
    others = [one for one in networks if one not in own]
    before = await _names_before(wanted) if others else frozenset()
    endings = []
    for one in own:
        shapes = [pool.shape for pool in wanted.pools if one.display_name.startswith(wanted.slurms_label(pool))]
        endings.append(Ending(STARTED, next(iter(shapes), "machines"), await _nodes(wanted, one), asked=False))
    renamed = [words for one in others if one.freeform_tags.get(OWNER) in before for words in await _nodes(wanted, one)]
    return Started(endings, renamed)


async def _names_before(wanted: Oci) -> frozenset[str]:
    """Return the values of `oci.name`, except the current value, with which instances in this stack's state were created."""
    found = await asked("getInstances", core.GetInstancesResult, compartmentId=wanted.compartment)
    logins = [one for one in living(found.instances or ()) if one.freeform_tags.get(OWNER) != wanted.name]
    known = await asyncio.to_thread(ids_in_state) if logins else frozenset()
    return frozenset(one.freeform_tags.get(OWNER, "") for one in logins if one.id in known)


async def _nodes(wanted: Oci, network: Any) -> tuple[str, ...]:
    given = {"compartmentId": wanted.compartment, "clusterNetworkId": network.id}
    found = await asked("getClusterNetworkInstances", core.GetClusterNetworkInstancesResult, **given)
    nodes: Sequence[Any] = found.instances or ()
    return tuple(f"{one.display_name} ({network.display_name})" for one in nodes)
