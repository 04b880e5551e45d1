"""DescribeCapacityReservations: the account's reservations and Capacity Blocks.

Source: EC2 API reference, DescribeCapacityReservations and CapacityReservation.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from rehearsal.aws import capacity
from rehearsal.aws.account import Reservation
from rehearsal.aws.api.rights import Call
from rehearsal.aws.errors import not_played, refused
from rehearsal.aws.places import ACCOUNT, partition
from rehearsal.aws.types import BLOCK
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database


def described(call: Call, database: Database) -> Mapping[str, Any]:
    """Return the answer to `call`.

    Raises:
        ServiceError: the request names a reservation that the account does not have, or a parameter that is not rehearsed.
    """
    for name in sorted(set(call.asked) - {"CapacityReservationIds"}):
        why = f"{name} is given, but the rehearsal lists either all reservations, or reservations by their ids."
        raise ServiceError(not_played(name, why), "EC2", call.action)
    known = capacity.reservations(database, call.region)
    ids = call.asked.get("CapacityReservationIds") or list(known)
    for one in ids:
        if one not in known:
            missing = f"The capacity reservation ID '{one}' does not exist"
            raise ServiceError(refused("", "InvalidCapacityReservationId.NotFound", missing), "EC2", call.action)
    return {"CapacityReservations": [_shown(call.region, known[one], database) for one in ids]}


def _shown(region: str, one: Reservation, database: Database) -> Mapping[str, Any]:
    arn = f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}"
    return {
        "CapacityReservationId": one.id, "OwnerId": ACCOUNT, "CapacityReservationArn": f"{arn}:capacity-reservation/{one.id}",
        "InstanceType": one.type, "InstancePlatform": "Linux/UNIX", "AvailabilityZone": one.zone, "Tenancy": "default",
        "TotalInstanceCount": one.count, "AvailableInstanceCount": one.count - capacity.used(database, one.id),
        "State": one.state, "StartDate": _milliseconds(one.start) if one.block else None, "EndDate": _milliseconds(one.end),
        "EndDateType": "limited" if one.end else "unlimited", "InstanceMatchCriteria": one.match,
        "PlacementGroupArn": f"{arn}:placement-group/{one.placement_group}" if one.placement_group else None,
        "ReservationType": BLOCK if one.block else "default",
    }  # fmt: skip


def _milliseconds(time: str) -> str | None:
    return f"{datetime.fromisoformat(time):%Y-%m-%dT%H:%M:%S}.000Z" if time else None
