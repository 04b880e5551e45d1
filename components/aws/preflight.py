"""Asks the account for facts before anything is created, and judges all rules with the answers.

Data sources cannot do a dry run of RunInstances, so a lack of capacity shows only at the launch.
"""

from __future__ import annotations

from functools import partial

import pulumi_aws
from pulumi_aws import ec2

from catalogue.aws.instances import BLOCK, ON_DEMAND, SPOT
from components.aws import existing, quota
from components.aws.account_lookups import ask, is_missing, resource, there
from components.aws.compute import POOL_TAG
from components.report_findings import refuse
from config.aws.facts import Facts, Image, Machine, Reservation
from config.aws.model import Aws, Machines
from config.aws.rules import RULES
from config.rule import ERROR, check

_POOL = "AWS::EC2::CapacityReservationPool"


def judge(wanted: Aws) -> None:
    """Judge `wanted` by all rules that are not suppressed, with the account's answers.

    The account is not asked if `preflight` is false, or if a rule that needs no account finds an error other than a
    missing reservation.

    Raises:
        pulumi.RunError: there are errors. The message has one sentence for each error. If the account was asked, the Capacity
            Blocks on offer follow for each entry that sets `purchase.showOfferings` and names no block.
    """
    # Rules that need no account come first: asking about an instance type that does not exist is useless.
    findings = check(RULES, wanted, Facts(), wanted.suppress)
    asked = wanted.preflight and {found.rule for found in findings if found.severity == ERROR} <= {"reservation-missing"}
    on_offer: list[str] = []
    if asked:
        findings = check(RULES, wanted, _gather(wanted), wanted.suppress)
        on_offer = [f"On offer is {offer(one)}" for _, _, one in wanted.located if _lacks_block(one)]
    refuse(findings, on_offer)


def _gather(wanted: Aws) -> Facts:
    """Ask the account, and return the facts that the rules need."""
    machines = [one for _, _, one in wanted.located]
    types = dict.fromkeys(one.type for one in machines)
    named = {one.purchase.reservation: one for one in machines if one.purchase.reservation}
    groups = {one.placement_group for one in machines if one.placement_group}
    unreserved = [one for one in machines if one.purchase.option in {ON_DEMAND, SPOT}]
    # The keys are quotas: several entries that count towards the same quota need only one look-up.
    counted = {its: one for one in unreserved if (its := one.quota)}
    rooms = {its: there(partial(quota.limit, its)) for its in counted}
    used = {its: quota.used(one) for its, one in counted.items() if rooms[its] is not None}
    subnets = existing.subnets(wanted)
    return Facts(
        region=ask("the region", "index/getRegion:getRegion", lambda: pulumi_aws.get_region().region),
        reservations={
            name: there(partial(_reservation, name, one)) for name, one in named.items() if one.purchase.option != "odcr-group"
        },
        groups={name: _group(name) for name, one in named.items() if one.purchase.option == "odcr-group"},
        zones={kind: _zones(kind) for kind in (wanted.login.type, *types)},
        machines={kind: _machine(kind) for kind in types},
        images={image: there(partial(_image, image)) for image in _ids(wanted)},
        placement_groups={name: _strategy(name) for name in sorted(groups)},
        quota_vcpus=rooms,
        quota_used=used,
        running={key: _running(wanted, key) for _, key, _ in wanted.located},
        vpcs=existing.vpcs(subnets),
        subnets=subnets,
        security_groups=existing.security_groups(wanted),
        elastic_ips=quota.elastic_ips(wanted),
        profiles=existing.profiles(wanted),
    )


def _running(wanted: Aws, key: str) -> int:
    """Return how many machines of clusters of this name run for the entry `key`, no matter who started them."""
    tags = {"busbar:cluster": wanted.name, POOL_TAG: key}
    named = [ec2.GetInstancesFilterArgs(name=f"tag:{name}", values=[value]) for name, value in tags.items()]
    found = ask(
        f"the machines of {key} that run",
        "ec2/getInstances:getInstances",
        lambda: ec2.get_instances(filters=named, instance_state_names=["pending", "running"]),
    )
    return len(found.ids)


def _ids(wanted: Aws) -> tuple[str, ...]:
    return tuple(dict.fromkeys(image for image in (wanted.image, wanted.login.image) if image))


def _lacks_block(one: Machines) -> bool:
    bought = one.purchase
    return bool(bought.option == BLOCK and bought.show_offerings_h and not bought.reservation and not bought.offering)


