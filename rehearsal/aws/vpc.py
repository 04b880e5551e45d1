"""VPCs and their secondary address ranges: EC2's refusals, what EC2 creates with a VPC, and the effects on the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import addresses
from rehearsal.aws.errors import Problem, invalid, refused
from rehearsal.aws.kinds import GROUP, TABLE, VPC, Asked, Kind
from rehearsal.aws.places import region_of
from rehearsal.net import network
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record

_IPV6 = "the rehearsal supports only IPv4."
_MOST_CIDRS = 5  # VPC quotas: IPv4 CIDR blocks per VPC
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
ANYWHERE = "0.0.0.0/0"
ALL: dict[str, Any] = {"protocol": "-1", "fromPort": 0, "toPort": 0}


class InVpc(Kind):
    """A resource in a VPC; when the resource changes, the VPC's network in the world is updated."""

    references: ClassVar[Mapping[str, str]] = {"vpcId": VPC}

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            cloud.wait(self.seconds)
        cloud.render(record.inputs["vpcId"])

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        cloud.render(record.inputs["vpcId"])


class Vpc(Kind):
    """A VPC with its main route table and default security group."""

    token, noun, prefix, arn = VPC, "vpc", "vpc", "vpc/{id}"
    create, update, delete = "CreateVpc", "ModifyVpcAttribute", "DeleteVpc"
    seconds = 2
    unplayed: ClassVar[Mapping[str, str]] = {
        "assignGeneratedIpv6CidrBlock": _IPV6,
        "ipv6IpamPoolId": _IPV6,
        "ipv4IpamPoolId": "the rehearsal supports no IPAM.",
    }

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        text = asked.known("cidrBlock")
        if asked.inputs.get("cidrBlock") is None:
            yield refused(
                "cidrBlock", "MissingParameter", "The request must contain the parameter cidrBlock or ipv4IpamPoolId."
            )
        problem = addresses.block("cidrBlock", text, "InvalidVpc.Range") if text is not None else None
        if problem:
            yield problem
        if asked.known("enableDnsHostnames") and asked.known("enableDnsSupport") is False:
            yield invalid("enableDnsHostnames", "DNS host names need DNS support, but enableDnsSupport is false.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        region = {"region": region_of(record.inputs)}
        table = Record(f"rtb-{record.id[4:]}", TABLE, "", "available", {"vpcId": record.id, "routes": [], **region})
        itself = {**ALL, "self": True}
        rules = {"ingress": [itself], "egress": [{**ALL, "cidrBlocks": [ANYWHERE]}]}
        named = {"name": "default", "description": "default VPC security group"}
        group = Record(f"sg-{record.id[4:]}", GROUP, "", "available", {"vpcId": record.id, **named, **rules, **region})
        for one in (table, group):
            one.parent, one.computed = record.id, {"name": one.inputs.get("name", "")}
            database.records[one.id] = one
        record.computed.update(
            mainRouteTableId=table.id, defaultRouteTableId=table.id, defaultSecurityGroupId=group.id,
            defaultNetworkAclId=f"acl-{record.id[4:]}", dhcpOptionsId=f"dopt-{record.id[4:]}", enableDnsSupport=True,
            enableDnsHostnames=False, enableNetworkAddressUsageMetrics=False, instanceTenancy="default",
            assignGeneratedIpv6CidrBlock=False,
        )  # fmt: skip

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            cloud.wait(self.seconds)
        cloud.render(record.id)

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        network.delete_vcn(cloud.world, record.short)


class CidrAssociation(InVpc):
    """A secondary address range of a VPC."""

    token, noun, prefix = addresses.ASSOCIATION, "CIDR block association", "vpc-cidr-assoc"
    create, update, delete = "AssociateVpcCidrBlock", "AssociateVpcCidrBlock", "DisassociateVpcCidrBlock"
    unplayed: ClassVar[Mapping[str, str]] = {"ipv4IpamPoolId": "the rehearsal supports no IPAM."}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        text, vpc = asked.known("cidrBlock"), asked.database.find(asked.known("vpcId"), VPC)
        problem = addresses.block("cidrBlock", text, "InvalidVpc.Range") if text is not None else None
        if problem:
            yield problem
        elif text is not None and vpc is not None:
            own = cidr(text)
            others = [str(one.inputs["cidrBlock"]) for one in asked.neighbours(self.token, vpcId=vpc.id)]
            for other in (str(vpc.inputs["cidrBlock"]), *others):
                theirs = cidr(other)
                if own and theirs and own.overlaps(theirs):
                    yield refused("cidrBlock", "InvalidVpc.Range", f"The CIDR '{text}' conflicts with {other} of {vpc.id}.")
            if len(others) + 1 >= _MOST_CIDRS:
                yield refused("cidrBlock", "CidrLimitExceeded", f"{vpc.id} has {_MOST_CIDRS} CIDR blocks and may have no more.")

    def names(self, record: Record) -> frozenset[str]:
        """Return the association's ids, and one more name that is made of the VPC's id and the association's address range.

        A subnet refers to the association by this name, because a subnet's inputs do not contain the association's id.
        """
        return super().names(record) | {f"range {record.inputs['vpcId']} {record.inputs['cidrBlock']}"}
