"""Data sources of capacity reservations, groups of reservations, placement groups and Capacity Block offerings."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rehearsal.aws import account, capacity
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.kinds import PLACEMENT, by_name
from rehearsal.aws.lookup_requests import Answer, needed, refusal
from rehearsal.aws.places import ACCOUNT, partition, zones
from rehearsal.aws.types import BLOCK, TYPES


def resource(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a resource in the form in which AWS's Cloud Control API returns resources.

    Raises:
        ServiceError: the resource does not exist, or the request is invalid.
    """
    kind, name = (needed(args, one, "CloudControl", "GetResource") for one in ("typeName", "identifier"))
    found = _CONTROLLED[kind](name, cloud, region) if kind in _CONTROLLED else None
    if kind not in _CONTROLLED:
        raise refusal("TypeNotFoundException", f"The rehearsal does not support {kind}.", "CloudControl", "GetResource")
    if found is None:
        message = f"ResourceNotFoundException: AWS::{kind.partition('::')[2]} {name} was not found"
        raise refusal("ResourceNotFoundException", message, "CloudControl", "GetResource")
    return {"id": name, "properties": json.dumps(found)}


def _controlled_reservation(name: str, cloud: Cloud, region: str) -> Answer | None:
    one = capacity.reservations(cloud.store.read(), region).get(name)
    if one is None:
        return None
    group = (
        f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}:placement-group/{one.placement_group}" if one.placement_group else ""
    )
    left = one.count - capacity.used(cloud.store.read(), one.id)
    found = {
        "Id": one.id, "InstanceType": one.type, "AvailabilityZone": one.zone, "InstanceCount": one.count, "State": one.state,
        "TotalInstanceCount": one.count, "AvailableInstanceCount": left, "InstanceMatchCriteria": one.match,
        "ReservationType": BLOCK if one.block else "default", "Tenancy": "default",
    }  # fmt: skip
    return found | ({"PlacementGroupArn": group} if group else {})


def _controlled_group(name: str, cloud: Cloud, region: str) -> Answer | None:
    del cloud
    if name != account.GROUP:
        return None
    arns = [f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}:capacity-reservation/{one}" for one in account.POOLED]
    return {
        "Name": name,
        "Arn": account.group_arn(region),
        "Resources": arns,
        "Configuration": [
            {"Type": "AWS::EC2::CapacityReservationPool"},
            {
                "Type": "AWS::ResourceGroups::Generic",
                "Parameters": [{"Name": "allowed-resource-types", "Values": ["AWS::EC2::CapacityReservation"]}],
            },
        ],
    }


def _controlled_placement(name: str, cloud: Cloud, region: str) -> Answer | None:
    del region
    record = by_name(cloud.store.read(), PLACEMENT, name)
    if record is not None:
        return {"GroupName": name, "Strategy": record.inputs.get("strategy", "cluster")}
    return {"GroupName": name, "Strategy": "cluster"} if name == account.PLACEMENT_GROUP else None


_CONTROLLED: Mapping[str, Callable[[str, Cloud, str], Answer | None]] = {
    "AWS::EC2::CapacityReservation": _controlled_reservation,
    "AWS::ResourceGroups::Group": _controlled_group,
    "AWS::EC2::PlacementGroup": _controlled_placement,
}


def block(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a Capacity Block of the account.

    Raises:
        ServiceError: no Capacity Block has this id, or the request is invalid.
    """
    name = needed(args, "id", "EC2", "DescribeCapacityReservations")
    one = capacity.reservations(cloud.store.read(), region).get(name)
    if one is None or not one.block:
        message = f"The capacity reservation ID '{name}' does not exist" if one is None else f"{name} is not a Capacity Block"
        raise refusal("InvalidCapacityReservationId.NotFound", message, "EC2", "DescribeCapacityReservations")
    return {
        "id": name, "instanceType": one.type, "instanceCount": one.count, "availabilityZone": one.zone,
        "state": one.state, "startDate": one.start,
        "placementGroupArn": "", "reservationType": BLOCK, "tenancy": "default", "instancePlatform": "Linux/UNIX",
        "arn": f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}:capacity-reservation/{name}", "tags": {}, "outpostArn": "",
    }  # fmt: skip


def offer(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a Capacity Block offering.

    Raises:
        ServiceError: no offering matches, or the request is invalid.
    """
    del cloud
    name, operation = needed(args, "instanceType", "EC2", "DescribeCapacityBlockOfferings"), "DescribeCapacityBlockOfferings"
    kind, count, hours = TYPES.get(name), int(args.get("instanceCount") or 0), int(args.get("capacityDurationHours") or 0)
    if kind is None or BLOCK not in kind.usage or not 1 <= count <= capacity.MAX_BLOCK_INSTANCES or hours % 24 or not hours:
        raise refusal(
            "InvalidParameterValue", f"no capacity block offering for {count} x {name}, {hours} hours", "EC2", operation
        )
    start = (datetime.now(UTC) + timedelta(days=1)).replace(hour=11, minute=30, second=0, microsecond=0)
    fee = count * hours * float(account.OFFERED_USD_PER_HOUR)
    return {
        "capacityBlockOfferingId": capacity.offering_id(name, count),
        "availabilityZone": zones(region)[0],
        "startDateRange": f"{start:%Y-%m-%dT%H:%M:%SZ}",
        "endDateRange": f"{start + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}",
        "upfrontFee": f"{fee:.2f}",
        "currencyCode": "USD",
        "tenancy": "default",
    }
