"""From settings to the one target that the stack names, whose provider SDK is imported here and only then.

It deliberately decides nothing: a target is a mapping from checked settings to that target's arguments.
"""

from __future__ import annotations

from components.inventory import Cluster, Node
from settings import AwsSettings, HostsSettings, OciSettings, Wanted


def build(wanted: Wanted) -> Cluster:
    """Register the cluster of the target that `wanted` names (settings know only such)."""
    if isinstance(wanted, HostsSettings):
        return _hosts(wanted)
    return _aws(wanted) if isinstance(wanted, AwsSettings) else _oci(wanted)


def _hosts(wanted: HostsSettings) -> Cluster:
    from components.hosts.cluster import HostsArgs, HostsCluster  # noqa: PLC0415 - like every target

    return HostsCluster(
        "cluster",
        HostsArgs(
            nodes=tuple(
                Node(machine.name, machine.address, host_key=key)
                for machine, key in zip(wanted.machines, wanted.pinned, strict=True)
            ),
            user=wanted.hosts_user,
            shape=wanted.node_shape,
            homes=wanted.homes,
            network=wanted.network or None,
            jump=wanted.jump_address,
            jump_user=wanted.jump_user,
            jump_key=wanted.jump_key,
        ),
    )


def _oci(wanted: OciSettings) -> Cluster:
    from components.oci.cluster import OciArgs, OciCluster  # noqa: PLC0415 - half a second that other targets need not spend
    from components.oci.network import NetworkArgs  # noqa: PLC0415

    nfs, lustre = wanted.nfs, wanted.lustre_system
    network = NetworkArgs(
        compartment=wanted.compartment,
        label=wanted.cluster_name,
        vcn_cidr=wanted.vcn_cidr,
        public_cidr=wanted.public_cidr,
        private_cidr=wanted.private_cidr,
        ssh_from=wanted.ssh_from,
        private_ingress=wanted.private_ingress,
        nfs=nfs is not None,
        lustre=lustre is not None,
        retain=lustre is not None and lustre.on_destroy == "retain",
    )
    return OciCluster(
        "cluster",
        OciArgs(
            tenancy=wanted.tenancy,
            compartment=wanted.compartment,
            home_region=wanted.home_region,
            availability_domain=wanted.availability_domain,
            shape=wanted.node_shape,
            nodes=wanted.nodes,
            image=wanted.image,
            family=wanted.family,
            boot_volume_gb=wanted.boot_volume_gb,
            operator_key=wanted.ssh_public_key,
            timezone=wanted.timezone,
            network=network,
            bastion_image=wanted.bastion_image,
            bastion_family=wanted.bastion_family,
            bastion_shape=wanted.bastion_shape,
            bastion_ocpus=wanted.bastion_ocpus,
            bastion_memory_gb=wanted.bastion_memory_gb,
            ready_timeout_s=wanted.ready_timeout_minutes * 60,
            iam=wanted.iam,
            preflight=wanted.preflight,
            nfs=nfs,
            lustre=lustre,
        ),
    )


def _aws(wanted: AwsSettings) -> Cluster:
    from components.aws.cluster import AwsArgs, AwsCluster  # noqa: PLC0415 - two seconds that other targets need not spend
    from components.aws.network import NetworkArgs  # noqa: PLC0415

    network = NetworkArgs(
        label=wanted.cluster_name,
        region=wanted.region,
        zone=wanted.zone,
        second_zone=wanted.second_zone,
        public_cidr=wanted.public_cidr,
        private_cidr=wanted.private_cidr,
        ssh_from=wanted.ssh_from,
        retain=any(one is not None and one.on_destroy == "retain" for one in (wanted.intent.lustre, wanted.intent.home)),
        tags=wanted.own_tags,
    )
    return AwsCluster(
        "cluster",
        AwsArgs(
            intent=wanted.intent,
            network=network,
            timezone=wanted.timezone,
            ready_timeout_s=wanted.ready_timeout_minutes * 60,
            suppress=wanted.suppress,
            preflight=wanted.preflight,
            container=wanted.image_of_ranks,
        ),
    )
