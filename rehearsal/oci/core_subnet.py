"""Subnets, route tables and security lists: the service's refusals, and the outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.oci.core_network import DHCP_OPTIONS, ROUTE_TABLE, SECURITY_LIST, VCN, InVcn, malformed
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.kinds import Asked
from rehearsal.oci.netplan import subnet_cidr, vcn_cidrs
from rehearsal.oci.ocids import sibling_ocid
from rehearsal.oci.places import AVAILABILITY_DOMAINS, SERVICES
from rehearsal.plugin import kinds
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import Unknown, each, known

SUBNET = "oci:Core/subnet:Subnet"
_INSTANCE = "oci:Core/instance:Instance"
_INTERNET = "oci:Core/internetGateway:InternetGateway"
_SERVICE = "oci:Core/serviceGateway:ServiceGateway"
_TARGETS = (_INTERNET, "oci:Core/natGateway:NatGateway", _SERVICE)
_SERVICE_NAMES = {short for _, short in SERVICES.values()}
_MOST_LISTS = 5  # security lists of one subnet (docs.oracle.com/iaas/Content/General/Concepts/servicelimits.htm)
_MOST_RULES = 200  # rules of one direction in a security list, and rules of a route table (the same page)
_NARROWEST = 30
_OPTIONS_OF = {"tcpOptions": "6", "udpOptions": "17", "icmpOptions": "1"}


def private(inputs: Mapping[str, Any]) -> bool:
    """Return whether a subnet forbids public addresses; either of two properties forbids them."""
    return inputs.get("prohibitPublicIpOnVnic") is True or inputs.get("prohibitInternetIngress") is True


class Subnet(InVcn):
    """A subnet."""

    token, noun, service = SUBNET, "subnet", "Core Subnet"
    create, update, delete = "CreateSubnet", "UpdateSubnet", "DeleteSubnet"
    references: ClassVar[Mapping[str, str]] = {"vcnId": VCN, "routeTableId": ROUTE_TABLE, "dhcpOptionsId": DHCP_OPTIONS}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        domain = asked.known("availabilityDomain")
        if domain is not None and domain not in AVAILABILITY_DOMAINS:
            yield not_found("availabilityDomain", domain)
        yield from self._addresses(asked)
        yield from self._parts(asked)
        label, vcn = asked.known("dnsLabel"), asked.database.find(asked.known("vcnId"), VCN)
        if label is not None and vcn is not None:
            if not vcn.inputs.get("dnsLabel"):
                yield Problem("dnsLabel", f"dnsLabel is {label!r}, but it has no effect because the VCN has no dnsLabel.")
            if any(one.inputs.get("dnsLabel") == label for one in asked.neighbours(SUBNET, vcnId=vcn.id)):
                yield Problem("dnsLabel", f"dnsLabel {label!r} is taken by another subnet of the VCN.", 409, "Conflict")

    def _addresses(self, asked: Asked) -> Iterator[Problem]:
        given = [*each(asked.inputs, "cidrBlock"), *each(asked.inputs, "ipv4cidrBlocks[]")]
        if asked.inputs.get("cidrBlock") is None and asked.inputs.get("ipv4cidrBlocks") is None:
            yield Problem("cidrBlock", "cidrBlock is missing, but a subnet needs addresses.", code="MissingParameter")
        if len(given) > 1:
            yield Problem("ipv4cidrBlocks", "The rehearsal supports one address range per subnet.", 501, "NotRehearsed")
        vcn = asked.database.find(asked.known("vcnId"), VCN)
        for path, text in given:
            block = cidr(text)
            if block is None:
                yield malformed(path, text)
                continue
            if block.prefixlen > _NARROWEST:
                yield Problem(
                    path, f"{path} is {text}, but a subnet must be /{_NARROWEST} or wider: three addresses are reserved."
                )
            if vcn is None:
                continue
            ranges = vcn_cidrs(vcn)
            if not any((outer := cidr(one)) and block.subnet_of(outer) for one in ranges):
                yield Problem(path, f"{path} is {text}, which is not within its VCN's {', '.join(ranges)}.")
            for one in asked.neighbours(SUBNET, vcnId=vcn.id):
                other = cidr(subnet_cidr(one))
                if other and block.overlaps(other):
                    yield Problem(
                        path,
                        f"The requested CIDR {text} is invalid: subnet {one.id} with CIDR {other} overlaps with this CIDR.",
                    )

    def _parts(self, asked: Asked) -> Iterator[Problem]:
        vcn = asked.known("vcnId")
        lists = each(asked.inputs, "securityListIds[]")
        if len(lists) > _MOST_LISTS:
            yield Problem("securityListIds", f"securityListIds has {len(lists)} entries, but may have at most {_MOST_LISTS}.")
        for path, ocid in lists:
            if asked.database.find(ocid, SECURITY_LIST) is None:
                yield not_found(path, ocid)
        others = [(path, asked.known(path)) for path in ("routeTableId", "dhcpOptionsId")]
        for path, ocid in [*others, *lists]:
            part = asked.database.find(ocid)
            if part is not None and vcn is not None and part.inputs.get("vcnId") != vcn:
                yield Problem(path, f"{path} {ocid} belongs to another VCN than the subnet.")
        table = asked.database.find(asked.known("routeTableId"), ROUTE_TABLE)
        if table is not None and private(asked.inputs) and _leads_out(table, asked.database):
            yield _private_with_internet("routeTableId", table.id)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        vcn = database.records[record.inputs["vcnId"]]
        text = subnet_cidr(record)
        block, label = cidr(text), record.inputs.get("dnsLabel")
        forbidden = private(record.inputs)
        record.computed.update(
            cidrBlock=text,
            ipv4cidrBlocks=[text],
            virtualRouterIp=str(block[1]) if block else "",
            virtualRouterMac="00:00:17:00:00:01",
            prohibitPublicIpOnVnic=forbidden,
            prohibitInternetIngress=forbidden,
            routeTableId=vcn.computed["defaultRouteTableId"],
            dhcpOptionsId=vcn.computed["defaultDhcpOptionsId"],
            securityListIds=[vcn.computed["defaultSecurityListId"]],
        )
        if label:
            record.computed["subnetDomainName"] = f"{label.lower()}.{vcn.computed['vcnDomainName']}"

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        if holder.token != _INSTANCE:
            return super().in_use(record, holder, kind)
        # An instance's VNIC blocks the deletion of a subnet.
        vnic = sibling_ocid(holder.id, "vnic")
        sentence = (
            f"The Subnet {record.id} references the VNIC {vnic}. You must remove the reference to proceed with this operation."
        )
        return Problem("", sentence, 409, "Conflict")


class RouteTable(InVcn):
    """A route table."""

    token, noun, service = ROUTE_TABLE, "routetable", "Core Route Table"
    create, update, delete = "CreateRouteTable", "UpdateRouteTable", "DeleteRouteTable"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        rules = each(asked.inputs, "routeRules[]")
        if len(rules) > _MOST_RULES:
            yield Problem("routeRules", f"routeRules has {len(rules)} entries, but may have at most {_MOST_RULES}.")
        seen = set()
        for path, rule in rules:
            yield from self._rule(asked, path, rule)
            destination = known(rule.get("destination") or rule.get("cidrBlock"))
            if destination is not None and destination in seen:
                yield Problem(f"{path}.destination", f"{path}.destination {destination} is in the table twice.")
            seen.add(destination)
        mine = asked.database.find(asked.itself)
        if mine is not None:
            leads_out = any(asked.database.find(known(rule.get("networkEntityId")), _INTERNET) for _, rule in rules)
            for subnet in asked.database.of(SUBNET, routeTableId=mine.id):
                if leads_out and private(subnet.inputs):
                    yield _private_with_internet("routeRules", mine.id)

    def _rule(self, asked: Asked, path: str, rule: Mapping[str, Any]) -> Iterator[Problem]:
        if rule.get("destination") is None and rule.get("cidrBlock") is None:
            yield Problem(
                f"{path}.destination", f"{path}.destination is missing, but a route needs it.", code="MissingParameter"
            )
        destination = known(rule.get("destination") or rule.get("cidrBlock"))
        to_service = _to_service(rule, "destinationType")
        if destination is not None and to_service is not None:
            yield from _peer(f"{path}.destination", destination, to_service=to_service)
        ocid = known(rule.get("networkEntityId"))
        if ocid is None:
            return
        target = asked.database.find(ocid)
        if target is None:
            yield not_found(f"{path}.networkEntityId", ocid)
        elif target.token not in _TARGETS:
            yield Problem(f"{path}.networkEntityId", f"{path}.networkEntityId {ocid} is no gateway that routes can lead to.")
        elif target.inputs.get("vcnId") != asked.inputs.get("vcnId") and asked.known("vcnId") is not None:
            yield Problem(f"{path}.networkEntityId", f"{path}.networkEntityId {ocid} belongs to another VCN than the table.")
        elif to_service is not None and (target.token == _SERVICE) != to_service:
            yield Problem(
                f"{path}.destinationType",
                f"{path} leads to {ocid}: service gateways need destinationType SERVICE_CIDR_BLOCK, other gateways CIDR_BLOCK.",
            )


class SecurityList(InVcn):
    """A security list."""

    token, noun, service = SECURITY_LIST, "securitylist", "Core Security List"
    create, update, delete = "CreateSecurityList", "UpdateSecurityList", "DeleteSecurityList"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        for name, peer in (("ingressSecurityRules", "source"), ("egressSecurityRules", "destination")):
            rules = each(asked.inputs, f"{name}[]")
            if len(rules) > _MOST_RULES:
                yield Problem(name, f"{name} has {len(rules)} entries, but may have at most {_MOST_RULES}.")
            for path, rule in rules:
                where = known(rule.get(peer))
                to_service = _to_service(rule, f"{peer}Type")
                if where is not None and to_service is not None:
                    yield from _peer(f"{path}.{peer}", where, to_service=to_service)
                yield from self._options(path, rule)

    def _options(self, path: str, rule: Mapping[str, Any]) -> Iterator[Problem]:
        protocol = known(rule.get("protocol"))
        for name, needed in _OPTIONS_OF.items():
            options = known(rule.get(name))
            if options is None:
                continue
            if protocol is not None and protocol != needed:
                yield Problem(f"{path}.{name}", f"{path}.{name} is only for protocol '{needed}', but protocol is {protocol!r}.")
            for span, here in (
                (options, f"{path}.{name}"),
                (options.get("sourcePortRange"), f"{path}.{name}.sourcePortRange"),
            ):
                yield from _span(here, span)


def _span(path: str, span: object) -> Iterator[Problem]:
    if not isinstance(span, Mapping):
        return
    low, high = span.get("min"), span.get("max")
    if (low is None) != (high is None):
        yield Problem(path, f"{path} has one of min and max, but needs both.")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        yield Problem(path, f"{path} runs from {low} to {high}, which is not a range.")


def _to_service(rule: Mapping[str, Any], name: str) -> bool | None:
    """Return whether a rule's peer is one of the vendor's services; None while the type of the peer is unknown."""
    kind = rule.get(name)
    return None if isinstance(kind, Unknown) else kind == "SERVICE_CIDR_BLOCK"


def _peer(path: str, text: str, *, to_service: bool) -> Iterator[Problem]:
    if to_service and text not in _SERVICE_NAMES:
        yield Problem(path, f"{path} is {text!r}, but must be one of {', '.join(sorted(_SERVICE_NAMES))}.")
    elif not to_service and cidr(text) is None:
        yield malformed(path, text)


def _leads_out(table: Record, database: Database) -> bool:
    return any(database.find(rule["networkEntityId"], _INTERNET) for rule in table.inputs.get("routeRules") or [])


def _private_with_internet(path: str, table: str) -> Problem:
    return Problem(
        path, f"Route table {table} leads to an internet gateway, but a subnet that uses it prohibits public IPs on VNICs."
    )
