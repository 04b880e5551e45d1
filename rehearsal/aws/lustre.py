"""FSx for Lustre file systems, and their data repository associations with S3.

When FSx creates a Lustre file system, FSx checks the security groups' rules (aws-parallelcluster issue 6181).
"""

from __future__ import annotations

import secrets
import shutil
import string
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.fsx import FileSystem, bad
from rehearsal.aws.groups import Allowed, allowed
from rehearsal.aws.kinds import BUCKET, GROUP, LUSTRE, SUBNET, Asked, Kind, by_name
from rehearsal.aws.s3 import folder as bucket_folder
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import Unknown

ASSOCIATION = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
_MOST_ASSOCIATIONS = 8

# FSx API, CreateFileSystemLustreConfiguration: throughput in MB/s per TiB by deployment and storage type.
_THROUGHPUT = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200),
    ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}
#: Throughput in MB/s per TiB -> number of GiB of which the capacity is a multiple (FSx API, CreateFileSystem, StorageCapacity).
_HDD_STEPS = {12: 6000, 40: 1800}
_EFA_STEPS = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
#: FSx for Lustre user guide, "File system access control with Amazon VPC".
_PORTS = ((988, 988), (1018, 1023))


class Lustre(FileSystem):
    """FSx for Lustre."""

    token, noun, server, word = LUSTRE, "Lustre file system", "lustre", "Lustre"
    references: ClassVar[Mapping[str, str]] = {"subnetIds": SUBNET, "securityGroupIds[]": GROUP}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        if any(isinstance(asked.inputs.get(name), Unknown) for name in ("deploymentType", "storageType")):
            return
        deployment, storage = asked.known("deploymentType") or "SCRATCH_1", asked.known("storageType") or "SSD"
        size, rate = asked.known("storageCapacity"), asked.known("perUnitStorageThroughput")
        yield from _lustre_size(deployment, storage, size, rate)
        allowed_rates = _THROUGHPUT.get((deployment, storage), ())
        if deployment.startswith("PERSISTENT") and asked.inputs.get("perUnitStorageThroughput") is None:
            yield bad("perUnitStorageThroughput", f"perUnitStorageThroughput is missing, but {deployment} needs it.")
        elif rate is not None and rate not in allowed_rates:
            shown = ", ".join(map(str, allowed_rates)) or "none"
            yield bad(
                "perUnitStorageThroughput", f"perUnitStorageThroughput {rate} is not one of {shown} for {deployment} {storage}."
            )
        if asked.known("efaEnabled"):
            yield from _lustre_efa(asked, deployment, size, rate)
        days = asked.known("automaticBackupRetentionDays")
        if days and deployment.startswith("SCRATCH"):
            yield bad("automaticBackupRetentionDays", f"Backups are kept {days} days, but {deployment} has no backups.")
        if asked.known("metadataConfiguration") is not None and deployment != "PERSISTENT_2":
            yield bad("metadataConfiguration", f"metadataConfiguration is given, but {deployment} does not support it.")
        if deployment == "PERSISTENT_2" and (asked.known("importPath") or asked.known("exportPath")):
            yield bad(
                "importPath", "importPath or exportPath is given, but PERSISTENT_2 uses data repository associations instead."
            )

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            mountName="".join(secrets.choice(string.ascii_lowercase) for _ in range(8)), deploymentType="SCRATCH_1",
            storageType="SSD", fileSystemTypeVersion="2.12", dataCompressionType="NONE", efaEnabled=False, exportPath="",
            autoImportPolicy="NONE", driveCacheType="", importedFileChunkSize=0, throughputCapacity=0,
        )  # fmt: skip

    @override
    def export(self, record: Record) -> str:
        return f"/{record.computed['mountName']}"

    @override
    def shut(self, database: Database, record: Record) -> str:
        rules = [rule for group in record.private["groups"] for rule in allowed(database, database.records[group])]
        groups = set(record.private["groups"])
        words = "The file system cannot be created because the default security group in the subnet provided or the provided "
        for ports in _PORTS:
            for direction in ("ingress", "egress"):
                if not any(_lets(rule, direction, ports, groups, record.private["cidr"]) for rule in rules):
                    shown = "-".join(map(str, dict.fromkeys(ports)))
                    return f"{words}security groups do not permit Lustre LNET network traffic on port {shown} ({direction})."
        if record.inputs.get("efaEnabled"):
            for direction in ("ingress", "egress"):
                if not any(rule.direction == direction and rule.everything and rule.group in groups for rule in rules):
                    return f"{words}security groups do not permit all traffic to and from themselves by id, which EFA needs."
        return ""


