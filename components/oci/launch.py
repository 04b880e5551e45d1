"""The launch details of a pool's nodes: image, boot volume, agent, keys and first boot."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
from pulumi_oci import core

from catalogue.containers import TOOLKIT
from cloudinit import Containerd, Mount, NodeBoot, render
from cloudinit.steps import LOCAL_DISKS
from components.oci.preflight import Place
from components.oci.tagged_machines import stack_tags
from components.slurm.first_boot import software
from config.oci.model import MADE_FOR, Oci, Pool

#: Networks of the rails, by what assigns the rails' addresses: first boot (`ifcfg`) or the image's agent (oci-hpc; tutorial
#: oracle-japan/ocitutorials, section 1-1). If the image has no rdma_network.json, the agent uses the same network as first
#: boot, 192.168.0.0/16.
_RAIL_CIDRS = {"ifcfg": ("192.168.0.0/16",), "agent": ("10.224.0.0/12", "192.168.0.0/16")}
BOOT_VPUS_PER_GB = 30  # as in oci-hpc since version 2.11


@dataclass(frozen=True, kw_only=True)
class LaunchInputs:
    """What the nodes need from other parts of the cluster.

    Attributes:
        subnet_id: the nodes' subnet.
        mounts: file systems that the nodes mount; None without file systems.
        images: name -> OCID, for each image that the stack file names.
        controller_key: public SSH key of Slurm's controller, which sets dynamic nodes up over SSH; None without Slurm.
    """

    subnet_id: pulumi.Input[str]
    mounts: pulumi.Output[tuple[Mount, ...]] | None = None
    images: Mapping[str, pulumi.Output[str]] = field(default_factory=dict)
    controller_key: pulumi.Output[str] | None = None


def tags(wanted: Oci, pool: Pool) -> dict[str, str]:
    """Return the tags by which a preview recognizes the machines of `pool`."""
    return {**stack_tags(wanted), MADE_FOR: wanted.machines(pool)}


def details(wanted: Oci, pool: Pool, place: Place, parts: LaunchInputs) -> core.InstanceConfigurationInstanceDetailsArgs:
    """Return the instance configuration of the nodes of `pool`."""
    launch = core.InstanceConfigurationInstanceDetailsLaunchDetailsArgs(
        # With fallback domains, the instance configuration names no availability domain: each cluster network names its own.
        availability_domain=None if pool.fallback_domains else place.availability_domain,
        compartment_id=wanted.compartment,
        freeform_tags=wanted.all_tags,
        display_name=f"{wanted.label(pool)}-node",
        shape=pool.shape,
        create_vnic_details=core.InstanceConfigurationInstanceDetailsLaunchDetailsCreateVnicDetailsArgs(
            subnet_id=parts.subnet_id, assign_public_ip=False
        ),
        source_details=core.InstanceConfigurationInstanceDetailsLaunchDetailsSourceDetailsArgs(
            source_type="image",
            image_id=parts.images.get(pool.image, pool.image),
            boot_volume_size_in_gbs=str(pool.root.size_gb),
            boot_volume_vpus_per_gb=str(BOOT_VPUS_PER_GB),
        ),
        instance_options=core.InstanceConfigurationInstanceDetailsLaunchDetailsInstanceOptionsArgs(
            are_legacy_imds_endpoints_disabled=True
        ),
        agent_config=_agent(pool),
        metadata={
            "ssh_authorized_keys": _keys(wanted, pool, parts),
            "user_data": user_data(wanted, pool, place, parts),
        },
    )
    return core.InstanceConfigurationInstanceDetailsArgs(instance_type="compute", launch_details=launch)


def _keys(wanted: Oci, pool: Pool, parts: LaunchInputs) -> pulumi.Input[str]:
    if parts.controller_key is None or not pool.dynamic:
        return wanted.access.public_key
    return parts.controller_key.apply(lambda key: f"{wanted.access.public_key}\n{key}")


def user_data(wanted: Oci, pool: Pool, place: Place, parts: LaunchInputs) -> pulumi.Input[str]:
    """Return the user data of the nodes of `pool`, in base64; without file systems, this text depends on no resource."""
    if parts.mounts is None:
        return _user_data(wanted, pool, place, ())
    return parts.mounts.apply(lambda found: _user_data(wanted, pool, place, found))


def _user_data(wanted: Oci, pool: Pool, place: Place, mounts: tuple[Mount, ...]) -> str:
    slurm = software(pool.family.slurm, wanted.slurm, scratch=LOCAL_DISKS, toolkit=TOOLKIT) if pool.dynamic else None
    # Slurm's controller is in the public subnet, so dynamic nodes trust that subnet.
    front = (wanted.network.private, *((wanted.network.public,) if slurm else ()))
    trusted = (*front, *(_RAIL_CIDRS[pool.family.rdma] if pool.cluster_network else ()))
    own = wanted.container if not pool.dynamic else None
    runs = Containerd(own.containerd.version, own.containerd.sums, own.toolkit, own.toolkit_key) if own else None
    place_of = (wanted.timezone, place.search_domain, trusted)
    boot = render(NodeBoot(pool.family, pool.row, *place_of, mounts, runs, slurm, pool.custom_actions))
    return base64.b64encode(boot.encode()).decode()


def plugins(pool: Pool) -> dict[str, str]:
    """Return name -> state of the agent's plugins.

    The vendor's RDMA plugins are enabled if they assign the rails' addresses. They are disabled if first boot assigns the
    addresses, because plugins and first boot would conflict, or if the nodes are in no cluster network.
    """
    rdma = "ENABLED" if pool.cluster_network and pool.family.rdma == "agent" else "DISABLED"
    return {
        "OS Management Service Agent": "DISABLED",  # it would hold the lock that first boot needs to install packages
        "Compute HPC RDMA Authentication": rdma,
        "Compute HPC RDMA Auto-Configuration": rdma,
        "Compute RDMA GPU Monitoring": rdma,
    }


def _agent(pool: Pool) -> core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs:
    plugin = core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigPluginsConfigArgs
    return core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs(
        are_all_plugins_disabled=False,
        is_management_disabled=False,
        is_monitoring_disabled=False,
        plugins_configs=[plugin(name=name, desired_state=state) for name, state in plugins(pool).items()],
    )
