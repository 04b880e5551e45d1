"""A cluster network of bare-metal GPU nodes: instance configuration, pool, and the nodes that came of it.

It deliberately treats a pool that is short of members as failed: the vendor bills them, and a ring needs all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_oci import core

from catalogue import ImageFamily, Shape
from catalogue.oci_storage import Lustre, Nfs
from cloudinit import Mount
from components.inventory import Inventory, Launcher, Machine, Node, NodeSet, PlannedSet
from components.oci.bastion import Bastion, BastionArgs
from components.oci.iam import Iam, IamArgs
from components.oci.launch import LaunchArgs, details
from components.oci.network import Network, NetworkArgs
from components.oci.preflight import Intent, check
from components.oci.storage import Storage, StorageArgs
from components.reach import Access, Reach, Ssh

#: The vendor allows half an hour for every twenty nodes begun (oci-hpc:locals.tf).
_MINUTES_PER_TWENTY_NODES = 30
#: The one pool.
_POOL = "gpu"


@dataclass(frozen=True, kw_only=True)
class OciArgs:
    """What cluster is wanted; every field is known before anything exists.

    Attributes:
        tenancy, compartment: OCIDs.
        home_region: where IAM is written; empty for the stack's own region.
        availability_domain: where the machines stand.
        shape: the nodes' row of the catalogue.
        nodes: how many.
        image, family: OCID of their image and what it is.
        boot_volume_gb: size of a node's boot volume.
        operator_key: public key that may log in everywhere.
        timezone: time zone of all machines.
        network: the VCN.
        bastion_image, bastion_family, bastion_shape, bastion_ocpus, bastion_memory_gb: the bastion.
        ready_timeout_s: bound on the bastion's first boot.
        iam: create the bastion's dynamic group and policy.
        preflight: ask the account first.
        nfs, lustre: file systems that every node mounts; None for none.
    """

    tenancy: str
    compartment: str
    home_region: str
    availability_domain: str
    shape: Shape
    nodes: int
    image: str
    family: ImageFamily
    boot_volume_gb: int
    operator_key: str
    timezone: str
    network: NetworkArgs
    bastion_image: str
    bastion_family: ImageFamily
    bastion_shape: str
    bastion_ocpus: int
    bastion_memory_gb: int
    ready_timeout_s: int
    iam: bool
    preflight: bool
    nfs: Nfs | None = None
    lustre: Lustre | None = None

    @property
    def create_timeout(self) -> str:
        """How long the cluster network may take to come up, in the engine's notation."""
        return f"{(self.nodes // 20 + 1) * _MINUTES_PER_TWENTY_NODES}m"


