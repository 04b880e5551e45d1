"""What only the account knows, asked before anything is created, and all rules judged with it: data sources, no resource.

It deliberately stops at what data sources can tell: RunInstances' dry run is not among them, so whether the vendor has room now
is known to nobody before the launch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import pulumi
import pulumi_aws
from pulumi_aws import cloudcontrol, ec2, servicequotas

from catalogue.aws import ERROR, WARNING, AwsIntent, Compute, Facts, Image, Machine, Reservation, check
from catalogue.instances import BLOCK, ON_DEMAND, SPOT, family

#: Quotas of EC2, counted in vCPUs, by the letters that a type begins with (Service Quotas console, "Amazon EC2").
_ON_DEMAND_QUOTA = {
    "p": "Running On-Demand P instances",
    "g": "Running On-Demand G and VT instances",
    "trn": "Running On-Demand Trn instances",
    "hpc": "Running On-Demand HPC instances",
    "m": "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances",
}
_SPOT_QUOTA = {
    "p": "All P4, P3 and P2 Spot Instance Requests",
    "g": "All G and VT Spot Instance Requests",
    "trn": "All Trn Spot Instance Requests",
    "m": "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests",
}
_SPOT_P5 = "All P5 Spot Instance Requests"
_T = TypeVar("_T")
_POOL = "AWS::EC2::CapacityReservationPool"


def judge(intent: AwsIntent, suppress: Collection[str], *, ask: bool) -> None:
    """Judge `intent` by all rules but the suppressed ones; log warnings, and what was not checked.

    Raises:
        pulumi.RunError: with one sentence for each error.
    """
    try:
        # What is wrong by itself is said first: an account need not be asked about a type that does not exist.
        findings = check(intent, suppress)
        if ask and not any(found.severity == ERROR for found in findings):
            findings = check(replace(intent, facts=gather(intent)), suppress)
    except ValueError as error:
        raise pulumi.RunError(str(error)) from None
    for found in findings:
        if found.severity == WARNING:
            pulumi.log.warn(f"{found.rule}: {found.text}")
        elif found.severity != ERROR:
            pulumi.log.info(found.text)
    errors = [f"{found.rule}: {found.text}" for found in findings if found.severity == ERROR]
    if errors and ask:
        errors += [f"On offer is {offer(one)}" for one in intent.compute if one.block_hours and _lacks_block(one)]
    if errors:
        raise pulumi.RunError("\n".join(errors))


def gather(intent: AwsIntent) -> Facts:
    """Ask the account what the rules need.

    Raises:
        pulumi.RunError: its region is another one, it has no image or reservation of that id, or it does not answer.
    """
    try:
        return _gather(intent)
    except pulumi.RunError:
        raise
    except Exception as error:  # noqa: BLE001 - the SDK raises no other
        raise pulumi.RunError(
            f"the account could not be asked: {_reason(error)}. Set preflight: false to ask nobody."
        ) from None


def _gather(intent: AwsIntent) -> Facts:
    here = pulumi_aws.get_region().region
    if here != intent.region:
        raise pulumi.RunError(f"region is {intent.region}, and aws:region of this stack is {here}; they must be the same.")
    types = dict.fromkeys(one.instance_type for one in intent.compute)
    named = [one for one in intent.compute if one.reservation]
    return Facts(
        reservations={
            one.reservation: _there(f"reservation {one.reservation}", intent, partial(_reservation, one))
            for one in named
            if one.capacity != "odcr-group"
        },
        groups={one.reservation: _group(one.reservation) for one in named if one.capacity == "odcr-group"},
        zones={kind: _zones(kind) for kind in (intent.head_type, *types)},
        machines={kind: _machine(kind) for kind in types},
        images={
            image: _there(f"image {image}", intent, partial(_image, image))
            for image in dict.fromkeys((intent.image, intent.head_image))
            if image
        },
        placement_groups={one.placement_group: _strategy(one.placement_group) for one in intent.compute if one.placement_group},
        quota_vcpus={one.instance_type: _quota(one) for one in intent.compute if one.capacity in {ON_DEMAND, SPOT}},
    )


def _there(noun: str, intent: AwsIntent, ask: Callable[[], _T]) -> _T:
    """Return what `ask` returns; refuse in a sentence what is not there."""
    try:
        return ask()
    except Exception as error:
        if _is_missing(error):
            raise pulumi.RunError(f"{noun} is not in {intent.region}, or this account may not see it.") from None
        raise


def _is_missing(error: Exception) -> bool:
    return "NotFound" in str(error) or "returned no results" in str(error)


def _reason(error: Exception) -> str:
    """Return the service's own words, without the way that they came."""
    text = str(error)
    for before in (" returned an error: ", "api error "):
        text = text.partition(before)[2] or text
    return text.strip().splitlines()[0].rstrip(".")


