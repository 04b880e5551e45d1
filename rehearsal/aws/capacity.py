"""Refuses launches for lack of capacity (quotas, reservations, placement groups), and defines reservations as resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from typing_extensions import override

from rehearsal.aws import account
from rehearsal.aws.account import Reservation
from rehearsal.aws.errors import Problem, combination, invalid, not_played, refused
from rehearsal.aws.kinds import INSTANCE, PLACEMENT, Asked, Kind, by_name, now
from rehearsal.aws.launch import Launch
from rehearsal.aws.places import region_of, zones
from rehearsal.aws.types import BLOCK, QUOTAS, TYPES, letters
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record

RESERVATION = "aws:ec2/capacityReservation:CapacityReservation"
PURCHASE = "aws:ec2/capacityBlockReservation:CapacityBlockReservation"
_TARGET = "capacityReservationSpecification.capacityReservationTarget"
MAX_BLOCK_INSTANCES = 64  # the largest number of instances in one block (EC2 API, PurchaseCapacityBlock)
NO_CAPACITY = (
    "We currently do not have sufficient {} capacity in the Availability Zone you requested ({}). Our system will be working "
    "on provisioning additional capacity."
)


def no_capacity(kind: str, zone: str) -> Problem:
    """Return the refusal for lack of capacity."""
    return refused("", "InsufficientInstanceCapacity", NO_CAPACITY.format(kind, zone), 500)


def reservations(database: Database, region: str) -> dict[str, Reservation]:
    """Return all reservations by id: the account's initial reservations, and the reservations that programs created."""
    found = account.reservations(region)
    for record in database.of(RESERVATION):
        one = record.outputs()
        arn = str(one.get("placementGroupArn") or "")
        found[record.id] = Reservation(
            record.id,
            one["instanceType"],
            int(one["instanceCount"]),
            one["availabilityZone"],
            block=False,
            placement_group=arn.rpartition("/")[2],
            match=one["instanceMatchCriteria"],
        )
    for record in database.of(PURCHASE):
        one = record.outputs()
        found[record.id] = Reservation(
            record.id,
            one["instanceType"],
            int(one["instanceCount"]),
            one["availabilityZone"],
            block=True,
            start=one["startDate"],
            end=one["endDate"],
        )
    return found


def used(database: Database, reservation: str) -> int:
    """Return the number of instances in a reservation."""
    return sum(one.private.get("reservation") == reservation for one in database.of(INSTANCE))


def quota_left(database: Database, kind: str) -> float:
    """Return the vCPUs left in a type's on-demand quota."""
    mine = letters(kind)
    running = (TYPES[one.private["type"]] for one in database.of(INSTANCE) if one.private.get("market") == "on-demand")
    return QUOTAS[mine][2] - sum(one.vcpus for one in running if letters(one.name) == mine)


def problems(launch: Launch, database: Database, region: str, count: int) -> Iterator[Problem]:
    """Yield the service's refusals for lack of capacity, as far as the inputs are known."""
    kind = launch.type
    if kind is None:
        return
    if launch.market not in kind.usage:
        yield refused(
            "instanceMarketOptions.marketType",
            "Unsupported",
            f"{kind.name} is not sold as {launch.market}; it is sold as {', '.join(kind.usage)}.",
        )
    needed = kind.vcpus * count
    # A launch into a reservation is not compared with the on-demand quota, because in the real cloud the reservation itself
    # counted towards the quota when it was created.
    if launch.market == "on-demand" and launch.reservation is None and needed > quota_left(database, kind.name):
        yield refused(
            "instanceType",
            "VcpuLimitExceeded",
            f"You have requested more vCPU capacity than your current vCPU limit of {QUOTAS[letters(kind.name)][2]:g} allows "
            "for the instance bucket that the specified instance type belongs to. Please visit "
            "http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.",
        )
    yield from _placement(launch, database)
    yield from _reserved(launch, database, region, count)


