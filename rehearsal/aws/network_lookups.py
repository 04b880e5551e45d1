"""Data sources of VPCs, subnets, route tables, security groups and security-group rules.

If a request has no result or several results, the message is the provider's own (terraform-provider-aws:
internal/tfresource/not_found_error.go, internal/service/ec2/vpc_route_table_data_source.go, vpc_subnet_data_source.go).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal.aws import addresses
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.groups import EGRESS, INGRESS
from rehearsal.aws.kinds import GROUP, SUBNET, TABLE, VPC
from rehearsal.aws.lookup_requests import Answer, in_region, needed, passes, refusal
from rehearsal.aws.places import ACCOUNT
from rehearsal.aws.subnets import JOINED, ROUTE
from rehearsal.plugin.store import Database, Record

#: Resource type -> the provider's name for the type, and the operation that lists resources of the type.
_LISTED = {
    VPC: ("EC2 VPC", "DescribeVpcs"),
    SUBNET: ("EC2 Subnet", "DescribeSubnets"),
    GROUP: ("EC2 Security Group", "DescribeSecurityGroups"),
}
_TARGETS = ("gatewayId", "natGatewayId")
_OTHER_TARGETS = (
    *("carrierGatewayId", "coreNetworkArn", "destinationPrefixListId", "egressOnlyGatewayId", "instanceId", "ipv6CidrBlock"),
    *("localGatewayId", "networkInterfaceId", "transitGatewayId", "vpcEndpointId", "vpcPeeringConnectionId", "odbNetworkArn"),
)


def vpc(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a VPC by its id.

    Raises:
        ServiceError: no VPC has this id, or the request is invalid.
    """
    database = cloud.store.read()
    one = _found(args, database, VPC, region)
    ranges = addresses.vpc_cidrs(database, one)
    blocks = [
        {"associationId": f"vpc-cidr-assoc-{at}", "cidrBlock": cidr, "state": "associated"} for at, cidr in enumerate(ranges)
    ]
    kept = ("arn", "mainRouteTableId", "dhcpOptionsId", "enableDnsSupport", "enableDnsHostnames", "instanceTenancy")
    return {
        **{name: one.outputs()[name] for name in (*kept, "enableNetworkAddressUsageMetrics")},
        "id": one.id,
        "cidrBlock": one.inputs["cidrBlock"],
        "cidrBlockAssociations": blocks,
        "default": False,
        "ownerId": ACCOUNT,
        "state": "available",
        "tags": dict(one.inputs.get("tags") or {}),
        "ipv6AssociationId": "",
        "ipv6CidrBlock": "",
        "ipv6CidrBlockAssociations": [],
    }


