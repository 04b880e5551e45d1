"""Builds the network plan of a VCN from the records of the VCN's resources, and finds free addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import ip_address, ip_network
from itertools import islice
from typing import Any, Literal

from rehearsal.net.network import Route, Rule, SubnetPlan, VcnPlan
from rehearsal.oci.places import SERVICES_NETWORK
from rehearsal.plugin.store import Database, Record

Direction = Literal["ingress", "egress"]
_GATEWAYS: Mapping[str, Literal["internet", "nat", "service"]] = {
    "oci:Core/internetGateway:InternetGateway": "internet",
    "oci:Core/natGateway:NatGateway": "nat",
    "oci:Core/serviceGateway:ServiceGateway": "service",
}
_INSTANCE = "oci:Core/instance:Instance"
_SUBNET = "oci:Core/subnet:Subnet"
_FIRST_HOST = 2  # .0 is the network's address and .1 the router's (docs.oracle.com: "Three IP Addresses in Each Subnet")


def vcn_cidrs(record: Record) -> tuple[str, ...]:
    """Return a VCN's address ranges."""
    blocks = record.inputs.get("cidrBlocks") or [record.inputs["cidrBlock"]]
    return tuple(str(block) for block in blocks)


def subnet_cidr(record: Record) -> str:
    """Return a subnet's address range."""
    return str(record.inputs.get("cidrBlock") or record.inputs["ipv4cidrBlocks"][0])


def plan_of(database: Database, vcn: Record) -> VcnPlan:
    """Return the plan of a whole VCN."""
    subnets = database.of(_SUBNET, vcnId=vcn.id)
    addresses = {
        one.computed["privateIp"]: one.computed["publicIp"]
        for one in database.records.values()
        if one.token == _INSTANCE
        and one.private.get("vcn") == vcn.id
        and one.computed.get("publicIp")
        and one.state != "TERMINATING"
    }
    return VcnPlan(vcn.short, vcn_cidrs(vcn), tuple(_subnet(database, vcn, one) for one in subnets), addresses)


def _subnet(database: Database, vcn: Record, subnet: Record) -> SubnetPlan:
    lists = subnet.inputs.get("securityListIds") or [vcn.computed["defaultSecurityListId"]]
    rules = [rule for ocid in lists if (found := database.find(ocid)) for rule in _rules(found.inputs)]
    table = database.find(subnet.inputs.get("routeTableId") or vcn.computed["defaultRouteTableId"])
    routes = [] if table is None else list(_routes(database, table.inputs.get("routeRules") or []))
    return SubnetPlan(subnet.short, subnet_cidr(subnet), tuple(rules), tuple(routes))


def _routes(database: Database, rules: Iterable[Mapping[str, Any]]) -> Iterator[Route]:
    for rule in rules:
        gateway = database.find(rule["networkEntityId"])
        if gateway is None or gateway.inputs.get("enabled") is False or gateway.inputs.get("blockTraffic"):
            continue
        target = _GATEWAYS[gateway.token]
        destination = rule.get("destination") or rule.get("cidrBlock")
        yield Route(SERVICES_NETWORK if target == "service" else str(destination), target)


def _rules(inputs: Mapping[str, Any]) -> Iterator[Rule]:
    for rule in inputs.get("ingressSecurityRules") or []:
        yield from _rule(rule, "ingress", rule["source"], rule.get("sourceType"))
    for rule in inputs.get("egressSecurityRules") or []:
        yield from _rule(rule, "egress", rule["destination"], rule.get("destinationType"))


def _rule(rule: Mapping[str, Any], direction: Direction, peer: str, peer_type: str | None) -> Iterator[Rule]:
    protocol = rule["protocol"]
    # ICMP, TCP and UDP are all that the rehearsed hosts send, so a rule for another protocol changes nothing.
    if protocol not in {"all", "1", "6", "17"}:
        return
    options = rule.get("tcpOptions") or rule.get("udpOptions") or {}
    icmp = rule.get("icmpOptions")
    yield Rule(
        direction=direction,
        protocol=protocol,
        peer=SERVICES_NETWORK if peer_type == "SERVICE_CIDR_BLOCK" else peer,
        ports=_span(options),
        source_ports=_span(options.get("sourcePortRange") or {}),
        icmp=(icmp["type"], None if icmp.get("code", -1) == -1 else icmp["code"]) if icmp else None,
        stateless=bool(rule.get("stateless")),
    )


def _span(ports: Mapping[str, Any]) -> tuple[int, int] | None:
    return (ports["min"], ports["max"]) if "min" in ports and "max" in ports else None


def taken(database: Database) -> set[str]:
    """Return all private addresses of instances and of file systems' servers."""
    instances = {str(one.computed.get("privateIp")) for one in database.records.values() if one.token == _INSTANCE}
    return instances | served(database)


def served(database: Database) -> set[str]:
    """Return the private addresses of the servers of all file systems."""
    return {address for one in database.records.values() for address in one.private.get("addresses", ())}


def free_private_ips(database: Database, subnet: Record, count: int) -> list[str] | None:
    """Return the `count` lowest free addresses of a subnet, or None if fewer are free."""
    used, network = taken(database), ip_network(subnet_cidr(subnet))
    hosts = (str(network[number]) for number in range(_FIRST_HOST, network.num_addresses - 1))
    found = list(islice((address for address in hosts if address not in used), count))
    return found if len(found) == count else None


def free_private_ip(database: Database, subnet: Record) -> str | None:
    """Return the lowest free address of a subnet, or None if the subnet is full."""
    return next(iter(free_private_ips(database, subnet, 1) or ()), None)


def hostnames(database: Database, subnet: Record) -> set[str]:
    """Return the host names of instances and mount targets in a subnet."""
    there = [one for one in database.records.values() if one.private.get("subnet") == subnet.id]
    return {one.private["hostname"] for one in there if one.private.get("hostname")}


def within(address: str, cidr: str) -> bool:
    """Return whether an address can be assigned to a host in a subnet."""
    network = ip_network(cidr)
    return network[_FIRST_HOST] <= ip_address(address) < network[-1]  # type: ignore[operator]
