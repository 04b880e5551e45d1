"""Routes out of a VPC: internet and NAT gateways, public addresses and endpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import addresses
from rehearsal.aws.errors import Problem, invalid, refused
from rehearsal.aws.kinds import EIP, GATEWAY, INSTANCE, NAT, SUBNET, TABLE, VPC, Asked, Kind
from rehearsal.aws.netplan import leads_out
from rehearsal.aws.places import region_of
from rehearsal.aws.types import ADDRESS_QUOTA
from rehearsal.aws.vpc import InVpc
from rehearsal.plugin.addresses import free_public
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each

ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"


class InternetGateway(InVpc):
    """The route to and from the Internet for hosts with a public address."""

    token, noun, prefix, arn = GATEWAY, "internetGateway", "igw", "internet-gateway/{id}"
    create, update, delete = "CreateInternetGateway", "CreateTags", "DeleteInternetGateway"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        vpc = asked.known("vpcId")
        if vpc is not None and asked.neighbours(self.token, vpcId=vpc):
            yield refused(
                "vpcId",
                "Resource.AlreadyAssociated",
                f"Network {vpc} already has an internet gateway attached, and can have only one.",
            )

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if record.inputs.get("vpcId"):
            super().effect(cloud, record, old)

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        if record.inputs.get("vpcId"):
            super().gone(cloud, record)


class Eip(Kind):
    """An Elastic IP address of a NAT gateway or of an instance. It replaces the instance's own public address."""

    token, noun, prefix, arn = EIP, "elastic IP", "eipalloc", "elastic-ip/{id}"
    create, update, delete = "AllocateAddress", "AssociateAddress", "ReleaseAddress"
    unplayed: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("networkInterface", "associateWithPrivateIp", "address", "customerOwnedIpv4Pool"),
        "the rehearsal supports only addresses of NAT gateways and instances.",
    )

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        most = ADDRESS_QUOTA[2]
        if asked.itself is None and len(asked.database.of(EIP)) >= most:
            yield refused("", "AddressLimitExceeded", "The maximum number of addresses has been reached.")
        named = asked.known("instance")
        instance = asked.database.find(named, INSTANCE)
        if named is not None and instance is None:
            yield refused("instance", "InvalidInstanceID.NotFound", f"The instance ID '{named}' does not exist")
        vpc = instance.private.get("vpc") if instance else None
        if vpc and not asked.database.of(GATEWAY, vpcId=vpc):
            yield refused("instance", "Gateway.NotAttached", f"Network {vpc} is not attached to any internet gateway")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        region = region_of(record.inputs)
        record.computed.update(
            addresses.public_names(free_public(database), region),
            allocationId=record.id,
            domain="vpc",
            publicIpv4Pool="amazon",
            networkBorderGroup=region,
        )

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        """Associate the address with its instance.

        If an update names another instance, move the address to that instance. If an update names no instance, take the address
        away from the old instance.
        Source: terraform-provider-aws:internal/service/ec2/ec2_eip.go, Update.
        """
        before, now = (old or {}).get("instance"), record.inputs.get("instance")
        if before != now:
            _taken_off(cloud, before)
            with cloud.store.change() as database:
                instance, mine = database.find(now, INSTANCE), database.records[record.id]
                if instance is not None:
                    instance.computed["publicIp"] = mine.computed["publicIp"]
                    instance.computed["publicDns"] = mine.computed["publicDns"]
                mine.computed.update(instance=now or "", associationId=f"eipassoc-{record.id[9:]}" if now else "")
            _render(cloud, now)

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        _taken_off(cloud, record.inputs.get("instance"))

    @override
    def in_use(self, record: Record, holder: Record, kind: Any) -> Problem:
        return refused(
            "", "InvalidIPAddress.InUse", f"Address {record.computed['publicIp']} is in use by {holder.id} and is not released."
        )


def _taken_off(cloud: ResourceCloud, named: object) -> None:
    """Take the Elastic IP address away from an instance.

    If the instance was launched with a public address, give the instance a new public address.
    Source: VPC user guide, "Elastic IP addresses". When an instance gets an Elastic IP address, AWS releases the instance's
    own public address. When the instance loses the Elastic IP address, AWS assigns a new public address.
    """
    with cloud.store.change() as database:
        instance = database.find(named, INSTANCE)
        if instance is None:
            return
        public = free_public(database) if instance.computed["associatePublicIpAddress"] else None
        instance.computed.update(addresses.public_names(public, region_of(instance.inputs)))
    _render(cloud, named)


def _render(cloud: ResourceCloud, named: object) -> None:
    instance = cloud.store.read().find(named, INSTANCE)
    if instance is not None:
        cloud.render(instance.private["vpc"])