def _lacks_block(one: Compute) -> bool:
    return one.capacity == BLOCK and not one.reservation and not one.offering


def offer(compute: Compute) -> str:
    """Return the end of a sentence that names a Capacity Block on offer now for `compute`, and its price; buys nothing."""
    found = ec2.get_capacity_block_offering(
        capacity_duration_hours=compute.block_hours, instance_count=compute.static, instance_type=compute.instance_type
    )
    return (
        f"{found.capacity_block_offering_id}: {found.instance_count} x {found.instance_type} in {found.availability_zone} for "
        f"{found.capacity_duration_hours} hours from {found.start_date_range}, {found.upfront_fee} {found.currency_code} at "
        "once."
    )


def _zones(kind: str) -> tuple[str, ...]:
    found = ec2.get_instance_type_offerings(
        filters=[ec2.GetInstanceTypeOfferingsFilterArgs(name="instance-type", values=[kind])], location_type="availability-zone"
    )
    return tuple(sorted(found.locations))


def _machine(kind: str) -> Machine:
    found = ec2.get_instance_type(instance_type=kind)
    cards = sorted(found.network_cards, key=lambda card: card.index)
    return Machine(
        usage=frozenset(found.supported_usages_classes),
        strategies=frozenset(found.supported_placement_strategies),
        efa=int(found.efa_maximum_interfaces or 0) if found.efa_supported else 0,
        cards=tuple(int(card.maximum_interfaces) for card in cards),
    )


def _image(image: str) -> Image:
    found = ec2.get_ami(filters=[ec2.GetAmiFilterArgs(name="image-id", values=[image])], include_deprecated=True)
    sizes = [
        int((disk.ebs or {}).get("volume_size") or 0)
        for disk in found.block_device_mappings
        if disk.device_name == found.root_device_name
    ]
    return Image(found.architecture, f"{found.name} {found.description}".strip(), max(sizes, default=0))


def _quota(one: Compute) -> float | None:
    """Return the vCPUs that the account may run; None where that kind is not counted here."""
    letters = family(one.instance_type)
    if one.capacity == SPOT:
        name = _SPOT_P5 if one.instance_type.startswith("p5") else _SPOT_QUOTA.get(letters)
    else:
        name = _ON_DEMAND_QUOTA.get(letters)
    return float(servicequotas.get_service_quota(service_code="ec2", quota_name=name).value) if name else None


def _reservation(one: Compute) -> Reservation:
    if one.capacity == BLOCK:
        block = ec2.get_capacity_block_reservation(id=one.reservation)
        return Reservation(
            id=one.reservation,
            block=True,
            state=block.state,
            instance_type=block.instance_type,
            zone=block.availability_zone,
            instances=int(block.instance_count),
            placement_group=_group_name(block.placement_group_arn),
        )
    return _on_demand(one.reservation)


def _on_demand(name: str) -> Reservation:
    """Return a reservation as Cloud Control shows it: the provider has no data source for on-demand ones."""
    said = _resource("AWS::EC2::CapacityReservation", name)
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
        said = _resource("AWS::ResourceGroups::Group", arn.rpartition("group/")[2])
    except Exception as error:
        if _is_missing(error):
            return None
        raise
    if _POOL not in {each.get("Type") for each in said.get("Configuration") or ()}:
        return None
    names = [str(each).rpartition("/")[2] for each in said.get("Resources") or ()]
    return tuple(_on_demand(name) for name in names if name.startswith("cr-"))


def _strategy(name: str) -> str | None:
    try:
        return str(_resource("AWS::EC2::PlacementGroup", name)["Strategy"])
    except Exception as error:
        if _is_missing(error):
            return None
        raise


def _resource(kind: str, name: str) -> dict[str, Any]:
    return dict(json.loads(cloudcontrol.get_resource(type_name=kind, identifier=name).properties))


def _group_name(arn: str | None) -> str:
    return (arn or "").rpartition("/")[2]