def _placement(launch: Launch, database: Database) -> Iterator[Problem]:
    name, kind = launch.placement_group, launch.type
    if name is None or kind is None:
        return
    record = by_name(database, PLACEMENT, name)
    if record is None and name != account.PLACEMENT_GROUP:
        yield refused("placement.groupName", "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        return
    strategy = record.inputs.get("strategy", "cluster") if record else "cluster"
    if strategy not in kind.strategies:
        yield combination(
            "placement.groupName",
            f"{str(strategy).capitalize()} placement groups are not supported by the '{kind.name}' instance type. Specify a "
            "supported instance type or change the placement group strategy, and try again.",
        )


def _reserved(launch: Launch, database: Database, region: str, count: int) -> Iterator[Problem]:
    if launch.reservation_group is not None and launch.reservation_group != account.group_arn(region):
        yield invalid(_TARGET, f"The capacity reservation resource group {launch.reservation_group} does not exist.")
    if launch.market == BLOCK and launch.reservation is None and launch.reservation_group is None:
        yield combination(_TARGET, "Capacity Block market requests must target a capacity reservation by its id.")
    if launch.reservation is None or launch.type is None:
        return
    found = reservations(database, region).get(launch.reservation)
    if found is None:
        missing = f"The capacity reservation ID '{launch.reservation}' does not exist"
        yield refused(_TARGET, "InvalidCapacityReservationId.NotFound", missing)
        return
    yield from _mismatches(launch, found, database)
    if found.state != "active":
        # A block accepts launches from its start time on (EC2 user guide, Capacity Blocks for ML).
        when = f"begins at {found.start}; it is not active yet" if found.state == "scheduled" else f"ended at {found.end}"
        yield invalid(_TARGET, f"The Capacity Block {found.id} is {found.state} and {when}.")
    if used(database, found.id) + count > found.count:
        yield refused(
            _TARGET,
            "ReservationCapacityExceeded",
            f"The requested reservation {found.id} does not have sufficient compatible and available capacity for this "
            "request.",
        )
    if found.block and launch.placement_group:
        # EC2 may refuse a launch that requests both a block and a placement group, even if the block has capacity
        # (aws-parallelcluster warns about this). The rehearsal always refuses such a launch.
        no_room = NO_CAPACITY.format(launch.type.name, found.zone)
        yield refused("placement.groupName", "InsufficientInstanceCapacity", no_room, 500)


def _mismatches(launch: Launch, found: Reservation, database: Database) -> Iterator[Problem]:
    """Yield each difference between a reservation and a launch into this reservation."""
    subnet, kind = launch.subnet(database), launch.type
    if found.block != (launch.market == BLOCK):
        what = "a Capacity Block" if found.block else "an on-demand reservation"
        yield combination(_TARGET, f"{found.id} is {what}, but the market type is {launch.market}.")
    if kind is not None and found.type != kind.name:
        yield invalid(_TARGET, f"{found.id} holds {found.type}, but the request is for {kind.name}.")
    if subnet is not None and subnet.private["zone"] != found.zone:
        yield invalid(_TARGET, f"{found.id} is in {found.zone}, but the request is for {subnet.private['zone']}.")
    if found.placement_group and launch.placement_group != found.placement_group:
        yield invalid(_TARGET, f"{found.id} was created in placement group {found.placement_group}; the request must name it.")


class CapacityReservation(Kind):
    """An on-demand reservation of capacity, which is charged whether or not instances use it."""

    token, noun, prefix, arn = RESERVATION, "capacity reservation", "cr", "capacity-reservation/{id}"
    create, update, delete = "CreateCapacityReservation", "ModifyCapacityReservation", "CancelCapacityReservation"
    ready = "active"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        kind, zone = TYPES.get(str(asked.known("instanceType"))), asked.known("availabilityZone")
        if asked.known("instanceType") is not None and kind is None:
            yield invalid("instanceType", f"Invalid value '{asked.known('instanceType')}' for InstanceType.")
        elif kind is not None and zone is not None and zone not in kind.offered(zones(region_of(asked.inputs))):
            yield refused("availabilityZone", "Unsupported", f"{kind.name} is not offered in {zone}.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            instanceMatchCriteria="open", tenancy="default", endDateType="unlimited", ebsOptimized=False, endDate="",
            ephemeralStorage=False, outpostArn="", placementGroupArn="",
        )  # fmt: skip


class CapacityBlock(Kind):
    """A Capacity Block, which is charged when it is bought; the deletion of a block refunds nothing."""

    token, noun, prefix, arn = PURCHASE, "capacity block", "cr", "capacity-reservation/{id}"
    create, update, delete = "PurchaseCapacityBlock", "CreateTags", "CancelCapacityReservation"
    ready = "active"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        offering = asked.known("capacityBlockOfferingId")
        if offering is not None and _offer(str(offering)) is None:
            yield refused(
                "capacityBlockOfferingId",
                "InvalidCapacityBlockOfferingId.NotFound",
                f"The capacity block offering '{offering}' does not exist or is sold.",
            )
        if asked.known("instancePlatform") not in {None, "Linux/UNIX"}:
            yield not_played("instancePlatform", "The rehearsal has only Linux machines.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        kind, count = _offer(record.inputs["capacityBlockOfferingId"]) or ("", 0)
        record.computed.update(
            instanceType=kind, instanceCount=count, availabilityZone=zones(region_of(record.inputs))[0], createdDate=now(),
            ebsOptimized=True, endDate=_a_day_after(now()), endDateType="limited", outpostArn="", placementGroupArn="",
            startDate=now(), reservationType=BLOCK, tenancy="default",
        )  # fmt: skip

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is not None:
            return
        cloud.wait(60)
        # The purchase is complete once the block is active or scheduled
        # (terraform-provider-aws:internal/service/ec2/ec2_capacity_block_reservation.go). The fault `block_scheduled` delays
        # the start of the block.
        later = [fault["seconds"] for fault in cloud.world.faults() if fault["kind"] == "block_scheduled"]
        if later:
            begins = datetime.now(UTC) + timedelta(seconds=float(str(later[0])))
            with cloud.store.change() as database:
                starts = f"{begins:%Y-%m-%dT%H:%M:%SZ}"
                database.records[record.id].computed.update(startDate=starts, endDate=_a_day_after(starts))


def _a_day_after(time: str) -> str:
    """Return the end of a block that starts at `time` and lasts one day; AWS sells no shorter block."""
    return f"{datetime.fromisoformat(time) + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"


def offering_id(kind: str, count: int) -> str:
    """Return the id of the offering of `count` machines of type `kind`; the id encodes both, so no offering is stored."""
    listed = sorted(TYPES)
    return f"{account.OFFERING[:9]}{listed.index(kind):04x}{count:04x}"


def _offer(offering: str) -> tuple[str, int] | None:
    text = offering.removeprefix(account.OFFERING[:9])
    try:
        kind, count = sorted(TYPES)[int(text[:4], 16)], int(text[4:], 16)
    except (ValueError, IndexError):
        return None
    right = offering.startswith(account.OFFERING[:9]) and BLOCK in TYPES[kind].usage and 1 <= count <= MAX_BLOCK_INSTANCES
    return (kind, count) if right else None
