"""Rules about capacity: reservations, Capacity Blocks, spot, quotas, addresses."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator

from catalogue.aws.instances import BLOCK, INSTANCES, ON_DEMAND, SPOT
from catalogue.aws.nics import addresses, layout
from catalogue.shape import nearest
from config.aws.facts import Facts, Reservation
from config.aws.model import Aws, Machines
from config.rule import ERROR, WARNING, Breach, known, rule

_EC2 = "aws-parallelcluster:cli/src/pcluster/validators/ec2_validators.py"
_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_GROUPS = f"{_EC2} PlacementGroupCapacityReservationValidator"
#: Purchase options that name one reservation by its id.
_BY_ID = ("targeted-odcr", BLOCK)
#: Purchase options that name one on-demand reservation or a group of on-demand reservations.
_NAMED = ("targeted-odcr", "odcr-group")
#: The vendor reserves the first four addresses and the last one of a subnet.
_RESERVED_ADDRESSES = 5
#: Addresses in the nodes' subnet that are kept free of nodes for the network interfaces of FSx's file systems.
_OTHER_ADDRESSES = 32
_Breaches = Iterator[Breach]


def _reservations(facts: Facts, one: Machines) -> tuple[Reservation, ...]:
    """Return the reservations that the entry `one` names.

    The result is empty if the entry names no reservation, a reservation that does not exist, or a group that is not a pool of
    reservations.
    """
    name = one.purchase.reservation
    if not name:
        return ()
    if one.purchase.option == "odcr-group":
        return known(facts.groups, name, "reservation group") or ()
    held = known(facts.reservations, name, "reservation")
    return () if held is None else (held,)


@rule("reservation-unknown", ERROR, "EC2 API, DescribeCapacityReservations", guard=True)
def reservation_unknown(wanted: Aws, facts: Facts) -> _Breaches:
    """A reservation that does not exist."""
    for path, _, one in wanted.located:
        name = one.purchase.reservation
        if name and one.purchase.option in _BY_ID and known(facts.reservations, name, "reservation") is None:
            yield Breach(
                f"{path}.purchase.reservation", f"is {name}, which is not in {wanted.region}, or this account may not see it"
            )


@rule("group-without-reservation", ERROR, _GROUPS, number=12)
def group_without_reservation(wanted: Aws, facts: Facts) -> _Breaches:
    """A placement group that contains none of the named reservations."""
    for path, _, one in wanted.located:
        if one.placement == "existing" and one.purchase.option in _NAMED:
            found = [held.placement_group for held in _reservations(facts, one)]
            if found and one.placement_group not in found:
                groups = ", ".join(sorted(set(found) - {""})) or "no group"
                yield Breach(
                    f"{path}.placementGroup",
                    f"is {one.placement_group}, and {one.purchase.reservation} was created in {groups}; machines of a "
                    "reservation start only in the group that the reservation was created in",
                )


@rule("group-beside-reservation", WARNING, _GROUPS, number=12)
def group_beside_reservation(wanted: Aws, facts: Facts) -> _Breaches:
    """A placement group beside a reservation that was created in no placement group, or beside open reservations."""
    for path, _, one in wanted.located:
        beside = one.purchase.option in _NAMED and one.placement == "managed"
        if beside and any(not held.placement_group for held in _reservations(facts, one)):
            yield Breach(
                f"{path}.placement",
                f"is managed, and {one.purchase.reservation} was created in no placement group; set placement to none, because "
                "a new group may have no room although the reservation has some",
            )
        if one.purchase.option == "open-odcr" and one.placement in {"managed", "existing"}:
            yield Breach(
                f"{path}.placement",
                f"is {one.placement}, and purchase.option is open-odcr; open reservations that were not created in this "
                "placement group are not used",
            )


@rule("reservation-in-group", ERROR, _GROUPS, number=13)
def reservation_in_group(wanted: Aws, facts: Facts) -> _Breaches:
    """A reservation in a placement group that the machines are not launched into."""
    for path, _, one in wanted.located:
        if one.placement != "existing":
            groups = sorted({held.placement_group for held in _reservations(facts, one)} - {""})
            if groups:
                yield Breach(
                    f"{path}.placement",
                    f"is {one.placement}, and {one.purchase.reservation} was created in placement group {', '.join(groups)}; "
                    "set placement to existing, and name that group; otherwise the reservation cannot be used",
                )


@rule("reservation-type", ERROR, f"{_EC2} CapacityReservationValidator", number=15)
def reservation_type(wanted: Aws, facts: Facts) -> _Breaches:
    """A reservation of another instance type."""
    for path, _, one in wanted.located:
        for held in _reservations(facts, one) if one.purchase.option in _BY_ID else ():
            if held.instance_type != one.type:
                yield Breach(
                    f"{path}.type", f"is {one.type}, and {held.id} reserves {held.instance_type}; they must be the same type"
                )


@rule("reservation-zone", ERROR, f"{_EC2} CapacityReservationValidator", number=16)
def reservation_zone(wanted: Aws, facts: Facts) -> _Breaches:
    """A reservation in another zone."""
    for path, _, one in wanted.located:
        for held in _reservations(facts, one) if one.purchase.option in _BY_ID else ():
            if held.zone != wanted.zone:
                yield Breach(
                    f"{path}.purchase.reservation",
                    f"is {held.id}, which is in {held.zone}, and aws.zone is {wanted.zone}; they must be in one zone",
                )


@rule("reservation-missing", ERROR, f"{_CLUSTER} CapacityTypeValidator", guard=True, number=17)
def reservation_missing(wanted: Aws, _facts: Facts) -> _Breaches:
    """An option without the block, reservation or group that it needs, or with a reservation or offering that it ignores."""
    for path, _, one in wanted.located:
        bought = one.purchase
        if bought.option == BLOCK and not bought.reservation and not bought.offering:
            yield Breach(
                f"{path}.purchase.reservation",
                "is not set with option capacity-block; name a reservation (cr-...), or an offering (cb-...) to buy: a block "
                "is bought only if the stack file names its offering",
            )
        elif bought.option in _NAMED and not bought.reservation:
            needed = "the ARN of a resource group" if bought.option == "odcr-group" else "an id (cr-...)"
            yield Breach(f"{path}.purchase.reservation", f"is not set with option {bought.option}; give {needed}")
        elif bought.option in {ON_DEMAND, SPOT, "open-odcr"} and (bought.reservation or bought.offering):
            key = "reservation" if bought.reservation else "offering"
            yield Breach(
                f"{path}.purchase.{key}",
                f"is {bought.reservation or bought.offering}, which option {bought.option} does not use; set option to "
                "targeted-odcr, odcr-group or capacity-block",
            )


@rule("reservation-kind", ERROR, f"{_EC2} CapacityReservationValidator", number=17)
def reservation_kind(wanted: Aws, facts: Facts) -> _Breaches:
    """A reservation of another kind than the option buys, or in a state other than active (or scheduled, for a block)."""
    for path, _, one in wanted.located:
        for held in _reservations(facts, one):
            if held.block != (one.purchase.option == BLOCK):
                kind = "a Capacity Block" if held.block else "an on-demand reservation"
                yield Breach(
                    f"{path}.purchase.option",
                    f"is {one.purchase.option}, but {held.id} is {kind}; the option must match the reservation",
                )
            if held.state != "active" and not (held.block and held.state == "scheduled"):
                yield Breach(
                    f"{path}.purchase.reservation",
                    f"is {held.id}, which is {held.state}; machines start only in an active reservation",
                )


@rule("block-scheduled", WARNING, "EC2 user guide, Capacity Blocks: instances are launched from the start time on")
def block_scheduled(wanted: Aws, facts: Facts) -> _Breaches:
    """A Capacity Block that has not started, with machines to launch into it."""
    for path, _, one in wanted.located:
        for held in _reservations(facts, one) if one.numbers or one.dynamic else ():
            if held.block and held.state == "scheduled":
                then = "until then its nodes are down, as `sinfo -R` shows; Slurm's controller starts them at that time"
                if one.numbers:
                    then = (
                        "the update waits for that time if it is at most half an hour away, and otherwise fails at once. With "
                        "static: 0, the update prepares everything else now"
                    )
                yield Breach(f"{path}.purchase.reservation", f"is {held.id}, which begins at {held.start}; {then}")


@rule(
    "purchase-unconfirmed",
    ERROR,
    "EC2 API, PurchaseCapacityBlock: a purchase cannot be cancelled and is charged at once",
    guard=True,
    number=17,
)
def purchase_unconfirmed(wanted: Aws, _facts: Facts) -> _Breaches:
    """A purchase that was not confirmed, that another entry makes, too, or that is set beside a reservation."""
    buyers: dict[str, str] = {}
    for path, _, one in wanted.located:
        bought = one.purchase
        earlier = buyers.setdefault(bought.offering or path, path)
        if earlier != path:
            yield Breach(
                f"{path}.purchase.offering",
                f"is {bought.offering}, which {earlier} buys, too; an offering can be bought once, so name it in one entry",
            )
        if bought.offering and bought.confirm != bought.offering:
            yield Breach(
                f"{path}.purchase.confirm",
                f"is {bought.confirm!r}, but Capacity Block {bought.offering} would be bought; confirm must repeat that id, "
                "because the purchase is charged at once and cannot be undone",
            )
        if bought.offering and bought.reservation:
            yield Breach(
                f"{path}.purchase.offering",
                f"is {bought.offering}, which would be bought, and reservation is {bought.reservation}; name only one of them",
            )


@rule("reservation-size", ERROR, f"{_EC2} CapacityReservationSizeValidator", number=18)
def reservation_size(wanted: Aws, facts: Facts) -> _Breaches:
    """Entries of one type that together may have more machines than their reservation or group contains of that type."""
    asked = ((one.purchase.reservation, one.type) for _, _, one in wanted.located if one.purchase.reservation)
    for name, kind in dict.fromkeys(asked):
        users = [its for its in wanted.located if (its[2].purchase.reservation, its[2].type) == (name, kind)]
        found = [each for each in _reservations(facts, users[0][2]) if each.instance_type == kind]
        held = [each for each in found if wanted.zone in {None, each.zone}]  # machines start only in the stack's zone
        machines = sum(len(one.numbers) + one.dynamic for _, _, one in users)
        room = sum(each.instances for each in held)
        if held and machines > room:
            yield Breach(
                f"{users[0][0]}.purchase.reservation",
                f"is {name}, which contains {room} machines, but {', '.join(key for _, key, _ in users)} may have "
                f"{machines}; request fewer machines, or reserve more",
            )


@rule("reservation-pool", ERROR, f"{_EC2} CapacityReservationResourceGroupValidator", number=20)
def reservation_pool(wanted: Aws, facts: Facts) -> _Breaches:
    """A resource group that is not a pool of reservations, or a pool without a reservation of the type in the zone."""
    for path, _, one in wanted.located:
        name = one.purchase.reservation
        if one.purchase.option != "odcr-group" or not name:
            continue
        held = known(facts.groups, name, "reservation group")
        if held is None:
            yield Breach(
                f"{path}.purchase.reservation",
                f"is {name}, which is no group of type AWS::EC2::CapacityReservationPool; EC2 launches into such groups only",
            )
        elif not any(each.instance_type == one.type and each.zone == wanted.zone for each in held):
            yield Breach(
                f"{path}.purchase.reservation",
                f"is {name}, which contains no reservation of {one.type} in {wanted.zone}",
            )


@rule("price-unused", ERROR, "EC2 API, SpotMarketOptions: MaxPrice")
def price_unused(wanted: Aws, _facts: Facts) -> _Breaches:
    """A maximum price for machines that are not spot machines."""
    for path, _, one in wanted.located:
        if one.purchase.max_price_usd and one.purchase.option != SPOT:
            yield Breach(
                f"{path}.purchase.maxPrice",
                f"is {one.purchase.max_price_usd:g} USD with option {one.purchase.option}; only spot machines have a maximum "
                "price",
            )


@rule("dynamic-unstarted", WARNING, "components/aws: for dynamic machines, only a launch template is created")
def dynamic_unstarted(wanted: Aws, _facts: Facts) -> _Breaches:
    """Dynamic machines without aws.slurm: only a scheduler of the user's own would start them."""
    for path, _, one in wanted.located:
        if one.dynamic and wanted.slurm is None:
            yield Breach(
                f"{path}.dynamic",
                f"is {one.dynamic}, and aws.slurm is not set: only a scheduler of your own can start these machines, from "
                "the entry's launch template. They count in the check of addresses, but not in the check of the quota, and are "
                "never measured",
            )


