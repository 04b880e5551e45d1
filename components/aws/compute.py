"""One kind of machine of one queue: its launch template, its placement group, and the machines that always run.

A scheduler starts the dynamic ones from the same template. It deliberately takes a pool that is short of members as failed: the
vendor bills them, and a ring needs all.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2

from catalogue.aws import STACK, Compute, MachineImage, Volume
from catalogue.containers import ENROOT
from catalogue.instances import BLOCK, SPOT
from catalogue.nic_layout import PLAIN, layout
from cloudinit.aws import ComputeBoot, Mounts, render
from components.aws.network import NetworkArgs

_CREATE_TIMEOUT = "30m"
#: CreateFleet's words for what RunInstances and settings spell with hyphens.
_ALLOCATION = {"lowest-price": "lowestPrice"}


@dataclass(frozen=True, kw_only=True)
class PoolArgs:
    """What machines are wanted.

    Attributes:
        network: names, tags and zone.
        compute: the kind, and how many.
        image: id of their image; `family` what that is.
        root: their root volumes.
        timezone: their time zone.
        operator_key: public key that may log in.
        head_key: the head's public key.
        subnet_id, group_id: the private subnet and the nodes' group.
        profile: their instance profile.
        mounts: their file systems.
        container: ranks run in one.
    """

    network: NetworkArgs
    compute: Compute
    image: str
    family: MachineImage
    root: Volume
    timezone: str
    operator_key: str
    head_key: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    profile: pulumi.Input[str]
    mounts: pulumi.Input[Mounts]
    container: bool = False

    @property
    def name(self) -> str:
        """Return the launch template's name, by which a scheduler finds it."""
        return f"{self.network.label}-{self.compute.key}"


@dataclass(frozen=True)
class Member:
    """One machine that runs: its id and private IPv4 address."""

    id: str
    address: str