def offer(machines: Machines) -> str:
    """Return the end of a sentence: a Capacity Block that is on offer now, and its price. Nothing is bought."""
    found = ask(
        f"what Capacity Blocks of {machines.type} are on offer",
        "ec2/getCapacityBlockOffering:getCapacityBlockOffering",
        lambda: ec2.get_capacity_block_offering(
            capacity_duration_hours=machines.purchase.show_offerings_h,
            instance_count=len(machines.numbers) + machines.dynamic,
            instance_type=machines.type,
        ),
    )
    return (
        f"{found.capacity_block_offering_id}: {found.instance_count} x {found.instance_type} in {found.availability_zone} for "
        f"{found.capacity_duration_hours} hours from {found.start_date_range}, {found.upfront_fee} {found.currency_code} "
        "upfront."
    )


def _zones(kind: str) -> tuple[str, ...]:
    named = ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=[kind])
    found = ask(
        f"the zones that offer {kind}",
        "ec2/getInstanceTypeOfferings:getInstanceTypeOfferings",
        lambda: ec2.get_instance_type_offerings(filters=[named], location_type="availability-zone"),
    )
    return tuple(sorted(found.locations))


def _machine(kind: str) -> Machine:
    found = ask(f"type {kind}", "ec2/getInstanceType:getInstanceType", lambda: ec2.get_instance_type(instance_type=kind))
    cards = sorted(found.network_cards, key=lambda card: card.index)
    return Machine(
        usage=frozenset(found.supported_usages_classes),
        strategies=frozenset(found.supported_placement_strategies),
        efa=int(found.efa_maximum_interfaces or 0) if found.efa_supported else 0,
        cards=tuple(int(card.maximum_interfaces) for card in cards),
    )


def _image(image: str) -> Image:
    named = ec2.GetAmiFilterArgs(name="image-id", values=[image])
    found = ask(f"image {image}", "ec2/getAmi:getAmi", lambda: ec2.get_ami(filters=[named], include_deprecated=True))
    sizes = [
        int((disk.ebs or {}).get("volume_size") or 0)
        for disk in found.block_device_mappings
        if disk.device_name == found.root_device_name
    ]
    return Image(found.architecture, f"{found.name} {found.description}".strip(), max(sizes, default=0))


def _reservation(name: str, one: Machines) -> Reservation:
    """Return the reservation `name`, a Capacity Block or an on-demand reservation; the rules check whether its kind fits."""
    as_block = partial(
        ask,
        f"reservation {name}",
        "ec2/getCapacityBlockReservation:getCapacityBlockReservation",
        lambda: ec2.get_capacity_block_reservation(id=name),
    )
    block = there(as_block) if one.purchase.option == BLOCK else None
    if block is not None:
        return Reservation(
            id=name,
            block=True,
            state=block.state,
            instance_type=block.instance_type,
            zone=block.availability_zone,
            instances=int(block.instance_count),
            placement_group=_group_name(block.placement_group_arn),
            start=block.start_date or "",
        )
    return _on_demand(name)


def _on_demand(name: str) -> Reservation:
    """Return a reservation through Cloud Control: the provider has no data source for on-demand reservations."""
    said = resource("AWS::EC2::CapacityReservation", name)
    return Reservation(
        id=name,
        block=said.get("ReservationType") == BLOCK,
        state=str(said.get("State", "active")),
        instance_type=str(said["InstanceType"]),
        zone=str(said["AvailabilityZone"]),
        instances=int(said.get("TotalInstanceCount") or said["InstanceCount"]),
        placement_group=_group_name(said.get("PlacementGroupArn")),
    )


def _group(arn: str) -> tuple[Reservation, ...] | None:
    try:
        said = resource("AWS::ResourceGroups::Group", arn.rpartition("group/")[2])
    except Exception as error:
        if is_missing(error):
            return None
        raise
    if _POOL not in {each.get("Type") for each in said.get("Configuration") or ()}:
        return None
    names = [str(each).rpartition("/")[2] for each in said.get("Resources") or ()]
    return tuple(_on_demand(name) for name in names if name.startswith("cr-"))


def _strategy(name: str) -> str | None:
    try:
        return str(resource("AWS::EC2::PlacementGroup", name)["Strategy"])
    except Exception as error:
        if is_missing(error):
            return None
        raise


def _group_name(arn: str | None) -> str:
    return (arn or "").rpartition("/")[2]