@rule("block-dynamic", ERROR, f"{_CLUSTER} capacity blocks are launched whole", number=21)
def block_dynamic(wanted: Aws, _facts: Facts) -> _Breaches:
    """Dynamic machines in a Capacity Block, unless Slurm's controller keeps all of them running."""
    for path, _, one in wanted.located:
        if one.in_block and one.dynamic and (wanted.slurm is None or one.always_on != one.dynamic):
            yield Breach(
                f"{path}.dynamic",
                f"is {one.dynamic} with a Capacity Block, which is paid for whether it is used or not; set static: "
                f"{one.dynamic} instead, or set aws.slurm and alwaysOn: {one.dynamic}, so that all of them run while the "
                "block lasts",
            )


@rule("usage-class", ERROR, f"{_EC2} usage classes of instance types", number=22)
def usage_class(wanted: Aws, facts: Facts) -> _Breaches:
    """A purchase option that the type does not have, according to the catalogue or the account."""
    for path, _, one in wanted.located:
        if one.instance is not None and one.purchase.usage not in one.instance.usage:
            ways = ", ".join(sorted(one.instance.usage))
            yield Breach(f"{path}.purchase.option", f"buys {one.type} as {one.purchase.usage}; it is sold as {ways}")
    for path, _, one in wanted.located:
        said = known(facts.machines, one.type, "instance type").usage
        if one.instance is not None and one.purchase.usage in one.instance.usage and one.purchase.usage not in said:
            yield Breach(
                f"{path}.purchase.option",
                f"buys {one.type} as {one.purchase.usage}, but this account can buy it only as {', '.join(sorted(said))}",
            )