def subnet(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a subnet by its id or its tags, with the number of its free addresses.

    Raises:
        ServiceError: no subnet matches, more than one subnet matches, or the request is invalid.
    """
    database = cloud.store.read()
    one = _tagged(args["tags"], database, region) if args.get("tags") else _found(args, database, SUBNET, region)
    kept = (
        *("arn", "availabilityZone", "availabilityZoneId", "cidrBlock", "mapPublicIpOnLaunch", "vpcId", "enableDns64"),
        *("assignIpv6AddressOnCreation", "ipv6Native", "mapCustomerOwnedIpOnLaunch", "privateDnsHostnameTypeOnLaunch"),
        *("enableResourceNameDnsARecordOnLaunch", "enableResourceNameDnsAaaaRecordOnLaunch"),
    )
    return {
        **{name: one.outputs()[name] for name in kept},
        "id": one.id,
        "availableIpAddressCount": addresses.room(database, one),
        "state": "available",
        "ownerId": ACCOUNT,
        "tags": dict(one.inputs.get("tags") or {}),
        "defaultForAz": False,
        "outpostArn": "",
        "enableLniAtDeviceIndex": 0,
        "customerOwnedIpv4Pool": "",
        "ipv6CidrBlock": "",
        "ipv6CidrBlockAssociationId": "",
    }


def route_table(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a route table by the table's id, or by the id of a subnet that is associated with the table.

    Raises:
        ServiceError: the request is invalid, or no table matches. A subnet that uses the VPC's main table matches no table.
    """
    database = cloud.store.read()
    name = args.get("routeTableId")
    if name is None:
        its = needed(args, "subnetId", "EC2", "DescribeRouteTables")
        name = next((one.inputs["routeTableId"] for one in database.of(JOINED, subnetId=its)), None)
    one = database.find(name, TABLE)
    if one is None or not in_region([one], region):
        message = "query returned no results. Please change your search criteria and try again"
        raise refusal("NoResults", message, "EC2", "DescribeRouteTables")
    joined = [
        {"main": False, "gatewayId": "", "routeTableAssociationId": each.id, "routeTableId": one.id, **_of(each, "subnetId")}
        for each in database.of(JOINED, routeTableId=one.id)
    ]
    return {
        "id": one.id,
        "routeTableId": one.id,
        "vpcId": one.inputs["vpcId"],
        "ownerId": ACCOUNT,
        "associations": joined,
        "routes": list(_routes(one, database)),
        "tags": dict(one.inputs.get("tags") or {}),
        "arn": one.computed.get("arn", ""),
    }


def group(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a security group by its id.

    Raises:
        ServiceError: no security group has this id, or the request is invalid.
    """
    one = _found(args, cloud.store.read(), GROUP, region)
    return {
        "id": one.id,
        "name": one.computed["name"],
        "vpcId": one.inputs["vpcId"],
        "arn": one.computed.get("arn", ""),
        "description": one.outputs().get("description", ""),
        "tags": dict(one.inputs.get("tags") or {}),
    }


def group_rules(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return the ids of the security-group rules that match the filters.

    Raises:
        ServiceError: the request is invalid.
    """
    rules = _rules(cloud.store.read(), region)
    facts = {name: {"group-id": rule["securityGroupId"], "security-group-rule-id": name} for name, rule in rules.items()}
    return {"ids": [name for name, its in facts.items() if passes(args, its)], "tags": {}}


def group_rule(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a rule of a security group by the rule's id.

    Raises:
        ServiceError: no rule has this id, or the request is invalid.
    """
    name = needed(args, "securityGroupRuleId", "EC2", "DescribeSecurityGroupRules")
    found = _rules(cloud.store.read(), region).get(name)
    if found is None:
        raise refusal("NotFound", "no matching Security Group Rule found", "EC2", "DescribeSecurityGroupRules")
    return found


def _found(args: Mapping[str, Any], database: Database, token: str, region: str) -> Record:
    noun, operation = _LISTED[token]
    one = database.find(needed(args, "id", "EC2", operation), token)
    if one is None or not in_region([one], region):
        raise refusal("NotFound", f"no matching {noun} found", "EC2", operation)
    return one


def _tagged(tags: Mapping[str, str], database: Database, region: str) -> Record:
    noun, operation = _LISTED[SUBNET]
    found = [one for one in in_region(database.of(SUBNET), region) if tags.items() <= (one.inputs.get("tags") or {}).items()]
    if len(found) > 1:
        message = f"multiple {noun}s matched; use additional constraints to reduce matches to a single {noun}"
        raise refusal("TooManyResults", message, "EC2", operation)
    if not found:
        raise refusal("NotFound", f"no matching {noun} found", "EC2", operation)
    return found[0]


def _of(record: Record, name: str) -> Answer:
    return {name: record.inputs.get(name) or ""}


def _routes(table: Record, database: Database) -> Iterator[Answer]:
    listed = [(one.get("cidrBlock"), one) for one in table.inputs.get("routes") or []]
    listed += [(one.inputs["destinationCidrBlock"], one.inputs) for one in database.of(ROUTE, routeTableId=table.id)]
    for cidr, one in listed:
        yield {"cidrBlock": cidr, **dict.fromkeys(_OTHER_TARGETS, ""), **{key: one.get(key) or "" for key in _TARGETS}}


def _rules(database: Database, region: str) -> dict[str, Answer]:
    """Return all rules of a region's groups by id. A rule in a group's property has no id, so one is computed."""
    rules: dict[str, Answer] = {}
    for direction, token in (("ingress", INGRESS), ("egress", EGRESS)):
        for one in in_region(database.of(token), region):
            rules[one.id] = _rule(one.id, one.inputs["securityGroupId"], direction, one.inputs)
        for owner in in_region(database.of(GROUP), region):
            for at, given in enumerate(owner.inputs.get(direction) or []):
                peers = [{"cidrIpv4": cidr} for cidr in given.get("cidrBlocks") or []]
                peers += [{"referencedSecurityGroupId": name} for name in given.get("securityGroups") or []]
                peers += [{"referencedSecurityGroupId": owner.id}] if given.get("self") else []
                for peer in peers:
                    name = f"sgr-{zlib.crc32(f'{owner.id} {direction} {at} {peer}'.encode()):017x}"
                    rules[name] = _rule(name, owner.id, direction, {**given, **peer, "ipProtocol": given["protocol"]})
    return rules


def _rule(name: str, owner: str, direction: str, given: Mapping[str, Any]) -> Answer:
    every = str(given["ipProtocol"]) == "-1"
    return {
        "id": name,
        "securityGroupRuleId": name,
        "securityGroupId": owner,
        "isEgress": direction == "egress",
        "arn": "",
        "ipProtocol": str(given["ipProtocol"]),
        "tags": {},
        "description": "",
        "prefixListId": "",
        "cidrIpv6": "",
        **{key: given.get(key) or "" for key in ("cidrIpv4", "referencedSecurityGroupId")},
        # For a rule that covers all protocols ("-1"), the API returns -1 as both ports.
        **{key: -1 if every else int(given.get(key) or 0) for key in ("fromPort", "toPort")},
    }
