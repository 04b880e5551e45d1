"""Base classes of the rehearsed AWS's resource types."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, cast

from typing_extensions import override

from rehearsal.aws.errors import Problem, invalid, not_played, refused
from rehearsal.aws.places import ACCOUNT, partition, region_of, zones
from rehearsal.plugin import kinds
from rehearsal.plugin.kinds import Asked
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each

__all__ = ["Asked", "Kind", "Named", "by_name", "fresh_name", "now", "shown"]

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
GATEWAY = "aws:ec2/internetGateway:InternetGateway"
EIP = "aws:ec2/eip:Eip"
NAT = "aws:ec2/natGateway:NatGateway"
TABLE = "aws:ec2/routeTable:RouteTable"
GROUP = "aws:ec2/securityGroup:SecurityGroup"
KEY = "aws:ec2/keyPair:KeyPair"
PLACEMENT = "aws:ec2/placementGroup:PlacementGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
INSTANCE = "aws:ec2/instance:Instance"
ROLE = "aws:iam/role:Role"
PROFILE = "aws:iam/instanceProfile:InstanceProfile"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
OPENZFS = "aws:fsx/openZfsFileSystem:OpenZfsFileSystem"
BUCKET = "aws:s3/bucket:Bucket"

#: Resource type -> how the service refuses a reference to a missing resource of that type: code, sentence, HTTP status.
MISSING: Mapping[str, tuple[str, str, int]] = {
    VPC: ("InvalidVpcID.NotFound", "The vpc ID '{}' does not exist", 400),
    SUBNET: ("InvalidSubnetID.NotFound", "The subnet ID '{}' does not exist", 400),
    GATEWAY: ("InvalidInternetGatewayID.NotFound", "The internetGateway ID '{}' does not exist", 400),
    EIP: ("InvalidAllocationID.NotFound", "The allocation ID '{}' does not exist", 400),
    NAT: ("InvalidNatGatewayID.NotFound", "The natGateway ID '{}' does not exist", 400),
    TABLE: ("InvalidRouteTableID.NotFound", "The routeTable ID '{}' does not exist", 400),
    GROUP: ("InvalidGroup.NotFound", "The security group '{}' does not exist", 400),
    KEY: ("InvalidKeyPair.NotFound", "The key pair '{}' does not exist", 400),
    PLACEMENT: ("InvalidPlacementGroup.Unknown", "The Placement Group '{}' is unknown.", 400),
    TEMPLATE: ("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID {}, does not exist.", 400),
    ROLE: ("NoSuchEntity", "The role with name {} cannot be found.", 404),
    PROFILE: (
        "InvalidParameterValue",
        "Value ({}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
        400,
    ),
    LUSTRE: ("FileSystemNotFound", "File system '{}' does not exist.", 400),
    BUCKET: ("NoSuchBucket", "The specified bucket {} does not exist", 404),
}

_HEX = "0123456789abcdef"
_SUFFIX = 7


def now() -> str:
    """Return the current time as AWS writes times."""
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def fresh_name(urn: str) -> str:
    """Return a generated name in the format of AWS's provider: the resource's logical name and seven hexadecimal digits."""
    return f"{urn.rpartition('::')[2]}-{''.join(secrets.choice(_HEX) for _ in range(_SUFFIX))}"


class Kind(kinds.Kind):
    """One of AWS's resource types.

    Attributes:
        prefix: prefix of the ids of the type's resources.
        space: a prefix that makes ids unique if the ids are names: resources of two types, such as a role and a bucket, may
            have the same name.
        arn: the part of a resource's ARN after the account, with the placeholder `{id}`; empty if the type has no ARN.
        arn_service: the service that the ARN names.
        seconds: how long the creation of a resource takes in the real cloud.
        unplayed: property -> why the rehearsal does not support the property. A resource that sets the property is refused.
    """

    service = "EC2"
    ready = "available"
    prefix: ClassVar[str] = ""
    space: ClassVar[str] = ""
    arn: ClassVar[str] = ""
    arn_service: ClassVar[str] = "ec2"
    seconds: ClassVar[float] = 0
    unplayed: ClassVar[Mapping[str, str]] = {}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        # The inherited `problems` yields only results of `missing`, which returns AWS's Problem in this class.
        yield from cast("Iterator[Problem]", super().problems(asked))
        zone, region = asked.known("availabilityZone"), region_of(asked.inputs)
        if zone is not None and zone not in zones(region):
            yield invalid(
                "availabilityZone",
                f"Value ({zone}) for parameter availabilityZone is invalid. Subnets can currently only be created in the "
                f"following availability zones: {', '.join(zones(region))}.",
            )
        for path, why in self.unplayed.items():
            if asked.known(path) not in (None, False, "", [], {}):
                yield not_played(path, f"{path} is given, but {why}")

    def stale(self, inputs: Mapping[str, Any]) -> Problem | None:
        """Return the service's error for a reference to a new resource that the service does not know yet, or None."""
        for pattern, token in self.references.items():
            for path, named in each(inputs, pattern):
                return self.missing(path, str(named), token)
        return None

    @override
    def missing(self, path: str, named: str, token: str) -> Problem:
        code, sentence, status = MISSING[token]
        return refused(path, code, sentence.format(named), status)

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return f"{self.prefix}-0{''.join(secrets.choice(_HEX) for _ in range(16))}"

    @override
    def on_create(self, database: Database, record: Record) -> None:
        region = region_of(record.inputs)
        tags = dict(record.inputs.get("tags") or {})
        record.computed.update(region=region, ownerId=ACCOUNT, tagsAll=tags)
        if self.arn:
            record.computed["arn"] = self.arn_of(record.inputs, shown(record))

    def arn_of(self, inputs: Mapping[str, Any], named: str) -> str:
        """Return the resource's ARN."""
        region = region_of(inputs)
        where = "" if self.arn_service == "iam" else region
        return f"arn:{partition(region)}:{self.arn_service}:{where}:{ACCOUNT}:{self.arn.format(id=named)}"

    @override
    def outputs(self, record: Record) -> dict[str, Any]:
        return super().outputs(record) | {"tagsAll": dict(record.inputs.get("tags") or {})}

    @override
    def referred(self, database: Database, token: str, named: object) -> Record | None:
        return database.find(named, token) or by_name(database, token, named)

    @override
    def shown(self, record: Record) -> str:
        return shown(record)

    @override
    def key(self, shown: str) -> str:
        return f"{self.space}|{shown}" if self.space else shown

    @override
    def names(self, record: Record) -> frozenset[str]:
        return _names(record)

    @override
    def needs(self, record: Record) -> Iterator[str]:
        for pattern, token in self.references.items():
            for _, named in each(record.inputs, pattern):
                yield f"{token} {named}"

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        return refused(
            "",
            "DependencyViolation",
            f"The {self.noun} '{shown(record)}' has dependencies and cannot be deleted: {shown(holder)} uses it.",
        )


