"""Builds the network plan of a VPC from the records of the VPC's resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from rehearsal.aws.addresses import vpc_cidrs
from rehearsal.aws.groups import Allowed, allowed
from rehearsal.aws.kinds import EIP, GATEWAY, GROUP, INSTANCE, LUSTRE, NAT, OPENZFS, SUBNET, TABLE
from rehearsal.aws.subnets import JOINED, ROUTE
from rehearsal.net.network import GroupPlan, Route, Rule, SubnetPlan, VcnPlan
from rehearsal.plugin.store import Database, Record

#: Address of AWS's DNS resolver in every VPC. In the real cloud, the resolver has a second address: the VPC's base address plus
#: two.
RESOLVER = "169.254.169.253"

_ANYWHERE = "0.0.0.0/0"


def inhabited(database: Database, vpc: Record) -> bool:
    """Return whether any resource in a VPC has an address; without one, nobody can observe the VPC's network."""
    return any(_addresses(one) for one in _inhabitants(database, vpc))


def plan_of(database: Database, vpc: Record) -> VcnPlan:
    """Return the network plan of a whole VPC."""
    publics = {
        one.computed["privateIp"]: one.computed["publicIp"]
        for one in database.of(INSTANCE)
        if one.private.get("vpc") == vpc.id and one.computed.get("publicIp")
    }
    return VcnPlan(
        id=vpc.short,
        cidrs=vpc_cidrs(database, vpc),
        subnets=tuple(_subnet(database, one) for one in database.of(SUBNET, vpcId=vpc.id)),
        public_ips=publics,
        groups=tuple(_group(database, vpc, one) for one in database.of(GROUP, vpcId=vpc.id)),
        resolver=RESOLVER,
        nat_ip=next((address for one in database.of(NAT) if (address := _nat_address(database, vpc, one))), ""),
    )


def leads_out(database: Database, subnet: Record) -> bool:
    """Return whether a subnet's routes lead to an internet gateway."""
    return any(database.find(route.get("gatewayId"), GATEWAY) for _, route in _lines(database, subnet))


def _nat_address(database: Database, vpc: Record, nat: Record) -> str:
    address = database.find(nat.inputs.get("allocationId"), EIP)
    return str(address.computed["publicIp"]) if address and nat.private.get("vpc") == vpc.id else ""


def _subnet(database: Database, subnet: Record) -> SubnetPlan:
    return SubnetPlan(subnet.short, str(subnet.inputs["cidrBlock"]), (), tuple(_routes(database, subnet)))


def _lines(database: Database, subnet: Record) -> list[tuple[Any, Mapping[str, Any]]]:
    """Return the destination and the properties of each route of a subnet."""
    vpc, joined = database.records[subnet.inputs["vpcId"]], database.of(JOINED, subnetId=subnet.id)
    table = database.find(joined[0].inputs["routeTableId"] if joined else vpc.computed["mainRouteTableId"], TABLE)
    if table is None:
        return []
    listed = [(one.get("cidrBlock"), one) for one in table.inputs.get("routes") or []]
    return listed + [(one.inputs.get("destinationCidrBlock"), one.inputs) for one in database.of(ROUTE, routeTableId=table.id)]


def _routes(database: Database, subnet: Record) -> Iterator[Route]:
    for destination, route in _lines(database, subnet):
        target = _target(database, route)
        if target is not None and destination is not None:
            yield Route(str(destination), target)


def _target(database: Database, route: Mapping[str, Any]) -> Literal["internet", "nat"] | None:
    """Return the target of a route; None if the gateway was deleted, or is a NAT gateway that failed or has no route out."""
    if database.find(route.get("gatewayId"), GATEWAY):
        return "internet"
    nat = database.find(route.get("natGatewayId"), NAT)
    subnet = database.find(nat.inputs.get("subnetId"), SUBNET) if nat else None
    return "nat" if nat and subnet and not nat.private.get("failed") and leads_out(database, subnet) else None


def _group(database: Database, vpc: Record, group: Record) -> GroupPlan:
    members = {address for one in _inhabitants(database, vpc) for address, groups in _addresses(one) if group.id in groups}
    rules = tuple(rule for one in allowed(database, group) if (rule := _rule(database, one)))
    return GroupPlan(group.short, tuple(sorted(members)), rules)


def _inhabitants(database: Database, vpc: Record) -> Iterator[Record]:
    for token in (INSTANCE, LUSTRE, OPENZFS):
        yield from (one for one in database.of(token) if one.private.get("vpc") == vpc.id)


def _addresses(record: Record) -> list[tuple[str, list[str]]]:
    """Return a record's addresses, and the security groups of each address."""
    if record.token == INSTANCE:
        return [(nic["address"], nic["groups"]) for nic in record.private.get("nics", ()) if nic["address"]]
    return [(address, record.private["groups"]) for address in record.private.get("addresses", ()) if address]


def _rule(database: Database, one: Allowed) -> Rule | None:
    protocol: Any = "all" if one.protocol == "-1" else one.protocol
    # Hosts in the rehearsal send only ICMP, TCP and UDP, so a rule for any other protocol changes nothing.
    if protocol not in {"all", "1", "6", "17"}:
        return None
    peer = database.find(one.group, GROUP) if one.group else None
    if one.group and peer is None:
        return None
    icmp = (
        (one.ports[0], None if one.ports[1] < 0 else one.ports[1])
        if protocol == "1" and one.ports and one.ports[0] >= 0
        else None
    )
    return Rule(
        direction="ingress" if one.direction == "ingress" else "egress",
        protocol=protocol,
        peer=one.cidr or _ANYWHERE,
        ports=one.ports if protocol in {"6", "17"} else None,
        icmp=icmp,
        group=peer.short if peer else "",
    )
