"""Machines of one type in a queue: their launch template, their placement group, and those that always run.

A scheduler starts the dynamic ones from the same template. A pool with too few members has failed: the vendor bills them, and a
ring needs all.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import ec2

from catalogue.aws import STACK
from catalogue.aws.instances import BLOCK, SPOT
from catalogue.aws.nics import PLAIN, layout
from catalogue.containers import ENROOT
from cloudinit.aws import ComputeBoot, Mounts, render
from components.aws.parts import Parts
from config.aws.model import Aws, Machines

_CREATE_TIMEOUT = "30m"
#: CreateFleet's words for what RunInstances and settings spell with hyphens.
_ALLOCATION = {"lowest-price": "lowestPrice"}


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

    def __init__(
        self,
        name: str,
        wanted: Aws,
        key: str,
        parts: Parts,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:aws:Pool", name, None, opts)
        self._name, self._wanted, self._key, self._parts = name, wanted, key, parts
        self._machines = next(one for _, its, one in wanted.located if its == key)
        self._label = f"{wanted.name}-{key}"
        self._mine = pulumi.ResourceOptions(parent=self)
        template = self._template(self._placement(), self._reservation())
        self.template_id = template.id
        if not self._machines.static:
            self.members = pulumi.Output.from_input(())
        elif self._machines.purchase.option in {"targeted-odcr", BLOCK}:
            self.members = self._instances(template)
        else:
            self.members = self._fleet(template)
        self.register_outputs({"template_id": self.template_id})

    def _placement(self) -> pulumi.Input[str] | None:
        machines = self._machines
        if machines.placement == "existing":
            return machines.placement_group
        if not machines.makes_group:
            return None
        group = ec2.PlacementGroup(
            f"{self._name}-group", strategy="cluster", tags=self._wanted.named(self._key), opts=self._mine
        )
        return group.name

    def _reservation(self) -> pulumi.Input[str] | None:
        """Return what capacity is targeted; buy a Capacity Block only where its id was given twice."""
        bought = self._machines.purchase
        if not bought.offering:
            return bought.reservation
        block = ec2.CapacityBlockReservation(
            f"{self._name}-block",
            capacity_block_offering_id=bought.offering,
            instance_platform="Linux/UNIX",
            tags=self._wanted.named(self._key),
            # A second purchase must never follow from a changed line, and a block that is paid outlives the stack.
            opts=pulumi.ResourceOptions(
                parent=self, ignore_changes=["capacityBlockOfferingId", "instancePlatform"], retain_on_delete=True
            ),
        )
        return block.id

    def _template(self, group: pulumi.Input[str] | None, reservation: pulumi.Input[str] | None) -> ec2.LaunchTemplate:
        wanted, parts, machines = self._wanted, self._parts, self._machines
        tags = {**wanted.named(self._key), **self._node_tags()}
        return ec2.LaunchTemplate(
            f"{self._name}-template",
            name=self._label,
            image_id=wanted.image,
            instance_type=machines.type,
            ebs_optimized="true",
            instance_initiated_shutdown_behavior="terminate",
            update_default_version=True,
            iam_instance_profile=ec2.LaunchTemplateIamInstanceProfileArgs(name=parts.profile),
            metadata_options=ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            block_device_mappings=[_root(wanted)],
            network_interfaces=self._interfaces(),
            placement=ec2.LaunchTemplatePlacementArgs(group_name=group) if group else None,
            instance_market_options=_market(machines),
            capacity_reservation_specification=_capacity(machines, reservation),
            tag_specifications=[
                ec2.LaunchTemplateTagSpecificationArgs(resource_type=noun, tags=tags) for noun in ("instance", "volume")
            ],
            user_data=pulumi.Output.from_input(parts.mounts).apply(lambda mounts: _user_data(wanted, machines, mounts)),
            tags=tags,
            opts=self._mine,
        )

    def _fleet(self, template: ec2.LaunchTemplate) -> pulumi.Output[tuple[Member, ...]]:
        machines, bought = self._machines, self._machines.purchase
        spot = bought.option == SPOT
        overrides = (
            [ec2.FleetLaunchTemplateConfigOverrideArgs(max_price=f"{bought.max_price_usd:g}")] if bought.max_price_usd else None
        )
        reserved = ec2.FleetOnDemandOptionsCapacityReservationOptionsArgs(usage_strategy="use-capacity-reservations-first")
        # The vendor starts all of them or none, in one place.
        whole: dict[str, Any] = {
            "min_target_capacity": machines.static,
            "single_availability_zone": True,
            "single_instance_type": True,
            "allocation_strategy": _ALLOCATION.get(bought.allocation or "lowest-price", bought.allocation),
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
                default_target_capacity_type="spot" if spot else "on-demand", total_target_capacity=machines.static
            ),
            spot_options=ec2.FleetSpotOptionsArgs(**whole) if spot else None,
            on_demand_options=None
            if spot
            else ec2.FleetOnDemandOptionsArgs(
                **whole, capacity_reservation_options=reserved if bought.option == "odcr-group" else None
            ),
            terminate_instances=True,
            tags=self._wanted.named(self._key),
            opts=self._replacing(["launchTemplateConfigs", "targetCapacitySpecification"]),
        )
        ids = fleet.fleet_instance_sets.apply(_ids)
        found = ec2.get_instances_output(
            filters=ids.apply(lambda found: [ec2.GetInstancesFilterArgs(name="instance-id", values=found)]),
            instance_state_names=["pending", "running"],
        )
        key, known = self._key, pulumi.Output.all(wanted=ids, ids=found.ids, addresses=found.private_ips)
        return known.apply(lambda its: _members(key, machines.static, its["wanted"], its["ids"], its["addresses"]))

    def _instances(self, template: ec2.LaunchTemplate) -> pulumi.Output[tuple[Member, ...]]:
        made = [
            ec2.Instance(
                f"{self._name}-{index}",
                launch_template=ec2.InstanceLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str)),
                opts=self._replacing(["launchTemplate"]),
            )
            for index in range(self._machines.static)
        ]
        pairs = [pulumi.Output.all(one.id, one.private_ip) for one in made]
        return pulumi.Output.all(*pairs).apply(lambda found: tuple(Member(str(one[0]), str(one[1])) for one in found))

    def _node_tags(self) -> dict[str, str]:
        queue = next(queue for queue in self._wanted.queues if self._machines in queue.machines)
        names = {"busbar:queue": queue.name, "busbar:compute-resource": self._machines.name}
        return {**names, "busbar:node-type": "compute"}

    def _interfaces(self) -> list[ec2.LaunchTemplateNetworkInterfaceArgs]:
        machines = self._machines
        if machines.instance is None:
            raise ValueError(f"{machines.type} is not in the catalogue")
        return [
            ec2.LaunchTemplateNetworkInterfaceArgs(
                network_card_index=nic.card,
                device_index=nic.device,
                interface_type=nic.kind,
                subnet_id=self._parts.subnet_id,
                security_groups=[self._parts.group_id],
                delete_on_termination="true",
                # EC2 takes this only where there is one interface.
                associate_public_ip_address=None,
                description=f"{self._label} {'front end' if nic.kind == PLAIN else 'EFA'}",
            )
            for nic in layout(machines.instance, efa=machines.has_efa, legacy=machines.legacy_efa)
        ]

    def _replacing(self, replaced_by: list[str]) -> pulumi.ResourceOptions:
        """Other templates are other machines; capacity is scarce, so the old ones go first."""
        return pulumi.ResourceOptions(
            parent=self,
            custom_timeouts=pulumi.CustomTimeouts(create=_CREATE_TIMEOUT, delete=_CREATE_TIMEOUT),
            replace_on_changes=replaced_by,
            delete_before_replace=True,
        )


def _root(wanted: Aws) -> ec2.LaunchTemplateBlockDeviceMappingArgs:
    return ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=wanted.family.root_device,
        ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            volume_type="gp3",
            volume_size=wanted.root.size_gib,
            iops=wanted.root.iops,
            throughput=wanted.root.throughput_mib_s,
            encrypted="true",
            delete_on_termination="true",
        ),
    )


def _market(machines: Machines) -> ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    """A fleet says itself that it wants spot machines, and refuses a template that does."""
    return ec2.LaunchTemplateInstanceMarketOptionsArgs(market_type=BLOCK) if machines.purchase.option == BLOCK else None


def _capacity(
    machines: Machines, reservation: pulumi.Input[str] | None
) -> ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if reservation is None:
        return None
    by_group = machines.purchase.option == "odcr-group"
    target = ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=None if by_group else reservation,
        capacity_reservation_resource_group_arn=reservation if by_group else None,
    )
    return ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)


def _user_data(wanted: Aws, machines: Machines, mounts: Mounts) -> str:
    boot = ComputeBoot(
        image=wanted.family,
        timezone=wanted.timezone,
        keys=(wanted.access.public_key,),
        mounts=mounts,
        efa=machines.instance.efa if machines.instance and machines.has_efa else 0,
        stack=STACK,
        enroot=ENROOT if wanted.container else "",
    )
    return base64.b64encode(render(boot).encode()).decode()


def _ids(sets: Sequence[Any] | None) -> list[str]:
    return sorted(str(one) for each in sets or () for one in _field(each, "instance_ids") or ())


def _field(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name)


def _members(key: str, count: int, wanted: Sequence[str], ids: Sequence[str], addresses: Sequence[str]) -> tuple[Member, ...]:
    """Return the fleet's machines by address; refuse a fleet that is short."""
    if len(ids) != count and not (ids and pulumi.runtime.is_dry_run()):
        gone = ", ".join(sorted(set(wanted) - set(ids))) or "none of them is known"
        raise pulumi.RunError(
            f"{key} has {len(ids)} of {count} machines running (missing: {gone}); those that run are billed. "
            "Run the update again if they are just starting; replace the fleet or destroy the stack if they are gone."
        )
    return tuple(Member(*pair) for pair in sorted(zip(ids, addresses, strict=True), key=lambda pair: _order(pair[1])))


def _order(address: str) -> tuple[int, ...]:
    return tuple(int(part) for part in address.split("."))
