"""VCNs, gateways and DHCP options: the service's refusals, the default resources that the service adds, and the effects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.net import network
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.ocids import new_ocid, now
from rehearsal.oci.places import SERVICES
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each, known

VCN = "oci:Core/vcn:Vcn"
ROUTE_TABLE = "oci:Core/routeTable:RouteTable"
SECURITY_LIST = "oci:Core/securityList:SecurityList"
DHCP_OPTIONS = "oci:Core/dhcpOptions:DhcpOptions"

# "The allowable VCN size range is /16 to /30", and the ranges that a VCN must not overlap:
# docs.oracle.com/iaas/Content/Network/Tasks/Overview_of_VCNs_and_Subnets.htm.
_WIDEST, _NARROWEST = 16, 30
_RESERVED = tuple(IPv4Network(cidr) for cidr in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3"))

# The default security list of a new VCN: docs.oracle.com/iaas/Content/Network/Concepts/securitylists.htm.
_SSH: dict[str, Any] = {"protocol": "6", "source": "0.0.0.0/0", "tcpOptions": {"min": 22, "max": 22}}
_FRAGMENTS: dict[str, Any] = {"protocol": "1", "source": "0.0.0.0/0", "icmpOptions": {"type": 3, "code": 4}}
_ALL_OUT: dict[str, Any] = {"protocol": "all", "destination": "0.0.0.0/0"}


def malformed(path: str, text: str) -> Problem:
    """Return the refusal of an invalid CIDR."""
    return Problem(path, f"{path} is {text!r}, but must be an IPv4 CIDR without host bits, such as 10.0.0.0/16.")


class InVcn(Kind):
    """A resource in a VCN; when the resource changes, the VCN's network in the world is updated."""

    references: ClassVar[Mapping[str, str]] = {"vcnId": VCN}

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        cloud.render(record.inputs["vcnId"])

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        cloud.render(record.inputs["vcnId"])


class Vcn(Kind):
    """A VCN with its default route table, security list and DHCP options."""

    token, noun, service = VCN, "vcn", "Core Vcn"
    create, update, delete = "CreateVcn", "UpdateVcn", "DeleteVcn"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        given = [name for name in ("cidrBlock", "cidrBlocks") if asked.inputs.get(name) is not None]
        if len(given) != 1:
            named = "cidrBlocks and cidrBlock are both" if given else "neither cidrBlocks nor cidrBlock is"
            yield Problem("cidrBlocks", f"{named} given, but a VCN needs exactly one of these properties.")
        seen: list[IPv4Network] = []
        for path, text in [*each(asked.inputs, "cidrBlock"), *each(asked.inputs, "cidrBlocks[]")]:
            block = cidr(text)
            if block is None:
                yield malformed(path, text)
                continue
            if not _WIDEST <= block.prefixlen <= _NARROWEST:
                yield Problem(path, f"{path} is {text}, but a VCN's range must be from /{_WIDEST} to /{_NARROWEST}.")
            if any(block.overlaps(one) for one in _RESERVED):
                yield Problem(
                    path,
                    f"{path} is {text}, which overlaps a range that the service reserves or that the Internet does not route.",
                )
            if any(block.overlaps(one) for one in seen):
                yield Problem(path, f"{path} is {text}, which overlaps another range of the same VCN.")
            seen.append(block)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        blocks = record.inputs.get("cidrBlocks") or [record.inputs["cidrBlock"]]
        label = record.inputs.get("dnsLabel")
        record.computed.update(cidrBlock=blocks[0], cidrBlocks=blocks)
        if label:
            record.computed["vcnDomainName"] = f"{label.lower()}.oraclevcn.com"
        # The default security list lets in SSH, the ICMP messages for path MTU discovery and, from within the VCN, all ICMP
        # messages about unreachable destinations; it lets out everything.
        unreachable = [{"protocol": "1", "source": block, "icmpOptions": {"type": 3}} for block in blocks]
        rules = {"ingressSecurityRules": [_SSH, _FRAGMENTS, *unreachable], "egressSecurityRules": [_ALL_OUT]}
        options = [{"type": "DomainNameServer", "serverType": "VcnLocalPlusInternet"}]
        if label:
            options.append({"type": "SearchDomain", "searchDomainNames": [f"{label.lower()}.oraclevcn.com"]})  # type: ignore[dict-item]
        for name, token, noun, inputs in (
            ("defaultRouteTableId", ROUTE_TABLE, "routetable", {"routeRules": []}),
            ("defaultSecurityListId", SECURITY_LIST, "securitylist", rules),
            ("defaultDhcpOptionsId", DHCP_OPTIONS, "dhcpoptions", {"options": options}),
        ):
            default = Record(
                id=new_ocid(noun),
                token=token,
                urn="",
                state="AVAILABLE",
                inputs={"compartmentId": record.inputs["compartmentId"], "vcnId": record.id, **inputs},
                computed={
                    "timeCreated": now(),
                    "displayName": f"Default {noun} for {record.inputs.get('displayName', 'vcn')}",
                },
                parent=record.id,
            )
            database.records[default.id] = default
            record.computed[name] = default.id

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        cloud.render(record.id)

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        network.delete_vcn(cloud.world, record.short)


