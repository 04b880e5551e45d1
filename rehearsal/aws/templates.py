"""Launch templates, placement groups and key pairs: EC2's refusals."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import account
from rehearsal.aws.errors import Problem, invalid, refused
from rehearsal.aws.kinds import GROUP, KEY, PLACEMENT, SUBNET, TEMPLATE, Asked, Kind, Named, shown
from rehearsal.plugin import kinds
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each

#: Largest user data before base64 encoding: EC2 user guide, "Run commands when you launch an EC2 instance".
USER_DATA_BYTES = 16_384

_KEY_TYPES = ("ssh-rsa", "ssh-ed25519")


def encoded(path: str, text: str, code: str) -> Problem | None:
    """Return why EC2 refuses base64-encoded user data, or None if EC2 accepts the data."""
    try:
        size = len(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError):
        return refused(path, code, "Invalid BASE64 encoding of user data.")
    return too_long(path, size)


def too_long(path: str, size: int) -> Problem | None:
    """Return why EC2 refuses user data of `size` bytes, or None if EC2 accepts this size."""
    if size <= USER_DATA_BYTES:
        return None
    return invalid(path, f"User data is limited to {USER_DATA_BYTES} bytes, but {size} bytes are given.")


class LaunchTemplate(Named):
    """A launch template with its versions. EC2 deletes a resource even if a template still refers to the resource."""

    token, noun, prefix, arn = TEMPLATE, "Launch template", "lt", "launch-template/{id}"
    create, update, delete = "CreateLaunchTemplate", "CreateLaunchTemplateVersion", "DeleteLaunchTemplate"
    duplicate = "InvalidLaunchTemplateName.AlreadyExistsException"
    references: ClassVar[Mapping[str, str]] = {
        "networkInterfaces[].subnetId": SUBNET,
        "vpcSecurityGroupIds[]": GROUP,
    }
    holds = False

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        for path, groups in each(asked.inputs, "networkInterfaces[].securityGroups"):
            for where, group in each({"groups": groups}, "groups[]"):
                if asked.database.find(group, GROUP) is None:
                    yield self.missing(f"{path}{where.removeprefix('groups')}", str(group), GROUP)
        if asked.known("vpcSecurityGroupIds") and asked.known("networkInterfaces"):
            yield refused(
                "vpcSecurityGroupIds",
                "InvalidParameterCombination",
                "Network interfaces and an instance-level security groups may not be specified on the same request",
            )
        text = asked.known("userData")
        problem = encoded("userData", text, "InvalidUserData.Malformed") if isinstance(text, str) else None
        if problem:
            yield problem
        if asked.inputs.get("defaultVersion") is not None and asked.known("updateDefaultVersion"):
            yield invalid("defaultVersion", "defaultVersion and updateDefaultVersion are given; only one is allowed.")

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return Kind.new_id(self, urn, inputs)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        Kind.on_create(self, database, record)
        name = record.inputs.get("name") or self.made_up(record.urn, record.inputs)
        record.computed.update(name=name, latestVersion=1, defaultVersion=1)
        record.private = {"versions": [dict(record.inputs)]}

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None or {**old, "tags": 0} == {**record.inputs, "tags": 0}:
            return
        with cloud.store.change() as database:
            mine = database.records[record.id]
            mine.private["versions"].append(dict(mine.inputs))
            mine.computed["latestVersion"] = len(mine.private["versions"])
            if mine.inputs.get("updateDefaultVersion"):
                mine.computed["defaultVersion"] = mine.computed["latestVersion"]

    @override
    def names(self, record: Record) -> frozenset[str]:
        return frozenset({f"{TEMPLATE} {record.id}", f"{TEMPLATE} {record.computed['name']}"})


def version(template: Record, wanted: str) -> dict[str, Any] | None:
    """Return the data of the version `wanted` of a template, or None if there is no such version.

    `wanted` is a number, `$Latest` or `$Default`.
    """
    numbers = {"$Latest": template.computed["latestVersion"], "$Default": template.computed["defaultVersion"]}
    number = numbers.get(wanted, wanted)
    versions = template.private["versions"]
    if not str(number).isdecimal() or not 1 <= int(number) <= len(versions):
        return None
    return dict(versions[int(number) - 1])


class PlacementGroup(Named):
    """A placement group."""

    space = "placement"
    token, noun, prefix, arn = PLACEMENT, "The Placement Group", "pg", "placement-group/{id}"
    create, update, delete = "CreatePlacementGroup", "CreateTags", "DeletePlacementGroup"
    duplicate = "InvalidPlacementGroup.Duplicate"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        if asked.known("name") == account.PLACEMENT_GROUP:
            yield refused("name", self.duplicate, f"The Placement Group '{account.PLACEMENT_GROUP}' already exists.")
        count, strategy = asked.known("partitionCount"), asked.known("strategy")
        if count is not None and strategy not in {None, "partition"}:
            yield invalid("partitionCount", f"partitionCount is {count}, but strategy must be partition, not {strategy}.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed["placementGroupId"] = Kind.new_id(self, record.urn, record.inputs)

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        return refused(
            "", "InvalidPlacementGroup.InUse", f"The placement group {shown(record)} is in use and may not be deleted."
        )


class KeyPair(Named):
    """A key pair; first boot installs the public key."""

    space = "key"
    token, noun, prefix, arn = KEY, "The keypair", "key", "key-pair/{id}"
    create, update, delete = "ImportKeyPair", "CreateTags", "DeleteKeyPair"
    name_property, duplicate = "keyName", "InvalidKeyPair.Duplicate"
    holds = False

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        text = asked.known("publicKey")
        if isinstance(text, str) and (len(text.split()) < 2 or text.split()[0] not in _KEY_TYPES):  # noqa: PLR2004  type, key
            yield refused("publicKey", "InvalidKey.Format", "Key is not in valid OpenSSH public key format: RSA or ED25519.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        digest = hashlib.md5(record.inputs["publicKey"].encode(), usedforsecurity=False).hexdigest()
        record.computed.update(
            keyName=shown(record),
            keyPairId=Kind.new_id(self, record.urn, record.inputs),
            fingerprint=digest,
            keyType="rsa" if record.inputs["publicKey"].startswith("ssh-rsa") else "ed25519",
        )
