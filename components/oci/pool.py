"""Nodes of one shape in one cluster network: instance configuration, cluster network and nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_oci import core

from components.engine_state import folder_name
from components.inventory import Launcher, Node, NodeSet, PlannedSet
from components.left_behind import never_twice
from components.oci.launch import LaunchInputs, details, tags
from components.oci.preflight import Place
from components.oci.tagged_machines import RIGHT, networks_named, stack_tags
from config.oci.model import Oci
from config.oci.model import Pool as WantedPool
from config.slurm import in_jobs, job_folder

#: Create timeout: the vendor allows half an hour, and another half hour for every twenty nodes (oci-hpc:locals.tf).
_MINUTES_PER_TWENTY_NODES = 30
#: Delete timeout. The value is the provider's default for instances
#: (terraform-provider-oci 8.28.0: core_instance_resource.go). The provider's default for cluster networks, 20 minutes, is too
#: short for bare metal.
DELETE = "75m"


@dataclass(frozen=True)
class Member:
    """A machine as the pool lists it; our own class, because Pulumi turns the SDK's classes into dictionaries in apply."""

    ocid: str
    name: str
    state: str
    fault_domain: str


class Pool(pulumi.ComponentResource):
    """A cluster network of GPU nodes.

    Creates: instance configuration; cluster network, if there are nodes.
    Outputs: `configuration`; `made`, the running nodes. After an update, it is an error if more or fewer nodes run than
    configured: the vendor bills the nodes that run, and the measurement's limits apply to the configured number.
    """

    made: pulumi.Output[NodeSet]
    configuration: core.InstanceConfiguration

    def __init__(  # noqa: PLR0913, PLR0917 - what is wanted, where, and what other parts made
        self,
        name: str,
        wanted: Oci,
        pool: WantedPool,
        place: Place,
        parts: LaunchInputs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:oci:Pool", name, None, opts)
        compartment, label = wanted.compartment, wanted.label(pool)
        self.configuration = configuration = core.InstanceConfiguration(
            f"{name}-configuration",
            compartment_id=compartment,
            freeform_tags=stack_tags(wanted),
            display_name=f"{label}-node",
            source="NONE",
            instance_details=details(wanted, pool, place, parts),
            # If the configuration is replaced, the new one is created first: the old one can be deleted only after the pool
            # refers to the new one. The pool's running nodes stay as they are; only new nodes use the new configuration.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=False),
        )
        if not pool.nodes:
            self.made = pulumi.Output.from_input(node_set(pool, (), ()))
            self.register_outputs({"nodes": []})
            return
        network = core.ClusterNetwork(
            f"{name}-nodes",
            compartment_id=compartment,
            freeform_tags=tags(wanted, pool),
            display_name=label,
            instance_pools=[
                core.ClusterNetworkInstancePoolArgs(
                    instance_configuration_id=configuration.id, size=pool.nodes, display_name=label
                )
            ],
            placement_configuration=core.ClusterNetworkPlacementConfigurationArgs(
                availability_domain=place.availability_domain, primary_subnet_id=parts.subnet_id
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=_timeouts(pool.nodes),
                # A changed configuration (keys, time zone, first boot) updates the pool in place and affects only new machines.
                # A change of the image replaces the machines. Capacity is scarce, so the old machines are terminated first.
                replacement_trigger=wanted.machines(pool),
                delete_before_replace=True,
                hooks=never_twice(
                    f"{name}-nodes", lambda: networks_named(compartment, label), right=RIGHT, preflight=wanted.preflight
                ),
            ),
        )
        listed = core.get_cluster_network_instances_output(compartment_id=compartment, cluster_network_id=network.id)
        addresses = core.get_private_ips_output(subnet_id=network.id.apply(lambda _: parts.subnet_id))
        attachments = core.get_vnic_attachments_output(compartment_id=network.id.apply(lambda _: compartment))
        found = pulumi.Output.all(
            members=listed.instances.apply(_members),
            vnics=attachments.vnic_attachments.apply(_vnic_by_instance),
            addresses=addresses.private_ips.apply(_address_by_vnic),
        )
        self.made = found.apply(
            lambda its: node_set(
                pool,
                _nodes(its["members"], its["vnics"], its["addresses"], pool),
                [member.ocid for member in its["members"]],
            )
        )
        self.register_outputs({"nodes": self.made.apply(lambda its: [node.name for node in its.nodes])})


def planned(wanted: Oci, pool: WantedPool) -> PlannedSet:
    """Return the nodes of `pool` as far as they are known before anything exists."""
    folder = job_folder(wanted.storage.home_mount, folder_name())
    image, starts = wanted.ranks_run_in, wanted.slurm and pool.dynamic
    return PlannedSet(
        name=pool.name,
        nodes=pool.nodes,
        dynamic=pool.dynamic,
        job_nodes=wanted.job_nodes(pool),
        start_limit_s=wanted.slurm.start_limit_s(pool.always_on) if wanted.slurm else 0,
        entry_timeout_s=wanted.slurm.entry_limit_s if wanted.slurm and pool.dynamic else 0,
        made_of=wanted.machines(pool),
        job_folder=folder,
        shape=pool.row,
        launcher=Launcher(
            pool.homes, in_jobs(image, wanted.storage.home_mount) if starts else image, queue=pool.queue if starts else ""
        ),
        authenticated=pool.cluster_network and pool.family.rdma == "agent",
    )


def create_timeout(nodes: int) -> str:
    """Return the create timeout of a cluster network of `nodes` nodes, in the engine's notation."""
    return f"{(nodes // 20 + 1) * _MINUTES_PER_TWENTY_NODES}m"


def _timeouts(nodes: int) -> pulumi.CustomTimeouts:
    return pulumi.CustomTimeouts(create=create_timeout(nodes), update=create_timeout(nodes), delete=DELETE)


def _members(instances: Sequence[Any]) -> tuple[Member, ...]:
    return tuple(Member(each.id, each.display_name, each.state.upper(), each.fault_domain) for each in instances)


def _vnic_by_instance(attachments: Sequence[Any]) -> dict[str, str]:
    return {each.instance_id: each.vnic_id for each in attachments if each.state.upper() == "ATTACHED"}


def _address_by_vnic(addresses: Sequence[Any]) -> dict[str, str]:
    return {each.vnic_id: each.ip_address for each in addresses if each.is_primary}


def _nodes(
    members: tuple[Member, ...], vnic_by_instance: dict[str, str], address_by_vnic: dict[str, str], pool: WantedPool
) -> tuple[Node, ...]:
    """Join three listings into nodes; refuse a pool whose number of running nodes is not the configured number.

    The nodes are ordered by fault domain, then by name, so that neighbours in the ring are near each other.
    """
    running = [member for member in members if member.state == "RUNNING"]
    # A preview lists the machines that run now. Before the pool grows or shrinks, their number may differ from the configured
    # number.
    if len(running) != pool.nodes and not (running and pulumi.runtime.is_dry_run()):
        states = ", ".join(f"{member.name} {member.state}" for member in members) or "none"
        raise pulumi.RunError(
            f"pool {pool.name} has {len(running)} of {pool.nodes} nodes running ({states}); the running nodes are billed. Run "
            "the update again to let the pool fill up, or destroy the stack to terminate the nodes."
        )
    ordered = sorted(running, key=lambda member: (member.fault_domain, member.name))
    return tuple(Node(member.name, address_by_vnic[vnic_by_instance[member.ocid]], member.fault_domain) for member in ordered)


def node_set(pool: WantedPool, nodes: Sequence[Node], ocids: Sequence[str]) -> NodeSet:
    """Return the node set of a pool: its nodes, and an identity that follows from `pool` and `ocids`."""
    return NodeSet(pool.name, tuple(nodes), identity(pool, ocids))


def identity(pool: WantedPool, ocids: Sequence[str]) -> str:
    """Return a hash of the shape, image and OCIDs of the machines of `pool`: it changes when machines are replaced."""
    parts = [pool.shape, pool.image, *sorted(ocids)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