class OciCluster(pulumi.ComponentResource):
    """A cluster network behind a bastion.

    Creates: Network, Bastion, Iam and Storage (where wanted), instance configuration, cluster network.
    Outputs: `inventory` (see `components.inventory.Cluster`).
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach

    def __init__(self, name: str, args: OciArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        if args.preflight:
            check(_intent(args))
        super().__init__("busbar:oci:Cluster", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        network = Network(f"{name}-network", args.network, mine)
        bastion = Bastion(f"{name}-bastion", _bastion(args, network), mine)
        if args.iam:
            Iam(
                f"{name}-iam",
                IamArgs(
                    tenancy=args.tenancy,
                    compartment=args.compartment,
                    label=args.network.label,
                    home_region=args.home_region,
                    instance_id=bastion.instance_id,
                ),
                mine,
            )
        mounts = None
        if args.nfs or args.lustre:
            mounts = Storage(f"{name}-storage", _storage(args, network), mine).mounts
        configuration = core.InstanceConfiguration(
            f"{name}-configuration",
            compartment_id=args.compartment,
            display_name=f"{args.network.label}-node",
            source="NONE",
            instance_details=details(_launch(args, network, bastion, mounts)),
            # Only new nodes follow a changed configuration; the pool must point at the new one before the old one may go.
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=False),
        )
        pool = core.ClusterNetwork(
            f"{name}-network-of-nodes",
            compartment_id=args.compartment,
            display_name=args.network.label,
            instance_pools=[
                core.ClusterNetworkInstancePoolArgs(
                    instance_configuration_id=configuration.id, size=args.nodes, display_name=args.network.label
                )
            ],
            placement_configuration=core.ClusterNetworkPlacementConfigurationArgs(
                availability_domain=args.availability_domain, primary_subnet_id=network.private_subnet_id
            ),
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=args.create_timeout, update=args.create_timeout),
                # A pool whose configuration changes keeps its old machines, and what was measured would not be what was asked
                # for. Capacity is scarce, so the old ones go first.
                replacement_trigger=configuration.id,
                delete_before_replace=True,
            ),
        )
        members = core.get_cluster_network_instances_output(compartment_id=args.compartment, cluster_network_id=pool.id)
        addresses = core.get_private_ips_output(subnet_id=pool.id.apply(lambda _: network.private_subnet_id))
        attachments = core.get_vnic_attachments_output(compartment_id=pool.id.apply(lambda _: args.compartment))
        instances = members.instances.apply(_members)
        found = pulumi.Output.all(
            instances, attachments.vnic_attachments.apply(_vnic_by_instance), addresses.private_ips.apply(_address_by_vnic)
        )
        nodes = found.apply(lambda parts: _nodes(parts[0], parts[1], parts[2], args))
        login = pulumi.Output.all(address=bastion.address, host_key=bastion.host_key).apply(
            lambda known: Machine("bastion", known["address"], args.bastion_family.login, known["host_key"])
        )
        self.reach = Ssh(login.apply(lambda machine: _access(args, machine)))
        self.planned = (PlannedSet(name=_POOL, nodes=args.nodes, shape=args.shape, launcher=Launcher(args.family.homes)),)
        self.inventory = pulumi.Output.all(nodes=nodes, instances=instances, login=login).apply(
            lambda known: Inventory(
                (NodeSet(_POOL, known["nodes"], _identity(args, known["instances"])),), login=known["login"]
            )
        )
        self.register_outputs({"bastion": bastion.address})


def _intent(args: OciArgs) -> Intent:
    return Intent(
        tenancy=args.tenancy,
        compartment=args.compartment,
        availability_domain=args.availability_domain,
        shape=args.shape,
        nodes=args.nodes,
        label=args.network.label,
        image=args.image,
        family=args.family,
    )


def _bastion(args: OciArgs, network: Network) -> BastionArgs:
    return BastionArgs(
        compartment=args.compartment,
        label=args.network.label,
        availability_domain=args.availability_domain,
        shape=args.bastion_shape,
        ocpus=args.bastion_ocpus,
        memory_gb=args.bastion_memory_gb,
        image=args.bastion_image,
        family=args.bastion_family,
        timezone=args.timezone,
        search_domain=args.network.search_domain,
        operator_key=args.operator_key,
        timeout_s=args.ready_timeout_s,
        subnet_id=network.public_subnet_id,
    )


def _storage(args: OciArgs, network: Network) -> StorageArgs:
    return StorageArgs(
        compartment=args.compartment,
        label=args.network.label,
        availability_domain=args.availability_domain,
        network=args.network.vcn_cidr,
        nfs=args.nfs,
        lustre=args.lustre,
        subnet_id=network.private_subnet_id,
    )


def _launch(args: OciArgs, network: Network, bastion: Bastion, mounts: pulumi.Output[tuple[Mount, ...]] | None) -> LaunchArgs:
    return LaunchArgs(
        compartment=args.compartment,
        label=args.network.label,
        availability_domain=args.availability_domain,
        shape=args.shape,
        image=args.image,
        family=args.family,
        boot_volume_gb=args.boot_volume_gb,
        timezone=args.timezone,
        search_domain=args.network.search_domain,
        private_cidr=args.network.private_cidr,
        operator_key=args.operator_key,
        bastion_key=bastion.public_key,
        subnet_id=network.private_subnet_id,
        mounts=mounts,
    )


@dataclass(frozen=True)
class _Member:
    """What the pool says of one machine; a class of ours, for the engine's own turn into dictionaries on their way."""

    ocid: str
    name: str
    state: str
    fault_domain: str


def _members(instances: Sequence[Any]) -> tuple[_Member, ...]:
    return tuple(_Member(each.id, each.display_name, each.state.upper(), each.fault_domain) for each in instances)


def _vnic_by_instance(attachments: Sequence[Any]) -> dict[str, str]:
    return {each.instance_id: each.vnic_id for each in attachments if each.state.upper() == "ATTACHED"}


def _address_by_vnic(addresses: Sequence[Any]) -> dict[str, str]:
    return {each.vnic_id: each.ip_address for each in addresses if each.is_primary}


def _nodes(
    members: tuple[_Member, ...], vnic_by_instance: dict[str, str], address_by_vnic: dict[str, str], args: OciArgs
) -> tuple[Node, ...]:
    """Join three listings into nodes, however many there are; refuse a pool that is short.

    Ordered by fault domain, then name, so that neighbours in the ring stand near each other.
    """
    running = [member for member in members if member.state == "RUNNING"]
    # A preview lists what runs today, and a pool that is about to grow or shrink is not short.
    if len(running) != args.nodes and not (running and pulumi.runtime.is_dry_run()):
        states = ", ".join(f"{member.name} {member.state}" for member in members) or "none"
        raise pulumi.RunError(
            f"the cluster network has {len(running)} of {args.nodes} nodes running ({states}); they are billed. Run the update "
            "again to let the pool fill up, or destroy the stack: both see these nodes."
        )
    ordered = sorted(running, key=lambda member: (member.fault_domain, member.name))
    return tuple(Node(member.name, address_by_vnic[vnic_by_instance[member.ocid]], member.fault_domain) for member in ordered)


def _access(args: OciArgs, login: Machine) -> Access:
    return Access(
        user=args.family.login,
        through=login.address,
        through_user=login.user,
        through_host_key=login.host_key,
        network=args.network.private_cidr,
    )


def _identity(args: OciArgs, members: tuple[_Member, ...]) -> str:
    parts = [args.shape.name, args.image, *sorted(member.ocid for member in members)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