def _lets(rule: Allowed, direction: str, ports: tuple[int, int], groups: set[str], cidr: str) -> bool:
    """Return whether a rule allows traffic between a file system's own servers on all TCP ports of the range `ports`."""
    if rule.direction != direction or rule.protocol not in {"-1", "6"}:
        return False
    if rule.ports is not None and not (rule.ports[0] <= ports[0] and ports[1] <= rule.ports[1]):
        return False
    return rule.group in groups if rule.group else ip_network(cidr).subnet_of(ip_network(rule.cidr))  # type: ignore[arg-type]


def _lustre_size(deployment: str, storage: str, size: int | None, rate: int | None) -> Iterator[Problem]:
    if size is None:
        return
    step = 3600 if deployment == "SCRATCH_1" else _HDD_STEPS.get(rate or 0, 6000) if storage == "HDD" else 2400
    smaller = () if storage == "HDD" else (1200, 2400) if deployment == "SCRATCH_1" else (1200,)
    if size not in smaller and (size <= 0 or size % step):
        sizes = [*map(str, smaller), f"a multiple of {step} GiB"]
        yield bad("storageCapacity", f"Invalid StorageCapacity {size} GiB: it must be {', or '.join(sizes)}.")


def _lustre_efa(asked: Asked, deployment: str, size: int | None, rate: int | None) -> Iterator[Problem]:
    if deployment != "PERSISTENT_2" or asked.inputs.get("metadataConfiguration") is None:
        yield bad("efaEnabled", "EFA is supported only by PERSISTENT_2 file systems with a metadata configuration.")
    step = _EFA_STEPS.get(rate or 0)
    if step and size is not None and size % step:
        yield bad(
            "storageCapacity", f"With EFA and {rate} MB/s per TiB, StorageCapacity is a multiple of {step} GiB, not {size}."
        )


class Association(Kind):
    """A data repository association: a folder that mirrors an S3 prefix. The creation can import the files of the prefix."""

    token, noun, service, arn, arn_service = ASSOCIATION, "data repository association", "FSx", "association/{id}", "fsx"
    create, update, delete = (f"{verb}DataRepositoryAssociation" for verb in ("Create", "Update", "Delete"))
    prefix, ready, seconds = "dra", "AVAILABLE", 120
    references: ClassVar[Mapping[str, str]] = {"fileSystemId": LUSTRE}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        system, place = asked.database.find(asked.known("fileSystemId"), LUSTRE), asked.known("dataRepositoryPath")
        if system is not None and str(system.inputs.get("deploymentType", "SCRATCH_1")) in {"SCRATCH_1", "PERSISTENT_1"}:
            yield bad("fileSystemId", f"{system.id} is {system.inputs.get('deploymentType')} and supports no associations.")
        others = asked.neighbours(ASSOCIATION, fileSystemId=system.id) if system else []
        if system is not None and len(others) >= _MOST_ASSOCIATIONS:
            yield refused("fileSystemId", "ServiceLimitExceeded", f"{system.id} has {_MOST_ASSOCIATIONS} associations already.")
        path = asked.known("fileSystemPath")
        for other in others:
            theirs = str(other.inputs["fileSystemPath"]).strip("/")
            if path is not None and _overlap(str(path).strip("/"), theirs):
                yield bad("fileSystemPath", f"{path} and {other.inputs['fileSystemPath']} of {other.id} overlap.")
        if isinstance(place, str):
            bucket = place.removeprefix("s3://").partition("/")[0]
            if not place.startswith("s3://") or not bucket:
                yield bad("dataRepositoryPath", f"dataRepositoryPath is {place}; it must be s3://bucket or s3://bucket/prefix.")
            elif asked.urn is None and by_name(asked.database, BUCKET, bucket) is None:
                yield bad("dataRepositoryPath", f"The bucket {bucket} does not exist, or FSx may not read it.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            associationId=record.id, batchImportMetaDataOnCreate=False, deleteDataInFilesystem=False, importedFileChunkSize=1024
        )

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is not None:
            return
        cloud.wait(self.seconds)
        there = self._folder(cloud, record)
        there.mkdir(parents=True, exist_ok=True)
        there.chmod(0o777)  # so that every user can write to the folder
        bucket, _, prefix = record.inputs["dataRepositoryPath"].removeprefix("s3://").partition("/")
        source = bucket_folder(cloud.world, bucket) / prefix
        if record.inputs.get("batchImportMetaDataOnCreate") and source.is_dir():
            shutil.copytree(source, there, dirs_exist_ok=True)

    def _folder(self, cloud: ResourceCloud, record: Record) -> Path:
        system = cloud.store.read().records[record.inputs["fileSystemId"]]
        folder: Path = cloud.world.path / "storage" / system.id / "data"
        path: str = record.inputs["fileSystemPath"].strip("/")
        return folder / path

    @override
    def needs(self, record: Record) -> Iterator[str]:
        yield from super().needs(record)
        yield f"{BUCKET} {record.inputs['dataRepositoryPath'].removeprefix('s3://').partition('/')[0]}"


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