class NatGateway(Kind):
    """The route to the Internet for hosts without a public address."""

    token, noun, prefix = NAT, "natGateway", "nat"
    create, update, delete = "CreateNatGateway", "CreateTags", "DeleteNatGateway"
    seconds = 100
    references: ClassVar[Mapping[str, str]] = {"subnetId": SUBNET, "allocationId": EIP}
    unplayed: ClassVar[Mapping[str, str]] = {
        "secondaryAllocationIds": "the rehearsal supports only one address per NAT gateway.",
        "availabilityMode": "the rehearsal supports only zonal NAT gateways.",
    }

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        public = asked.inputs.get("connectivityType") in {None, "public"}
        if public and asked.inputs.get("allocationId") is None:
            yield refused(
                "allocationId",
                "MissingParameter",
                "The request must contain the parameter AllocationId: the NAT gateway is public.",
            )
        if asked.inputs.get("subnetId") is None:
            yield refused("subnetId", "MissingParameter", "The request must contain the parameter SubnetId.")
        allocation = asked.known("allocationId")
        if allocation is not None and asked.neighbours(NAT, allocationId=allocation):
            yield refused(
                "allocationId",
                "Resource.AlreadyAssociated",
                f"{allocation} already belongs to another NAT gateway.",
            )

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        subnet = database.records[record.inputs["subnetId"]]
        found = addresses.free(database, subnet) or [""]
        record.private = {"addresses": found, "vpc": subnet.inputs["vpcId"], "subnet": subnet.id}
        address = database.find(record.inputs.get("allocationId"), EIP)
        record.computed.update(
            privateIp=found[0],
            connectivityType="public",
            networkInterfaceId=f"eni-{record.id[4:]}",
            associationId=f"eipassoc-{record.id[4:]}",
            publicIp=address.computed["publicIp"] if address else "",
            secondaryPrivateIpAddresses=[],
            secondaryPrivateIpAddressCount=0,
            secondaryAllocationIds=[],
        )

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            cloud.wait(self.seconds)
            database = cloud.store.read()
            subnet = database.records[record.private["subnet"]]
            if not leads_out(database, subnet):
                # If the subnet has no route out, AWS creates the NAT gateway, and then the NAT gateway fails: VPC user guide,
                # "NAT gateway goes to a status of failed".
                raise cloud.failed(
                    record,
                    f"waiting for EC2 NAT Gateway ({record.id}) create: unexpected state 'failed', wanted target 'available'. "
                    f"last error: Gateway.NotAttached: Network {record.private['vpc']} has no Internet gateway attached",
                )
        cloud.render(record.private["vpc"])

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        cloud.render(record.private["vpc"])


class Endpoint(InVpc):
    """A VPC endpoint: a route to an AWS service that avoids the Internet. A gateway endpoint is an entry in route tables."""

    token, noun, prefix, arn = ENDPOINT, "vpcEndpoint", "vpce", "vpc-endpoint/{id}"
    create, update, delete = "CreateVpcEndpoint", "ModifyVpcEndpoint", "DeleteVpcEndpoints"
    seconds = 5
    references: ClassVar[Mapping[str, str]] = {"vpcId": VPC, "routeTableIds[]": TABLE}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        kind, name, region = asked.known("vpcEndpointType") or "Gateway", asked.known("serviceName"), region_of(asked.inputs)
        if kind != "Gateway":
            yield refused(
                "vpcEndpointType",
                "NotRehearsed",
                f"The rehearsal supports only gateway endpoints, but vpcEndpointType is {kind}.",
                501,
            )
        elif name is not None and name not in {f"com.amazonaws.{region}.{one}" for one in ("s3", "dynamodb")}:
            yield refused("serviceName", "InvalidServiceName", f"The Vpc Endpoint Service '{name}' does not exist")
        for path, table in each(asked.inputs, "routeTableIds[]"):
            found = asked.database.find(table, TABLE)
            if found is not None and asked.known("vpcId") not in {None, found.inputs["vpcId"]}:
                yield invalid(path, f"Route table {table} does not belong to vpc {asked.known('vpcId')}.")
            for other in asked.neighbours(self.token, serviceName=name):
                if table in (other.inputs.get("routeTableIds") or []):
                    yield refused(
                        path, "RouteAlreadyExists", f"route table {table} already has a route to {name} by {other.id}."
                    )

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            vpcEndpointType="Gateway", state="available", cidrBlocks=[], dnsEntries=[], networkInterfaceIds=[],
            prefixListId=f"pl-{record.id[5:13]}", requesterManaged=False, routeTableIds=[], securityGroupIds=[], subnetIds=[],
            privateDnsEnabled=False, ipAddressType="", policy='{"Version":"2008-10-17","Statement":[{"Effect":"Allow",'
            '"Principal":"*","Action":"*","Resource":"*"}]}',
        )  # fmt: skip
