"""Answers the data sources of AWS's Pulumi provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rehearsal.aws import iam, network_lookups, offers, parameters, reserved, tagged_resources
from rehearsal.aws.api import shown
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.images import PARAMETERS
from rehearsal.aws.kinds import EIP, INSTANCE, PROFILE, by_name
from rehearsal.aws.lookup_requests import Answer, in_region, needed, passes, refusal
from rehearsal.aws.places import ACCOUNT, partition, zones
from rehearsal.aws.subnets import zone_id
from rehearsal.plugin.store import Database, Record

Lookup = Callable[[Mapping[str, Any], Cloud, str], Answer]


def answer(token: str, args: Mapping[str, Any], cloud: Cloud) -> Answer:
    """Return the result of a data source: the arguments of the request, and the values that were found for these arguments.

    Raises:
        KeyError: the rehearsed AWS has no data source with this token.
        ServiceError: the service refused the arguments.
    """
    region = str(args.get("region") or cloud.region)
    found = LOOKUPS[token](args, cloud, region)
    name = token.rpartition(":")[2]
    return {"id": f"{name}-{region}", "region": region, **args, **found}


def _region(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    return {"id": region, "name": region, "description": f"{region} (rehearsed)", "endpoint": f"ec2.{region}.amazonaws.com"}


def _zones(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    names = list(zones(region))
    return {"names": names, "zoneIds": [zone_id(one) for one in names], "groupNames": [region]}


def _caller(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    arn = f"arn:{partition(region)}:iam::{ACCOUNT}:user/rehearsed"
    return {"id": ACCOUNT, "accountId": ACCOUNT, "arn": arn, "userId": "AIDAREHEARSEDREHEARSED"}


def _parameter(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    name = needed(args, "name", "SSM", "GetParameter")
    public, own = PARAMETERS.get(name), parameters.get(cloud.world, name)
    if public is None and own is None:
        raise refusal("ParameterNotFound", f"couldn't find resource: {name}", "SSM", "GetParameter")
    value, kind, version = (own.value, own.type, own.version) if own else (str(public), "String", 1)
    slash = "" if name.startswith("/") else "/"
    owner = "" if public else ACCOUNT
    secret = kind == "SecureString"
    return {
        "id": name,
        "name": name,
        "value": value,
        "insecureValue": None if secret else value,
        "type": kind,
        "version": version,
        "arn": f"arn:{partition(region)}:ssm:{region}:{owner}:parameter{slash}{name}",
    }


def _profile(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    return iam.profile(cloud.store.read(), needed(args, "name", "IAM", "GetInstanceProfile"))


def _addresses(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    tags = {str(key): str(value) for key, value in (args.get("tags") or {}).items()}
    found = in_region(cloud.store.read().of(EIP), region)
    found = [one for one in found if tags.items() <= (one.inputs.get("tags") or {}).items()]
    found = [one for one in found if passes(args, {"public-ip": one.computed["publicIp"], "allocation-id": one.id})]
    return {"allocationIds": [one.id for one in found], "publicIps": [one.computed["publicIp"] for one in found]}


def _instances(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    states = set(args.get("instanceStateNames") or ["running"])
    database = cloud.store.read()
    named = {one.id: shown.state(one) for one in database.of(INSTANCE)}
    found = [one for one in in_region(database.of(INSTANCE), region) if named[one.id] in states]
    found = [one for one in found if passes(args, facts(one, database, named[one.id]))]
    tags = {str(key): str(value) for key, value in (args.get("instanceTags") or {}).items()}
    found = [one for one in found if tags.items() <= one.private["tags"].items()]
    return {
        "ids": [one.id for one in found],
        "privateIps": [one.computed["privateIp"] for one in found],
        "publicIps": [one.computed["publicIp"] for one in found if one.computed["publicIp"]],
        "ipv6Addresses": [],
        "instanceTags": tags,
    }


def facts(record: Record, database: Database, state: str) -> dict[str, Any]:
    """Return an instance's values by the names of the filters that test them; `state` is the value of `instance-state-name`."""
    private = record.private
    profile = by_name(database, PROFILE, private["profile"])
    return _Tagged({
        "iam-instance-profile.arn": profile.computed["arn"] if profile else "",
        "instance-id": record.id, "instance-state-name": state, "instance-type": private["type"],
        "vpc-id": private["vpc"], "subnet-id": private["subnet"], "availability-zone": private["zone"],
        "image-id": private["image"], "private-ip-address": record.computed["privateIp"],
        "placement-group-name": private["placement_group"],
        # On-demand machines have no lifecycle (EC2 API, DescribeInstances).
        "instance-lifecycle": [] if private.get("market") == "on-demand" else [private.get("market") or ""],
        "tag-key": list(private["tags"]),
        **{f"tag:{key}": value for key, value in private["tags"].items()},
    })  # fmt: skip


class _Tagged(dict[str, Any]):
    """An instance's values, by the names of the filters that test them.

    A filter for a tag that the instance lacks is accepted, but never matches.
    """

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or str(name).startswith("tag:")

    def __missing__(self, name: str) -> list[str]:
        return []


#: Token of the data source -> the function that answers it.
LOOKUPS: Mapping[str, Lookup] = {
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _zones,
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:ssm/getParameter:getParameter": _parameter,
    "aws:ec2/getEips:getEips": _addresses,
    "aws:iam/getInstanceProfile:getInstanceProfile": _profile,
    "aws:ec2/getInstances:getInstances": _instances,
    "aws:ec2/getVpc:getVpc": network_lookups.vpc,
    "aws:ec2/getSubnet:getSubnet": network_lookups.subnet,
    "aws:ec2/getRouteTable:getRouteTable": network_lookups.route_table,
    "aws:ec2/getSecurityGroup:getSecurityGroup": network_lookups.group,
    "aws:vpc/getSecurityGroupRules:getSecurityGroupRules": network_lookups.group_rules,
    "aws:vpc/getSecurityGroupRule:getSecurityGroupRule": network_lookups.group_rule,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": offers.offerings,
    "aws:ec2/getInstanceType:getInstanceType": offers.machine,
    "aws:ec2/getAmi:getAmi": offers.image,
    "aws:servicequotas/getServiceQuota:getServiceQuota": offers.quota,
    "aws:cloudcontrol/getResource:getResource": reserved.resource,
    "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": reserved.block,
    "aws:ec2/getCapacityBlockOffering:getCapacityBlockOffering": reserved.offer,
    "aws:resourcegroupstaggingapi/getResources:getResources": tagged_resources.resources,
}
