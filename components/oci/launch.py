"""What a node of the pool is launched with: image, volume, agent, keys and first boot.

It deliberately registers nothing: `components.oci.cluster` makes the instance configuration of it.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

import pulumi
from pulumi_oci import core

from catalogue import ImageFamily, Shape
from cloudinit import Mount, NodeBoot, render

#: Rails of images that address them in first boot, and of those whose agent does (oci-hpc; seed 000, section 1-1).
_RAIL_CIDRS = {"ifcfg": "192.168.0.0/16", "agent": "10.224.0.0/12"}
_BOOT_VPUS_PER_GB = 30  # oci-hpc since 2.11


@dataclass(frozen=True, kw_only=True)
class LaunchArgs:
    """What nodes are wanted.

    Attributes:
        compartment: OCID that they are created in.
        label: prefix of their display name.
        availability_domain: where they stand.
        shape: their row of the catalogue.
        image, family: OCID of their image and what it is.
        boot_volume_gb: size of a node's boot volume.
        timezone: their time zone.
        search_domain: DNS domain of their subnet.
        private_cidr: their subnet, within which their own firewall steps aside.
        operator_key, bastion_key: public keys that may log in.
        subnet_id: their subnet.
        mounts: file systems that they mount; None for none.
    """

    compartment: str
    label: str
    availability_domain: str
    shape: Shape
    image: str
    family: ImageFamily
    boot_volume_gb: int
    timezone: str
    search_domain: str
    private_cidr: str
    operator_key: str
    bastion_key: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    mounts: pulumi.Output[tuple[Mount, ...]] | None = None


def details(args: LaunchArgs) -> core.InstanceConfigurationInstanceDetailsArgs:
    """Return the instance configuration of such nodes."""
    launch = core.InstanceConfigurationInstanceDetailsLaunchDetailsArgs(
        availability_domain=args.availability_domain,
        compartment_id=args.compartment,
        display_name=f"{args.label}-node",
        shape=args.shape.name,
        create_vnic_details=core.InstanceConfigurationInstanceDetailsLaunchDetailsCreateVnicDetailsArgs(
            subnet_id=args.subnet_id, assign_public_ip=False
        ),
        source_details=core.InstanceConfigurationInstanceDetailsLaunchDetailsSourceDetailsArgs(
            source_type="image",
            image_id=args.image,
            boot_volume_size_in_gbs=str(args.boot_volume_gb),
            boot_volume_vpus_per_gb=str(_BOOT_VPUS_PER_GB),
        ),
        instance_options=core.InstanceConfigurationInstanceDetailsLaunchDetailsInstanceOptionsArgs(
            are_legacy_imds_endpoints_disabled=True
        ),
        agent_config=_agent(args),
        metadata={
            "ssh_authorized_keys": pulumi.Output.concat(args.operator_key, "\n", args.bastion_key),
            # Without file systems all of it is known before anything exists.
            "user_data": _user_data(args, ())
            if args.mounts is None
            else args.mounts.apply(lambda found: _user_data(args, found)),
        },
    )
    return core.InstanceConfigurationInstanceDetailsArgs(instance_type="compute", launch_details=launch)


def _user_data(args: LaunchArgs, mounts: tuple[Mount, ...]) -> str:
    trusted = (args.private_cidr, _RAIL_CIDRS[args.family.rdma])
    boot = render(NodeBoot(args.family, args.shape, args.timezone, args.search_domain, trusted, mounts))
    return base64.b64encode(boot.encode()).decode()


def _agent(args: LaunchArgs) -> core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs:
    """Turn the vendor's RDMA plugins on where they address the rails, and off where first boot does: they would fight."""
    rdma = "ENABLED" if args.family.rdma == "agent" else "DISABLED"
    wanted = {
        "OS Management Service Agent": "DISABLED",  # it holds the package manager's lock during first boot
        "Compute HPC RDMA Authentication": rdma,
        "Compute HPC RDMA Auto-Configuration": rdma,
        "Compute RDMA GPU Monitoring": rdma,
    }
    plugin = core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigPluginsConfigArgs
    return core.InstanceConfigurationInstanceDetailsLaunchDetailsAgentConfigArgs(
        are_all_plugins_disabled=False,
        is_management_disabled=False,
        is_monitoring_disabled=False,
        plugins_configs=[plugin(name=name, desired_state=state) for name, state in wanted.items()],
    )
