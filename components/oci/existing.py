"""Looks up the subnets that a stack file names."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_oci import core

from components.report_findings import look_up, reason
from config.oci.facts import SecurityRule, Subnet
from config.oci.model import Network, Oci

_RIGHT = "read virtual-network-family in the subnet's compartment"
_ANYWHERE = "0.0.0.0/0"
#: The vendor reserves the first two addresses and the last address of a subnet.
_RESERVED_ADDRESSES = 3


@dataclass(frozen=True)
class Found:
    """The nodes' network.

    Attributes:
        wanted: the settings, with the network's address ranges.
        domain: DNS domain of the nodes' subnet.
        vcn: OCID of the existing VCN; empty if the stack creates the VCN.
    """

    wanted: Oci
    domain: str
    vcn: str = ""


def looked_up(wanted: Oci) -> Found:
    """Return the nodes' network; if the stack creates the network, return the stack file's values.

    Raises:
        pulumi.RunError: a subnet does not exist, or its look-up failed.
    """
    own = wanted.network.existing
    if own is None:
        return Found(wanted, wanted.search_domain)
    public, private = _subnet("publicSubnet", own.public_subnet), _subnet("privateSubnet", own.private_subnet)
    # New file systems accept clients whose address is in the setting `vcn`. Here, only clients in the nodes' subnet may mount.
    cidrs = {"public": public.cidr_block, "private": private.cidr_block, "vcn": private.cidr_block}
    # The rules read which keys the stack file sets, so the copy must not lose this information.
    network = Network.model_construct(wanted.network.model_fields_set, **{**dict(wanted.network), **cidrs})
    return Found(wanted.model_copy(update={"network": network}), private.subnet_domain_name or "", private.vcn_id)


def _subnet(key: str, name: str) -> core.GetSubnetResult:
    try:
        return core.get_subnet(subnet_id=name)
    except Exception as error:  # noqa: BLE001 - the SDK raises no narrower class
        raise pulumi.RunError(
            f"oci.network.existing.{key} is {name}, which could not be looked up: {reason(error)}. Is the subnet in this "
            f"region? The look-up needs this permission: {_RIGHT}."
        ) from None


def subnets(wanted: Oci) -> dict[str, Subnet]:
    """Return OCID -> the account's data on the subnet, for each subnet that the stack file names."""
    own = wanted.network.existing
    pairs = {"publicSubnet": own.public_subnet, "privateSubnet": own.private_subnet} if own else {}
    return {name: _facts(name, _subnet(key, name)) for key, name in pairs.items()}


def _facts(name: str, found: core.GetSubnetResult) -> Subnet:
    taken = look_up("oci", f"the addresses in {name}", _RIGHT, lambda: core.get_private_ips(subnet_id=name).private_ips)
    lists = _security_lists(name, found)
    return Subnet(
        vcn=found.vcn_id,
        domain=found.availability_domain or "",
        cidr=found.cidr_block,
        free=ipaddress.IPv4Network(found.cidr_block).num_addresses - _RESERVED_ADDRESSES - len(taken),
        dns=found.subnet_domain_name or "",
        takes_public=not found.prohibit_public_ip_on_vnic,
        way_out=_way_out(name, found),
        rules=tuple(_rules(lists.values())),
        unread=tuple(sorted(set(found.security_list_ids) - set(lists))),
    )


def _way_out(name: str, found: core.GetSubnetResult) -> str | None:
    # The provider has no look-up of a single route table.
    tables = look_up(
        "oci",
        f"the route table of {name}",
        _RIGHT,
        lambda: core.get_route_tables(compartment_id=found.compartment_id, vcn_id=found.vcn_id).route_tables,
    )
    for table in tables:
        if table.id == found.route_table_id:
            ways = [rule.network_entity_id for rule in table.route_rules if rule.destination == _ANYWHERE]
            return next(iter(ways), "")
    return None


def _security_lists(name: str, found: core.GetSubnetResult) -> dict[str, Any]:
    """Return OCID -> security list of the subnet; the provider cannot list security lists in other compartments."""
    lists = look_up(
        "oci",
        f"the security lists of {name}",
        _RIGHT,
        lambda: core.get_security_lists(compartment_id=found.compartment_id, vcn_id=found.vcn_id).security_lists,
    )
    return {one.id: one for one in lists if one.id in found.security_list_ids}


def _rules(lists: Iterable[Any]) -> Iterator[SecurityRule]:
    for one in lists:
        yield from (_rule(rule, rule.source, rule.source_type, out=False) for rule in one.ingress_security_rules)
        yield from (_rule(rule, rule.destination, rule.destination_type, out=True) for rule in one.egress_security_rules)


def _rule(rule: Any, peer: str, kind: str, *, out: bool) -> SecurityRule:
    options = (*(rule.tcp_options or ()), *(rule.udp_options or ()))
    ports = next(((int(one.min), int(one.max)) for one in options if one.max), None)
    return SecurityRule(out, rule.protocol, ports, peer if kind in {"", "CIDR_BLOCK"} else "")