@rule("type-unknown", ERROR, f"{_EC2} InstanceTypeValidator", guard=True, number=24)
def type_unknown(wanted: Aws, _facts: Facts) -> _Breaches:
    """A type that the catalogue does not know: its interfaces would be unknown."""
    for path, _, one in wanted.located:
        if one.instance is None:
            near = ", ".join(nearest(one.type, INSTANCES))
            yield Breach(f"{path}.type", f"is {one.type}, which is not in the catalogue; the nearest are {near}")


@rule("type-offered", ERROR, f"{_EC2} InstanceTypeOSCompatibleValidator, zone offerings", number=24)
def type_offered(wanted: Aws, facts: Facts) -> _Breaches:
    """A type that the zone does not offer."""
    types = [("aws.login.type", wanted.login.type), *((f"{path}.type", one.type) for path, _, one in wanted.located)]
    for path, kind in types:
        offered = known(facts.zones, kind, "zones that offer")
        if wanted.zone not in offered:
            where = f"{', '.join(offered)} offer it" if offered else f"no zone of {wanted.region} offers it"
            yield Breach(path, f"is {kind}, and {wanted.zone} does not offer this type; {where}")


@rule("catalogue-current", ERROR, "EC2 API, DescribeInstanceTypes: NetworkInfo", number=24)
def catalogue_current(wanted: Aws, facts: Facts) -> _Breaches:
    """A row of the catalogue that contradicts the vendor: machines with the row's layout would not launch."""
    for path, _, one in wanted.located:
        said = known(facts.machines, one.type, "instance type")
        row = one.instance
        if row is not None and one.makes_group and row.cluster_placement and "cluster" not in said.strategies:
            yield Breach(
                f"{path}.placement", f"is managed, but according to the account {one.type} takes no cluster placement group"
            )
        if row is not None and (said.efa, said.cards) != (row.efa, row.cards):
            yield Breach(
                f"{path}.type",
                f"is {one.type}, which has {said.efa} EFA devices on {len(said.cards)} cards according to the "
                f"account, and {row.efa} on {len(row.cards)} according to the catalogue; the catalogue is out of date, so its "
                "layout of interfaces would be wrong",
            )


