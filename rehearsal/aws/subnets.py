"""Subnets, route tables, routes and route table associations: EC2's refusals, and the resources' outputs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import addresses
from rehearsal.aws.errors import Problem, combination, invalid, refused
from rehearsal.aws.kinds import GATEWAY, NAT, SUBNET, TABLE, VPC, Asked, Kind
from rehearsal.aws.places import region_of, zones
from rehearsal.aws.vpc import InVpc
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import Unknown, each

ROUTE = "aws:ec2/route:Route"
JOINED = "aws:ec2/routeTableAssociation:RouteTableAssociation"
#: Supported targets of a route: property -> type of the resource.
TARGETS: Mapping[str, str] = {"gatewayId": GATEWAY, "natGatewayId": NAT}

_OTHERS = (
    "carrierGatewayId", "coreNetworkArn", "destinationIpv6CidrBlock", "destinationPrefixListId", "egressOnlyGatewayId",
    "localGatewayId", "networkInterfaceId", "transitGatewayId", "vpcEndpointId", "vpcPeeringConnectionId", "odbNetworkArn",
)  # fmt: skip
_MOST_ROUTES = 500  # VPC quotas: routes per route table (non-propagated)


class Subnet(InVpc):
    """A subnet, in one zone."""

    token, noun, prefix, arn = SUBNET, "subnet", "subnet", "subnet/{id}"
    create, update, delete = "CreateSubnet", "ModifySubnetAttribute", "DeleteSubnet"
    seconds = 2
    unplayed: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("ipv6CidrBlock", "ipv6Native", "ipv4IpamPoolId", "ipv6IpamPoolId", "outpostArn", "assignIpv6AddressOnCreation"),
        "the rehearsal supports only IPv4 ranges that the program gives.",
    )

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        text, vpc = asked.known("cidrBlock"), asked.database.find(asked.known("vpcId"), VPC)
        if asked.inputs.get("cidrBlock") is None:
            yield refused("cidrBlock", "MissingParameter", "Either 'cidrBlock' or 'ipv6CidrBlock' should be provided.")
        problem = addresses.block("cidrBlock", text, "InvalidSubnet.Range") if text is not None else None
        if problem:
            yield problem
        elif text is not None and vpc is not None:
            yield from self._place(asked, text, vpc)

    def _place(self, asked: Asked, text: str, vpc: Record) -> Iterator[Problem]:
        own = cidr(text)
        ranges = addresses.vpc_cidrs(asked.database, vpc)
        # A preview cannot check whether the VPC has a range for the subnet: the same update may create the VPC's second range.
        if own and asked.urn is None and _covering(text, ranges) is None:
            yield refused(
                "cidrBlock", "InvalidSubnet.Range", f"The CIDR '{text}' is invalid: {vpc.id} has {', '.join(ranges)}."
            )
        for one in asked.neighbours(SUBNET, vpcId=vpc.id):
            other = cidr(one.inputs["cidrBlock"])
            if own and other and own.overlaps(other):
                yield refused(
                    "cidrBlock",
                    "InvalidSubnet.Conflict",
                    f"The CIDR '{text}' conflicts with another subnet: {one.id} has {other}.",
                )

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        region, vpc = region_of(record.inputs), database.records[record.inputs["vpcId"]]
        zone = record.inputs.get("availabilityZone") or zones(region)[0]
        record.private = {
            "zone": zone,
            "range": _covering(record.inputs["cidrBlock"], addresses.vpc_cidrs(database, vpc)),
        }
        record.computed.update(
            availabilityZone=zone, availabilityZoneId=zone_id(zone), mapPublicIpOnLaunch=False,
            assignIpv6AddressOnCreation=False, enableDns64=False, ipv6Native=False, mapCustomerOwnedIpOnLaunch=False,
            enableResourceNameDnsARecordOnLaunch=False, enableResourceNameDnsAaaaRecordOnLaunch=False,
            privateDnsHostnameTypeOnLaunch="ip-name",
        )  # fmt: skip

    @override
    def needs(self, record: Record) -> Iterator[str]:
        yield from super().needs(record)
        yield f"range {record.inputs['vpcId']} {record.private.get('range')}"


def zone_id(zone: str) -> str:
    """Return the zone's id. A zone's id means the same zone in every account."""
    region, letter = zone[:-1], zone[-1]
    words = region.split("-")
    short = words[0] + "".join(part[0] for part in words[1:-1]) + words[-1]
    return f"{short}-az{ord(letter) - ord('a') + 1}"


def _covering(text: str, ranges: tuple[str, ...]) -> str | None:
    own = cidr(text)
    outer = ((one, cidr(one)) for one in ranges)
    return next((one for one, found in outer if own and found and own.subnet_of(found)), None)


class RouteTable(InVpc):
    """A route table; the VPC's own ranges are always routed."""

    token, noun, prefix, arn = TABLE, "routeTable", "rtb", "route-table/{id}"
    create, update, delete = "CreateRouteTable", "CreateRoute", "DeleteRouteTable"
    references: ClassVar[Mapping[str, str]] = {
        "vpcId": VPC,
        "routes[].gatewayId": GATEWAY,
        "routes[].natGatewayId": NAT,
    }
    unplayed: ClassVar[Mapping[str, str]] = {"propagatingVgws": "the rehearsal supports no virtual private gateways."}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        routes = each(asked.inputs, "routes[]")
        if len(routes) > _MOST_ROUTES:
            yield refused(
                "routes", "RouteLimitExceeded", f"routes has {len(routes)} entries, but may have at most {_MOST_ROUTES}."
            )
        for path, route in routes:
            yield from _route(asked, route, f"{path}.", "cidrBlock", asked.known("vpcId"))

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(routes=[], propagatingVgws=[])


