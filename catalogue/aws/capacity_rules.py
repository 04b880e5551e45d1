"""Rules about how capacity is found: reservations, Capacity Blocks, spot, quotas and counts."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue.aws.facts import Reservation, known
from catalogue.aws.intent import CAPACITIES, AwsIntent, Compute
from catalogue.aws.rule import ERROR, WARNING, rule
from catalogue.instances import BLOCK, INSTANCES, ON_DEMAND, SPOT
from catalogue.nic_layout import addresses, layout
from catalogue.shapes import nearest

_EC2 = "aws-parallelcluster:cli/src/pcluster/validators/ec2_validators.py"
_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_LEAST_BOTH = ("targeted-odcr", BLOCK)
#: The vendor keeps the first four addresses and the last one of a subnet.
_RESERVED_ADDRESSES = 5
#: What else stands in the nodes' subnet: file servers of FSx and the way to them.
_OTHER_ADDRESSES = 32
_ALLOCATIONS = {
    ON_DEMAND: ("lowest-price",),
    SPOT: ("lowest-price", "capacity-optimized", "price-capacity-optimized"),
    BLOCK: (),
}


def _reservations(intent: AwsIntent, one: Compute) -> tuple[Reservation, ...]:
    """Return the reservations that `one` names; none where it names none, or a group that is no pool."""
    if not one.reservation:
        return ()
    if one.capacity == "odcr-group":
        return known(intent.facts.groups, one.reservation, "reservation group") or ()
    return (known(intent.facts.reservations, one.reservation, "reservation"),)


@rule(12, "group-without-reservation", ERROR, f"{_EC2} PlacementGroupCapacityReservationValidator")
def group_without_reservation(intent: AwsIntent) -> Iterator[str]:
    """A placement group that holds none of the reservations which are named."""
    for one in intent.compute:
        if one.placement == "existing" and one.capacity in {"targeted-odcr", "odcr-group"}:
            found = [held.placement_group for held in _reservations(intent, one)]
            if found and one.placement_group not in found:
                yield (
                    f"{one.key} names placement group {one.placement_group}, and {one.reservation} was created in "
                    f"{', '.join(sorted(set(found) - {''})) or 'none'}; machines of a reservation start only in the group "
                    "that it "
                    "was created in."
                )


@rule(12, "group-beside-reservation", WARNING, f"{_EC2} PlacementGroupCapacityReservationValidator")
def group_beside_reservation(intent: AwsIntent) -> Iterator[str]:
    """A placement group that a reservation knows nothing of."""
    for one in intent.compute:
        beside = one.capacity in {"targeted-odcr", "odcr-group"} and one.placement == "managed"
        if beside and any(not held.placement_group for held in _reservations(intent, one)):
            yield (
                f"{one.key} has a placement group of its own beside {one.reservation}, which was created in none; say "
                "placement "
                "none, or the group may have no room although the reservation has some."
            )
        if one.capacity == "open-odcr" and one.placement in {"managed", "existing"}:
            yield (
                f"{one.key} has placement {one.placement} with open reservations; those that were created in no group, or in "
                "another, will not be used."
            )


@rule(13, "reservation-in-group", ERROR, f"{_EC2} PlacementGroupCapacityReservationValidator")
def reservation_in_group(intent: AwsIntent) -> Iterator[str]:
    """A reservation inside a placement group that the machines are not launched into."""
    for one in intent.compute:
        if one.placement != "existing":
            groups = sorted({held.placement_group for held in _reservations(intent, one)} - {""})
            if groups:
                yield (
                    f"{one.key} has placement {one.placement or 'undecided'}, and {one.reservation} was created in placement "
                    "group "
                    f"{', '.join(groups)}; say existing and name that group, or nothing of the reservation can be used."
                )


@rule(15, "reservation-type", ERROR, f"{_EC2} CapacityReservationValidator")
def reservation_type(intent: AwsIntent) -> Iterator[str]:
    """A reservation of another instance type."""
    for one in intent.compute:
        for held in _reservations(intent, one) if one.capacity in _LEAST_BOTH else ():
            if held.instance_type != one.instance_type:
                yield (
                    f"{one.key} is {one.instance_type}, and {held.id} reserves {held.instance_type}; they must be the same "
                    "type."
                )


@rule(16, "reservation-zone", ERROR, f"{_EC2} CapacityReservationValidator")
def reservation_zone(intent: AwsIntent) -> Iterator[str]:
    """A reservation in another zone."""
    for one in intent.compute:
        for held in _reservations(intent, one) if one.capacity in _LEAST_BOTH else ():
            if held.zone not in one.zones:
                yield (
                    f"{one.key} stands in {', '.join(one.zones)}, and {held.id} lies in {held.zone}; they must be in one zone."
                )


@rule(17, "block-without-reservation", ERROR, f"{_CLUSTER} CapacityTypeValidator")
def block_without_reservation(intent: AwsIntent) -> Iterator[str]:
    """A Capacity Block, a target or a group without saying which; or one that nobody asked to use."""
    for one in intent.compute:
        if one.capacity not in CAPACITIES:
            yield f"{one.key} has capacity {one.capacity!r}; it must be one of {', '.join(CAPACITIES)}."
        elif one.capacity == BLOCK and not one.reservation and not one.offering:
            yield (
                f"{one.key} has capacity capacity-block and names neither a reservation (cr-...) nor an offering (cb-...) to "
                "buy; "
                "blocks are never bought unasked."
            )
        elif one.capacity in {"targeted-odcr", "odcr-group"} and not one.reservation:
            wanted = "the ARN of a resource group" if one.capacity == "odcr-group" else "an id (cr-...)"
            yield f"{one.key} has capacity {one.capacity} and names no reservation; give {wanted}."
        elif one.capacity in {ON_DEMAND, SPOT, "open-odcr"} and (one.reservation or one.offering):
            yield (
                f"{one.key} names {one.reservation or one.offering} with capacity {one.capacity}, which uses none; say "
                "targeted-odcr, odcr-group or capacity-block."
            )


@rule(17, "block-reservation", ERROR, f"{_EC2} CapacityReservationValidator")
def block_reservation(intent: AwsIntent) -> Iterator[str]:
    """A reservation of the other kind, or one that is not active."""
    for one in intent.compute:
        for held in _reservations(intent, one):
            if held.block != (one.capacity == BLOCK):
                kind = "a Capacity Block" if held.block else "an on-demand reservation"
                yield (
                    f"{one.key} has capacity {one.capacity}, and {held.id} is {kind}; a launch asks for one or the other by "
                    "name."
                )
            if held.state != "active":
                yield f"{one.key} uses {held.id}, which is {held.state}; machines start only in one that is active."


@rule(17, "purchase-unconfirmed", ERROR, "EC2 API, PurchaseCapacityBlock: it cannot be cancelled and is charged at once")
def purchase_unconfirmed(intent: AwsIntent) -> Iterator[str]:
    """A purchase that was not confirmed."""
    for one in intent.compute:
        if one.offering and one.confirm_purchase != one.offering:
            yield (
                f"{one.key} would buy Capacity Block {one.offering}, and confirmPurchase is {one.confirm_purchase!r}; it must "
                "be "
                "that id again, for the purchase is charged at once and cannot be undone."
            )
        if one.offering and one.reservation:
            yield f"{one.key} names reservation {one.reservation} and would buy {one.offering} as well; name one of them."


@rule(18, "reservation-size", ERROR, f"{_EC2} CapacityReservationSizeValidator")
def reservation_size(intent: AwsIntent) -> Iterator[str]:
    """More machines than a reservation holds, summed over all that use it."""
    for name in dict.fromkeys(one.reservation for one in intent.compute if one.reservation):
        users = [one for one in intent.compute if one.reservation == name]
        held = [each for each in _reservations(intent, users[0]) if each.instance_type == users[0].instance_type]
        wanted, room = sum(one.static + one.dynamic for one in users), sum(each.instances for each in held)
        if held and wanted > room:
            yield (
                f"{', '.join(one.key for one in users)} may have {wanted} machines in {name}, which holds {room}; ask for "
                "fewer, "
                "or reserve more."
            )


@rule(20, "reservation-pool", ERROR, f"{_EC2} CapacityReservationResourceGroupValidator")
def reservation_pool(intent: AwsIntent) -> Iterator[str]:
    """A resource group that is no pool of reservations, or one without any that fit."""
    for one in intent.compute:
        if one.capacity != "odcr-group" or not one.reservation:
            continue
        held = known(intent.facts.groups, one.reservation, "reservation group")
        if held is None:
            yield (
                f"{one.key} names {one.reservation}, which is no group of type AWS::EC2::CapacityReservationPool; EC2 launches "
                "into no other."
            )
        elif not any(each.instance_type == one.instance_type and each.zone in one.zones for each in held):
            yield (
                f"{one.key} names {one.reservation}, which holds no reservation of {one.instance_type} in "
                f"{', '.join(one.zones)}."
            )


@rule(21, "block-counts", ERROR, f"{_CLUSTER} capacity blocks are launched whole")
def block_counts(intent: AwsIntent) -> Iterator[str]:
    """Counts that cannot be, and a Capacity Block that is used in part."""
    for one in intent.compute:
        if one.static < 0 or one.dynamic < 0 or one.static + one.dynamic == 0:
            yield (
                f"{one.key} has {one.static} static and {one.dynamic} dynamic machines; neither is negative, and one is "
                "positive."
            )
        elif one.capacity == BLOCK and (one.dynamic or not one.static):
            yield (
                f"{one.key} has {one.static} static and {one.dynamic} dynamic machines of a Capacity Block; all are static, "
                "for "
                "the block is paid whether it is used or not."
            )


@rule(22, "usage-class", ERROR, f"{_EC2} usage classes of instance types")
def usage_class(intent: AwsIntent) -> Iterator[str]:
    """A way to buy that the type does not have, by the catalogue and then by the account."""
    for one in intent.compute:
        if one.instance is not None and one.usage not in one.instance.usage:
            ways = ", ".join(sorted(one.instance.usage))
            yield f"{one.key} buys {one.instance_type} as {one.usage}; it is sold as {ways}."
    for one in intent.compute:
        said = known(intent.facts.machines, one.instance_type, "instance type").usage
        if one.instance is not None and one.usage in one.instance.usage and one.usage not in said:
            yield f"{one.key} buys {one.instance_type} as {one.usage}, and this account sees it as {', '.join(sorted(said))}."


@rule(23, "allocation", ERROR, f"{_CLUSTER} AllocationStrategyValidator")
def allocation(intent: AwsIntent) -> Iterator[str]:
    """An allocation strategy that the way to buy does not know."""
    for one in intent.compute:
        may = _ALLOCATIONS[one.usage]
        if one.allocation and one.allocation not in may:
            yield (
                f"{one.key} has allocation {one.allocation} for {one.usage} machines, which take "
                f"{', '.join(may) or 'none: a block stands where it stands'}."
            )


@rule(24, "type-unknown", ERROR, f"{_EC2} InstanceTypeValidator")
def type_unknown(intent: AwsIntent) -> Iterator[str]:
    """A type that the catalogue does not know: nothing could be said of its interfaces."""
    for one in intent.compute:
        if one.instance is None:
            near = ", ".join(nearest(one.instance_type, among=INSTANCES))
            yield f"{one.key} is {one.instance_type}, which is not in the catalogue; the nearest are {near}."


@rule(24, "type-offered", ERROR, f"{_EC2} InstanceTypeOSCompatibleValidator, zone offerings")
def type_offered(intent: AwsIntent) -> Iterator[str]:
    """A type that a zone does not offer."""
    wanted = {(one.instance_type, zone): one.key for one in intent.compute for zone in one.zones}
    wanted[intent.head_type, intent.zone] = "the head node"
    for (kind, zone), who in wanted.items():
        offered = known(intent.facts.zones, kind, "zones that offer")
        if zone not in offered:
            where = f"it is in {', '.join(offered)}" if offered else f"{intent.region} does not offer it at all"
            yield f"{who} is {kind} in {zone}, which does not offer it; {where}."


@rule(24, "catalogue-current", ERROR, "EC2 API, DescribeInstanceTypes: NetworkInfo")
def catalogue_current(intent: AwsIntent) -> Iterator[str]:
    """A row of the catalogue that the vendor contradicts: a layout made of it would not launch."""
    for one in intent.compute:
        said = known(intent.facts.machines, one.instance_type, "instance type")
        row = one.instance
        if row is not None and one.makes_group and row.cluster_placement and "cluster" not in said.strategies:
            yield f"the account says that {one.instance_type} takes no cluster placement group, and {one.key} has one."
        if row is not None and (said.efa, said.cards) != (row.efa, row.cards):
            yield (
                f"the account says that {one.instance_type} has {said.efa} EFA devices on {len(said.cards)} cards, and the "
                f"catalogue says {row.efa} on {len(row.cards)}; the catalogue is out of date, so its layout would be wrong."
            )


@rule(25, "quota", ERROR, f"{_EC2} dry run: VcpuLimitExceeded")
def quota(intent: AwsIntent) -> Iterator[str]:
    """More vCPUs than the account may run; reservations were counted when they were made."""
    for one in intent.compute:
        if one.capacity not in {ON_DEMAND, SPOT} or one.instance is None:
            continue
        room = known(intent.facts.quota_vcpus, one.instance_type, f"{one.usage} quota of")
        wanted = one.static * one.instance.vcpus
        if room is not None and wanted > room:
            yield (
                f"{one.key} takes {one.static} x {one.instance.vcpus} = {wanted} vCPUs, and the account's {one.usage} quota is "
                f"{room:.0f}; ask for an increase or for fewer machines."
            )


@rule(25, "addresses", ERROR, f"{_EC2} dry run: InsufficientFreeAddressesInSubnet")
def address_room(intent: AwsIntent) -> Iterator[str]:
    """More addresses than the nodes' subnet has."""
    room = 2 ** (32 - intent.private_prefix) - _RESERVED_ADDRESSES - _OTHER_ADDRESSES
    wanted = sum(_addresses(one) for one in intent.compute)
    if wanted > room:
        yield (
            f"the machines take {wanted} addresses, and a /{intent.private_prefix} has {room} for them; take a larger subnet, "
            "or "
            "no legacy EFA, whose interfaces take an address each."
        )


def _addresses(one: Compute) -> int:
    if one.instance is None:
        return 0
    return (one.static + one.dynamic) * addresses(layout(one.instance, efa=one.has_efa, legacy=one.legacy_efa))