@rule("quota", ERROR, f"{_EC2} dry run: VcpuLimitExceeded", number=25)
def quota(wanted: Aws, facts: Facts) -> _Breaches:
    """Static machines that need more vCPUs than are left of the account's quota.

    Dynamic machines are not counted. Reserved machines are not counted either: EC2 counted them when they were reserved.
    """
    earlier: Counter[str] = Counter()
    for path, key, one in wanted.located:
        its = one.quota
        if one.purchase.option not in {ON_DEMAND, SPOT} or one.instance is None or its is None:
            continue
        room = known(facts.quota_vcpus, its, "quota")
        in_use, more = facts.quota_used.get(its, 0), max(0, len(one.numbers) - facts.running.get(key, 0))
        vcpus, others = more * one.instance.vcpus, earlier[its]
        earlier[its] += vcpus
        if room is not None and more and vcpus > room - in_use - others:
            less = f", of which at least {in_use} are in use" if in_use else ""
            besides = f" besides the {others} for earlier entries" if others else ""
            who = "which takes" if more == len(one.numbers) else f"of which {more} do not run yet and take"
            yield Breach(
                f"{path}.static",
                f"is {_static(one)}, {who} {more} x {one.instance.vcpus} = {vcpus} vCPUs{besides}, and the account's "
                f"{one.purchase.usage} quota is {room:.0f}{less}; request an increase of the quota, or fewer machines",
            )