class Route(Kind):
    """One entry of a route table."""

    token, noun, prefix = ROUTE, "route", "r"
    create, update, delete = "CreateRoute", "ReplaceRoute", "DeleteRoute"
    references: ClassVar[Mapping[str, str]] = {"routeTableId": TABLE, "gatewayId": GATEWAY, "natGatewayId": NAT}
    seconds = 1

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        table = asked.database.find(asked.known("routeTableId"), TABLE)
        yield from _route(asked, asked.inputs, "", "destinationCidrBlock", table.inputs["vpcId"] if table else None)
        there = asked.known("destinationCidrBlock")
        inline = [one.get("cidrBlock") for one in (table.inputs.get("routes") or [])] if table else []
        own = asked.neighbours(ROUTE, routeTableId=asked.known("routeTableId"), destinationCidrBlock=there)
        if table and there is not None and (own or there in inline):
            yield refused(
                "destinationCidrBlock", "RouteAlreadyExists", f"The route identified by {there} already exists in {table.id}."
            )

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        # The id has the provider's format: the table's id and a hash of the destination.
        return f"r-{inputs['routeTableId']}{zlib.crc32(str(inputs['destinationCidrBlock']).encode())}"

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.private = {"vpc": database.records[record.inputs["routeTableId"]].inputs["vpcId"]}
        record.computed.update(origin="CreateRoute", state="active", instanceId="", instanceOwnerId="")

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            cloud.wait(self.seconds)
        cloud.render(record.private["vpc"])

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        cloud.render(record.private["vpc"])

    def needs(self, record: Record) -> Iterator[str]:
        """Return what the route needs, except its table: a table can be deleted together with its routes."""
        return (one for one in super().needs(record) if not one.startswith(TABLE))


def _route(asked: Asked, route: Mapping[str, Any], prefix: str, destination: str, vpc: object) -> Iterator[Problem]:
    text = route.get(destination)
    if isinstance(text, str) and cidr(text) is None:
        yield addresses.malformed(f"{prefix}{destination}", text)
    elif text is None:
        yield refused(
            f"{prefix}{destination}", "MissingParameter", "The request must contain the parameter destinationCidrBlock."
        )
    other = [name for name in _OTHERS if route.get(name) is not None]
    if other:
        yield refused(
            f"{prefix}{other[0]}",
            "NotRehearsed",
            f"{other[0]} is given, but the rehearsal's routes lead only to internet and NAT gateways.",
            501,
        )
    given = [name for name in TARGETS if route.get(name) is not None]
    if len(given) != 1 and not other:
        yield combination(f"{prefix}gatewayId", f"one target is needed, but {len(given)} of {', '.join(TARGETS)} are given.")
    for name in given:
        if isinstance(route[name], Unknown):
            continue
        gateway = asked.database.find(route[name], TARGETS[name])
        theirs = (gateway.private.get("vpc") or gateway.inputs.get("vpcId")) if gateway else None
        if gateway is not None and vpc is not None and theirs != vpc:
            yield invalid(f"{prefix}{name}", f"the route table of {vpc} and gateway {gateway.id} belong to different networks")


class Association(Kind):
    """The association of a subnet with a route table."""

    token, noun, prefix = JOINED, "association", "rtbassoc"
    create, update, delete = "AssociateRouteTable", "ReplaceRouteTableAssociation", "DisassociateRouteTable"
    references: ClassVar[Mapping[str, str]] = {"routeTableId": TABLE, "subnetId": SUBNET}
    unplayed: ClassVar[Mapping[str, str]] = {"gatewayId": "the rehearsal supports only associations of subnets."}
    holds = True

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        subnet = asked.database.find(asked.known("subnetId"), SUBNET)
        table = asked.database.find(asked.known("routeTableId"), TABLE)
        if asked.inputs.get("subnetId") is None:
            yield refused("subnetId", "MissingParameter", "The request must contain the parameter subnetId or gatewayId.")
        if subnet and table and subnet.inputs["vpcId"] != table.inputs["vpcId"]:
            yield invalid("routeTableId", f"Route table {table.id} and subnet {subnet.id} belong to different networks")
        if subnet and asked.neighbours(JOINED, subnetId=subnet.id):
            yield refused(
                "subnetId",
                "Resource.AlreadyAssociated",
                f"the specified association for {subnet.id} conflicts with an existing one",
            )

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.private = {"vpc": database.records[record.inputs["routeTableId"]].inputs["vpcId"]}

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        cloud.render(record.private["vpc"])

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        cloud.render(record.private["vpc"])

    def needs(self, record: Record) -> Iterator[str]:
        """Return what the association needs, except its subnet: a subnet can be deleted together with its association."""
        return (one for one in super().needs(record) if not one.startswith(SUBNET))