def by_name(database: Database, token: str, named: object) -> Record | None:
    """Return the record of this type that has this id, name or ARN; None if there is no such record."""
    return next((one for one in database.of(token) if f"{token} {named}" in _names(one)), None)


def shown(record: Record) -> str:
    """Return a record's id without the namespace, as the engine and AWS show the id."""
    return record.id.rpartition("|")[2]


def _names(record: Record) -> frozenset[str]:
    called = (shown(record), record.computed.get("arn"), record.computed.get("name"), record.inputs.get("name"))
    return frozenset(f"{record.token} {one}" for one in called if isinstance(one, str))


class Named(Kind):
    """A resource whose id is its name; if the program sets no name, the provider generates a name.

    Attributes:
        name_property: property that holds the name.
        duplicate: the service's error code for a name that already exists.
    """

    name_property: ClassVar[str] = "name"
    duplicate: ClassVar[str] = "EntityAlreadyExists"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        name = asked.known(self.name_property)
        if name is not None and any(one.computed.get("name") == name for one in asked.neighbours(self.token)):
            yield refused(self.name_property, self.duplicate, f"{self.noun} {name} already exists.", 409)

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return self.key(str(inputs.get(self.name_property) or self.made_up(urn, inputs)))

    def made_up(self, urn: str, inputs: Mapping[str, Any]) -> str:
        """Return a generated name."""
        prefix = inputs.get(f"{self.name_property}Prefix")
        return f"{prefix}{''.join(secrets.choice(string.digits) for _ in range(26))}" if prefix else fresh_name(urn)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed["name"] = shown(record)