@rule("quota-unknown", WARNING, "AWS Service Quotas API, GetServiceQuota: NoSuchResourceException", number=25)
def quota_unknown(wanted: Aws, facts: Facts) -> _Breaches:
    """A quota that the service does not report."""
    for path, _, one in wanted.located:
        if one.numbers and one.purchase.option in {ON_DEMAND, SPOT} and facts.quota_vcpus.get(one.quota or "", 0.0) is None:
            yield Breach(
                f"{path}.static",
                f"is {_static(one)}, and the service does not report how many {one.type} the account may run; only the launch "
                "will show whether these machines may run",
            )


@rule("elastic-ips", ERROR, "VPC user guide, Amazon VPC quotas: Elastic IP addresses per Region")
def elastic_ips(wanted: Aws, facts: Facts) -> _Breaches:
    """An Elastic IP address for the login node that would exceed the account's quota of such addresses.

    The NAT gateway of a new VPC uses such an address, too. Without `elasticIp` nothing is judged.
    """
    if not wanted.login.elastic_ip:
        return
    found = known(facts.elastic_ips, wanted.region, "Elastic IP addresses in")
    needed = 1 + (wanted.network.existing is None)
    if found is not None and found.held - found.ours + needed > found.quota:
        with_nat = ", one of them for the NAT gateway" if needed > 1 else ""
        yield Breach(
            "aws.login.elasticIp",
            f"is true, so the cluster needs {needed} of the account's Elastic IP addresses{with_nat}; the account has "
            f"{found.held - found.ours} others in {wanted.region}, where its quota is {found.quota}; release an address, "
            "request an increase, or remove the key",
        )


@rule("addresses", ERROR, f"{_EC2} dry run: InsufficientFreeAddressesInSubnet", number=25)
def address_room(wanted: Aws, facts: Facts) -> _Breaches:
    """Machines that need more addresses than the nodes' subnet has."""
    if wanted.network.existing:
        yield from _room_that_is_left(wanted, facts, wanted.network.existing.private_subnet)
        return
    subnet = ipaddress.IPv4Network(wanted.network.private).prefixlen + 1
    room = 2 ** (32 - subnet) - _RESERVED_ADDRESSES - _OTHER_ADDRESSES
    needed = sum((len(one.numbers) + one.dynamic) * _addresses(one) for _, _, one in wanted.located)
    if needed > room:
        yield Breach(
            "aws.network.private",
            f"is {wanted.network.private}, whose first half, a /{subnet}, has {room} addresses for machines that need "
            f"{needed}; use a larger network, or no legacy EFA, whose interfaces need an address each",
        )


def _room_that_is_left(wanted: Aws, facts: Facts, name: str) -> _Breaches:
    """Judge the free addresses of an existing subnet; machines that already run need no further addresses."""
    subnet = known(facts.subnets, name, "subnet")
    more = {key: len(one.numbers) + one.dynamic - known(facts.running, key, "machines of") for _, key, one in wanted.located}
    needed = sum(max(0, more[key]) * _addresses(one) for _, key, one in wanted.located)
    if subnet is not None and needed > subnet.free:
        yield Breach(
            "aws.network.existing.privateSubnet",
            f"is {name}, which has {subnet.free} free addresses, and the machines to be launched need {needed}; name a "
            "larger subnet, or request fewer machines",
        )


def _static(one: Machines) -> str:
    """Return the entry's number of static machines for a message, such as `8 (2 left out)`."""
    left_out = one.static - len(one.numbers)
    return f"{one.static} ({left_out} left out)" if left_out else str(one.static)


def _addresses(one: Machines) -> int:
    """Return how many addresses a machine uses."""
    if one.instance is None:
        return 0
    return addresses(layout(one.instance, efa=one.has_efa, legacy=one.legacy_efa))