class Pool(pulumi.ComponentResource):
    """A launch template and its static machines.

    Creates: placement group (where wanted), capacity block (where its purchase was confirmed), launch template, and one fleet;
    or single instances for a reservation that is named by its id, which fleets cannot use.
    Outputs: `members`, as many as were asked for; `template_id`.
    """

    members: pulumi.Output[tuple[Member, ...]]
    template_id: pulumi.Output[str]

    def __init__(self, name: str, args: PoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Pool", name, None, opts)
        self._name, self._args = name, args
        self._mine = pulumi.ResourceOptions(parent=self)
        template = self._template(self._placement(), self._reservation())
        self.template_id = template.id
        if not args.compute.static:
            self.members = pulumi.Output.from_input(())
        elif args.compute.capacity in {"targeted-odcr", BLOCK}:
            self.members = self._instances(template)
        else:
            self.members = self._fleet(template)
        self.register_outputs({"template_id": self.template_id})

    def _placement(self) -> pulumi.Input[str] | None:
        compute = self._args.compute
        if compute.placement == "existing":
            return compute.placement_group
        if not compute.makes_group:
            return None
        group = ec2.PlacementGroup(
            f"{self._name}-group", strategy="cluster", tags=self._args.network.named(compute.key), opts=self._mine
        )
        return group.name

    def _reservation(self) -> pulumi.Input[str] | None:
        """Return what capacity is targeted; buy a Capacity Block only where its id was given twice."""
        compute = self._args.compute
        if not compute.offering:
            return compute.reservation or None
        if compute.confirm_purchase != compute.offering:
            raise pulumi.RunError(
                f"Capacity Block {compute.offering} is not bought: confirmPurchase is {compute.confirm_purchase!r} and must "
                "be that "
                "id again, for the purchase is charged at once and cannot be undone."
            )
        block = ec2.CapacityBlockReservation(
            f"{self._name}-block",
            capacity_block_offering_id=compute.offering,
            instance_platform="Linux/UNIX",
            tags=self._args.network.named(compute.key),
            # A second purchase must never follow from a changed line, and a block that is paid outlives the stack.
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=["capacityBlockOfferingId", "instancePlatform"], retain_on_delete=True
            ),
        )
        return block.id

    def _template(self, group: pulumi.Input[str] | None, reservation: pulumi.Input[str] | None) -> ec2.LaunchTemplate:
        args, compute = self._args, self._args.compute
        tags = {**args.network.named(compute.key), **_node_tags(compute), **compute.tags}
        return ec2.LaunchTemplate(
            f"{self._name}-template",
            name=args.name,
            image_id=args.image,
            instance_type=compute.instance_type,
            ebs_optimized="true",
            instance_initiated_shutdown_behavior="terminate",
            update_default_version=True,
            iam_instance_profile=ec2.LaunchTemplateIamInstanceProfileArgs(name=args.profile),
            metadata_options=ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            block_device_mappings=[_root(args)],
            network_interfaces=_interfaces(args),
            placement=ec2.LaunchTemplatePlacementArgs(group_name=group) if group else None,
            instance_market_options=_market(compute),
            capacity_reservation_specification=_capacity(compute, reservation),
            tag_specifications=[
                ec2.LaunchTemplateTagSpecificationArgs(resource_type=noun, tags=tags) for noun in ("instance", "volume")
            ],
            user_data=pulumi.Output.all(args.mounts, args.head_key).apply(lambda both: _user_data(args, both[0], str(both[1]))),
            tags=tags,
            opts=self._mine,
        )

    def _fleet(self, template: ec2.LaunchTemplate) -> pulumi.Output[tuple[Member, ...]]:
        compute = self._args.compute
        spot = compute.capacity == SPOT
        overrides = (
            [ec2.FleetLaunchTemplateConfigOverrideArgs(max_price=compute.max_price_usd)] if compute.max_price_usd else None
        )
        reserved = ec2.FleetOnDemandOptionsCapacityReservationOptionsArgs(usage_strategy="use-capacity-reservations-first")
        # The vendor starts all of them or none, in one place.
        whole: dict[str, Any] = {
            "min_target_capacity": compute.static,
            "single_availability_zone": True,
            "single_instance_type": True,
            "allocation_strategy": _ALLOCATION.get(compute.allocation or "lowest-price", compute.allocation),
        }
        fleet = ec2.Fleet(
            f"{self._name}-fleet",
            type="instant",
            launch_template_configs=[
                ec2.FleetLaunchTemplateConfigArgs(
                    launch_template_specification=ec2.FleetLaunchTemplateConfigLaunchTemplateSpecificationArgs(
                        launch_template_id=template.id, version=template.latest_version.apply(str)
                    ),
                    overrides=overrides,
                )
            ],
            target_capacity_specification=ec2.FleetTargetCapacitySpecificationArgs(
                default_target_capacity_type="spot" if spot else "on-demand", total_target_capacity=compute.static
            ),
            spot_options=ec2.FleetSpotOptionsArgs(**whole) if spot else None,
            on_demand_options=None
            if spot
            else ec2.FleetOnDemandOptionsArgs(
                **whole, capacity_reservation_options=reserved if compute.capacity == "odcr-group" else None
            ),
            terminate_instances=True,
            tags=self._args.network.named(compute.key),
            opts=self._machines(["launchTemplateConfigs", "targetCapacitySpecification"]),
        )
        ids = fleet.fleet_instance_sets.apply(_ids)
        found = ec2.get_instances_output(
            filters=ids.apply(lambda found: [ec2.GetInstancesFilterArgs(name="instance-id", values=found)]),
            instance_state_names=["pending", "running"],
        )
        return pulumi.Output.all(ids, found.ids, found.private_ips).apply(
            lambda parts: _members(compute, parts[0], parts[1], parts[2])
        )

    def _instances(self, template: ec2.LaunchTemplate) -> pulumi.Output[tuple[Member, ...]]:
        made = [
            ec2.Instance(
                f"{self._name}-{index}",
                launch_template=ec2.InstanceLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str)),
                opts=self._machines(["launchTemplate"]),
            )
            for index in range(self._args.compute.static)
        ]
        pairs = [pulumi.Output.all(one.id, one.private_ip) for one in made]
        return pulumi.Output.all(*pairs).apply(lambda found: tuple(Member(str(one[0]), str(one[1])) for one in found))

    def _machines(self, replaced_by: list[str]) -> pulumi.ResourceOptions:
        """Other templates are other machines; capacity is scarce, so the old ones go first."""
        return pulumi.ResourceOptions(
            parent=self,
            custom_timeouts=pulumi.CustomTimeouts(create=_CREATE_TIMEOUT, delete=_CREATE_TIMEOUT),
            replace_on_changes=replaced_by,
            delete_before_replace=True,
        )