class Gateway(InVcn):
    """A type of gateway of which a VCN can have at most one."""

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        vcn = asked.known("vcnId")
        if vcn is not None and asked.neighbours(self.token, vcnId=vcn):
            words = self.service.removeprefix("Core ")
            yield Problem("vcnId", f"VCN {vcn} already has one {words} and may have no other.", 409, "LimitExceeded")


class InternetGateway(Gateway):
    """The route to and from the Internet for hosts with a public address."""

    token, noun, service = "oci:Core/internetGateway:InternetGateway", "internetgateway", "Core Internet Gateway"
    create, update, delete = "CreateInternetGateway", "UpdateInternetGateway", "DeleteInternetGateway"

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed["enabled"] = True


class NatGateway(Gateway):
    """The route to the Internet for hosts without a public address."""

    token, noun, service = "oci:Core/natGateway:NatGateway", "natgateway", "Core Nat Gateway"
    create, update, delete = "CreateNatGateway", "UpdateNatGateway", "DeleteNatGateway"

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        super().effect(cloud, record, old)
        # The network builder gives each VCN a number and writes the number to the VCN's file. The last part of the NAT
        # gateway's address is this number.
        with cloud.store.change() as database:
            vcn = database.records[record.inputs["vcnId"]]
            built = json.loads((cloud.world.path / "vcns" / f"{vcn.short}.json").read_text())
            database.records[record.id].computed.update(natIp=f"{network.NAT_RANGE}{built['number']}", blockTraffic=False)


class ServiceGateway(InVcn):
    """The route to the Oracle services network."""

    token, noun, service = "oci:Core/serviceGateway:ServiceGateway", "servicegateway", "Core Service Gateway"
    create, update, delete = "CreateServiceGateway", "UpdateServiceGateway", "DeleteServiceGateway"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        for path, service in each(asked.inputs, "services[].serviceId"):
            if service not in SERVICES:
                yield not_found(path, service)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed["blockTraffic"] = False


class DhcpOptions(InVcn):
    """DHCP options: domain names and resolvers."""

    token, noun, service = DHCP_OPTIONS, "dhcpoptions", "Core Dhcp Options"
    create, update, delete = "CreateDhcpOptions", "UpdateDhcpOptions", "DeleteDhcpOptions"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        options = known(asked.inputs.get("options")) or []
        types = [known(option.get("type")) for option in options if isinstance(option, Mapping)]
        if None not in types and types.count("DomainNameServer") != 1:
            yield Problem("options", "options must contain exactly one option of type DomainNameServer.")
        for path, option in each(asked.inputs, "options[]"):
            if option.get("type") == "DomainNameServer" and option.get("serverType") is None:
                yield Problem(f"{path}.serverType", f"{path}.serverType is missing, but a DomainNameServer needs it.")
            names = option.get("searchDomainNames")
            if option.get("type") == "SearchDomain" and (names is None or (isinstance(names, list) and len(names) != 1)):
                yield Problem(f"{path}.searchDomainNames", f"{path}.searchDomainNames must contain exactly one name.")
            if option.get("serverType") == "CustomDnsServer":
                yield Problem(f"{path}.serverType", "The rehearsal cannot simulate a custom DNS server.", 501, "NotRehearsed")
