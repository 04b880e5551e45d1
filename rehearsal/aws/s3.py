"""S3 buckets, each a folder in the folder of the rehearsed world, and the buckets' access settings."""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.kinds import BUCKET, Asked, Kind, Named, shown
from rehearsal.aws.places import region_of
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.world.world import World

ACCESS_BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
OWNERSHIP = "aws:s3/bucketOwnershipControls:BucketOwnershipControls"

# S3 user guide, "General purpose bucket naming rules".
_NAME = re.compile(
    r"(?!xn--|sthree-|amzn-s3-demo-)(?!.*\.\.)(?!\d+\.\d+\.\d+\.\d+$)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?<!-s3alias)"
)
_LEGACY = (
    "acl", "corsRules", "grants", "lifecycleRules", "logging", "objectLockConfiguration", "policy", "replicationConfiguration",
    "serverSideEncryptionConfiguration", "versioning", "website",
)  # fmt: skip


def folder(world: World, bucket: str) -> Path:
    """Return the folder that contains a bucket's objects."""
    return world.path / "s3" / bucket


class Bucket(Named):
    """A bucket."""

    space = "bucket"
    token, noun, service, arn_service = BUCKET, "Bucket", "S3", "s3"
    create, update, delete = "CreateBucket", "PutBucketTagging", "DeleteBucket"
    name_property, duplicate = "bucket", "BucketAlreadyOwnedByYou"
    unplayed: ClassVar[Mapping[str, str]] = dict.fromkeys(_LEGACY, "the provider has a separate resource for it.")
    seconds = 1

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        name = asked.known("bucket")
        if name is not None and not _NAME.fullmatch(str(name)):
            yield refused("bucket", "InvalidBucketName", f"The specified bucket is not valid: {name}.")

    @override
    def made_up(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return super().made_up(urn, inputs).lower()[-63:]

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        region, name = region_of(record.inputs), shown(record)
        record.computed.update(
            arn=f"arn:aws:s3:::{name}", bucket=name, bucketDomainName=f"{name}.s3.amazonaws.com",
            bucketRegionalDomainName=f"{name}.s3.{region}.amazonaws.com", hostedZoneId="Z3AQBSTGFYJSTF",
            bucketRegion=region, forceDestroy=False, objectLockEnabled=False, requestPayer="BucketOwner", accelerationStatus="",
            acl="private", policy="", grants=[], versioning={"enabled": False, "mfaDelete": False},
        )  # fmt: skip

    @override
    def names(self, record: Record) -> frozenset[str]:
        return frozenset({f"{BUCKET} {shown(record)}", f"{BUCKET} {record.computed['arn']}"})

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            cloud.wait(self.seconds)
            folder(cloud.world, shown(record)).mkdir(parents=True, exist_ok=True)

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        place = folder(cloud.world, shown(record))
        full = place.is_dir() and any(place.iterdir())
        if full and not record.inputs.get("forceDestroy"):
            full_bucket = refused("", "BucketNotEmpty", "The bucket you tried to delete is not empty", 409)
            raise ServiceError(full_bucket, self.service, self.delete)
        shutil.rmtree(place, ignore_errors=True)
        with contextlib.suppress(OSError):
            place.parent.rmdir()  # this fails if the folder still has other buckets, and then it must stay

    @override
    def exists(self, cloud: ResourceCloud, record: Record) -> bool:
        return folder(cloud.world, shown(record)).is_dir()


class OfBucket(Kind):
    """A setting of a bucket; the setting's id is the bucket's name."""

    service = "S3"
    references: ClassVar[Mapping[str, str]] = {"bucket": BUCKET}
    holds = False

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return self.key(str(inputs["bucket"]))

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        bucket = asked.known("bucket")
        if bucket is not None and asked.neighbours(self.token, bucket=bucket):
            yield refused("bucket", "OperationAborted", f"Another resource already manages this setting of {bucket}.", 409)


class AccessBlock(OfBucket):
    """A bucket's public access block."""

    space = "access-block"
    token, noun = ACCESS_BLOCK, "public access block"
    create, update, delete = "PutPublicAccessBlock", "PutPublicAccessBlock", "DeletePublicAccessBlock"


class Ownership(OfBucket):
    """A bucket's object ownership."""

    space = "ownership"
    token, noun = OWNERSHIP, "ownership controls"
    create, update, delete = "PutBucketOwnershipControls", "PutBucketOwnershipControls", "DeleteBucketOwnershipControls"