def _node_tags(compute: Compute) -> dict[str, str]:
    return {"busbar:queue": compute.queue, "busbar:compute-resource": compute.name, "busbar:node-type": "compute"}


def _root(args: PoolArgs) -> ec2.LaunchTemplateBlockDeviceMappingArgs:
    return ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=args.family.root_device,
        ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_type="gp3",
            volume_size=args.root.gib,
            iops=args.root.iops,
            throughput=args.root.mibps,
            encrypted="true",
            delete_on_termination="true",
        ),
    )


def _interfaces(args: PoolArgs) -> list[ec2.LaunchTemplateNetworkInterfaceArgs]:
    compute = args.compute
    if compute.instance is None:
        raise pulumi.RunError(f"{compute.key} is {compute.instance_type}, which is not in the catalogue.")
    return [
        ec2.LaunchTemplateNetworkInterfaceArgs(
            network_card_index=nic.card,
            device_index=nic.device,
            interface_type=nic.kind,
            subnet_id=args.subnet_id,
            security_groups=[args.group_id],
            delete_on_termination="true",
            # EC2 knows no address on the further ones, and takes the word only where there is one interface.
            associate_public_ip_address=None,
            description=f"{args.name} {'front end' if nic.kind == PLAIN else 'EFA'}",
        )
        for nic in layout(compute.instance, efa=compute.has_efa, legacy=compute.legacy_efa)
    ]


def _market(compute: Compute) -> ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    """A fleet says itself that it wants spot machines, and refuses a template that does."""
    return ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type=BLOCK) if compute.capacity == BLOCK else None


def _capacity(
    compute: Compute, reservation: pulumi.Input[str] | None
) -> ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if reservation is None:
        return None
    by_group = compute.capacity == "odcr-group"
    target = ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=None if by_group else reservation,
        capacity_reservation_resource_group_arn=reservation if by_group else None,
    )
    return ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)


def _user_data(args: PoolArgs, mounts: Mounts, head_key: str) -> str:
    compute = args.compute
    boot = ComputeBoot(
        image=args.family,
        timezone=args.timezone,
        keys=tuple(key for key in (args.operator_key, head_key.strip()) if key),
        mounts=mounts,
        efa=compute.instance.efa if compute.instance and compute.has_efa else 0,
        stack=STACK,
        enroot=ENROOT if args.container else "",
    )
    return base64.b64encode(render(boot).encode()).decode()


def _ids(sets: Sequence[Any] | None) -> list[str]:
    return sorted(str(one) for each in sets or () for one in _field(each, "instance_ids") or ())


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name)


def _members(compute: Compute, wanted: Sequence[str], ids: Sequence[str], addresses: Sequence[str]) -> tuple[Member, ...]:
    """Return the fleet's machines by address; refuse a fleet that is short."""
    if len(ids) != compute.static and not (ids and pulumi.runtime.is_dry_run()):
        gone = ", ".join(sorted(set(wanted) - set(ids))) or "none of them is known"
        raise pulumi.RunError(
            f"{compute.key} has {len(ids)} of {compute.static} machines running (missing: {gone}); those that run are billed. "
            "Run "
            "the update again if they are just starting; replace the fleet or destroy the stack if they are gone."
        )
    return tuple(Member(*pair) for pair in sorted(zip(ids, addresses, strict=True), key=lambda pair: _order(pair[1])))


def _order(address: str) -> tuple[int, ...]:
    return tuple(int(part) for part in address.split("."))
