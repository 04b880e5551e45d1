"""FSx file systems and what they mirror: sizes, groups and ports as the service wants them; servers of the world behind.

FSx looks at the security groups' rules when it makes a Lustre file system (aws-parallelcluster issue 6181); of OpenZFS it does
not, so that a missing rule shows as mounts that never come.
"""

from __future__ import annotations

import secrets
import shutil
import string
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Any, ClassVar

from rehearsal.aws import addresses
from rehearsal.aws.cloud_types import Cloud
from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.groups import Allowed, allowed
from rehearsal.aws.kinds import BUCKET, GROUP, LUSTRE, OPENZFS, SUBNET, TABLE, Asked, Kind, by_name
from rehearsal.aws.places import region_of
from rehearsal.aws.s3 import folder as bucket_folder
from rehearsal.plugin import kinds
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each

ASSOCIATION = "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation"
_MOST_ASSOCIATIONS = 8
_HEX = "0123456789abcdef"

# FSx API, CreateFileSystemLustreConfiguration: throughput in MB/s per TiB by deployment and storage type.
_THROUGHPUT = {
    ("PERSISTENT_1", "SSD"): (50, 100, 200), ("PERSISTENT_1", "HDD"): (12, 40),
    ("PERSISTENT_2", "SSD"): (125, 250, 500, 1000),
}  # fmt: skip
_EFA_STEPS = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
_PORTS = ((988, 988), (1018, 1023))
"""FSx for Lustre user guide, "File system access control with Amazon VPC"."""

# FSx API, OpenZFSConfiguration: throughput in MB/s by deployment type; storage from 64 to 524,288 GiB.
_FIRST = (64, 128, 256, 512, 1024, 2048, 3072, 4096)
_SECOND = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)
_ZFS = {
    "SINGLE_AZ_1": _FIRST,
    "SINGLE_AZ_HA_1": _FIRST,
    "SINGLE_AZ_2": _SECOND,
    "SINGLE_AZ_HA_2": _SECOND,
    "MULTI_AZ_1": _SECOND,
}
_ZFS_GIB = (64, 524_288)

# FSx for OpenZFS user guide, "Availability by AWS Region" (read in awsome-distributed-ai issue 1097): large regions lack the
# first highly available type, small ones the second.
_WITHOUT_HA_1 = frozenset(
    ["us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-west-1", "ap-northeast-1", "ap-southeast-1", "ap-southeast-2", "ap-south-1", "ca-central-1"]
)
_WITHOUT_HA_2 = frozenset(["ap-northeast-3", "eu-west-2", "eu-west-3", "sa-east-1", "ap-southeast-3"])


class FileSystem(Kind):
    """A file system in a subnet, reached through a group's ports."""

    service, prefix, arn, arn_service = "FSx", "fs", "file-system/{id}", "fsx"
    create, update, delete = "CreateFileSystem", "UpdateFileSystem", "DeleteFileSystem"
    ready = "AVAILABLE"
    seconds = 600
    server = ""
    word = ""

    def problems(self, asked: Asked) -> Iterator[Problem]:  # noqa: D102
        yield from super().problems(asked)
        if asked.inputs.get("backupId") is not None:
            yield refused("backupId", "NotPlayed", "The rehearsal makes empty file systems alone.", 501)
        subnets = [asked.database.find(one, SUBNET) for _, one in self._subnets(asked.inputs)]
        vpcs = {one.inputs["vpcId"] for one in subnets if one}
        if len(vpcs) > 1:
            yield refused("subnetIds", "InvalidNetworkSettings", "The subnets are of different VPCs.")
        for path, named in each(asked.inputs, "securityGroupIds[]"):
            group = asked.database.find(named, GROUP)
            if group and vpcs and group.inputs["vpcId"] not in vpcs:
                yield refused(path, "InvalidNetworkSettings", f"The security group {named} is of another VPC than the subnet.")
        for one in subnets:
            if one and asked.itself is None and not addresses.room(asked.database, one):
                yield refused("subnetIds", "InvalidNetworkSettings", f"Subnet {one.id} has no free address.")

    def _subnets(self, inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        return each(inputs, "subnetIds") if isinstance(inputs.get("subnetIds"), str) else each(inputs, "subnetIds[]")

    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:  # noqa: ARG002, D102
        return f"fs-0{''.join(secrets.choice(_HEX) for _ in range(16))}"

    def born(self, database: Database, record: Record) -> None:  # noqa: D102
        super().born(database, record)
        preferred = record.inputs.get("preferredSubnetId") or self._subnets(record.inputs)[0][1]
        subnet = database.records[preferred]
        vpc = database.records[subnet.inputs["vpcId"]]
        groups = record.inputs.get("securityGroupIds") or [vpc.computed["defaultSecurityGroupId"]]
        found = addresses.free(database, subnet) or [""]
        record.private = {
            "addresses": found, "vpc": vpc.id, "subnet": subnet.id, "cidr": subnet.inputs["cidrBlock"], "groups": list(groups),
        }  # fmt: skip
        region = region_of(record.inputs)
        record.computed.update(
            dnsName=f"{record.id}.fsx.{region}.amazonaws.com", vpcId=vpc.id, networkInterfaceIds=[f"eni-{record.id[3:]}"],
            kmsKeyId=f"arn:aws:kms:{region}:{record.computed['ownerId']}:key/aws-fsx", automaticBackupRetentionDays=0,
            weeklyMaintenanceStartTime="1:00:00", securityGroupIds=list(groups), copyTagsToBackups=False,
            dailyAutomaticBackupStartTime="", skipFinalBackup=False,
        )  # fmt: skip

    def effect(self, cloud: Cloud, record: Record, old: Mapping[str, Any] | None) -> None:  # noqa: D102
        if old is None:
            cloud.wait(self.seconds)
            shut = self.shut(cloud.store.read(), record)
            if shut:
                raise cloud.failed(
                    record,
                    f"waiting for FSx for {self.word} File System ({record.id}) create: unexpected state 'FAILED', wanted target "
                    f"'AVAILABLE'. last error: {shut}",
                )
        elif record.private.get("failed"):
            raise cloud.failed(record, f"{record.id} is FAILED and stays so: {record.private['failed']} Delete it.")
        cloud.render(record.private["vpc"])
        self._serve(cloud, record)

    def _serve(self, cloud: Cloud, record: Record) -> None:
        from rehearsal import storage  # noqa: PLC0415  a server's code that most of a cloud's life needs none of

        database = cloud.store.read()
        storage.start(
            cloud.world, id=record.id, kind=self.server, vcn_id=database.records[record.private["vpc"]].short,
            subnet_cidr=record.private["cidr"], address=record.private["addresses"][0], names=(record.computed["dnsName"],),
            export=self.export(record),
        )  # fmt: skip

    def shut(self, database: Database, record: Record) -> str:  # noqa: ARG002
        """What the service says of rules that shut it out of its own network; empty where they do not."""
        return ""

    def export(self, record: Record) -> str:
        """What its clients name when they mount it."""
        raise NotImplementedError

    def gone(self, cloud: Cloud, record: Record) -> None:  # noqa: D102
        from rehearsal import storage  # noqa: PLC0415

        storage.stop(cloud.world, record.id)
        if record.private.get("vpc"):
            cloud.render(record.private["vpc"])

    def needs(self, record: Record) -> Iterator[str]:  # noqa: D102
        yield from super().needs(record)
        yield from (f"{GROUP} {one}" for one in record.private.get("groups", ()))

    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:  # noqa: ARG002, D102
        return refused("", "BadRequest", f"File system {record.id} has a data repository association, {holder.id}.")


class Lustre(FileSystem):
    """FSx for Lustre."""

    token, noun, server, word = LUSTRE, "Lustre file system", "lustre", "Lustre"
    references: ClassVar[Mapping[str, str]] = {"subnetIds": SUBNET, "securityGroupIds[]": GROUP}

    def problems(self, asked: Asked) -> Iterator[Problem]:  # noqa: D102
        yield from super().problems(asked)
        deployment, storage = asked.known("deploymentType") or "SCRATCH_1", asked.known("storageType") or "SSD"
        size, rate = asked.known("storageCapacity"), asked.known("perUnitStorageThroughput")
        yield from _lustre_size(deployment, storage, size)
        allowed_rates = _THROUGHPUT.get((deployment, storage), ())
        if deployment.startswith("PERSISTENT") and asked.inputs.get("perUnitStorageThroughput") is None:
            yield _bad("perUnitStorageThroughput", f"perUnitStorageThroughput is missing, and {deployment} needs it.")
        elif rate is not None and rate not in allowed_rates:
            shown = ", ".join(map(str, allowed_rates)) or "none"
            yield _bad(
                "perUnitStorageThroughput", f"perUnitStorageThroughput {rate} is not one of {shown} of {deployment} {storage}."
            )
        if asked.known("efaEnabled"):
            yield from _lustre_efa(asked, deployment, size, rate)
        days = asked.known("automaticBackupRetentionDays")
        if days and deployment.startswith("SCRATCH"):
            yield _bad("automaticBackupRetentionDays", f"Backups are kept {days} days, and {deployment} has none.")
        if asked.known("metadataConfiguration") is not None and deployment != "PERSISTENT_2":
            yield _bad("metadataConfiguration", f"metadataConfiguration is given, and {deployment} takes none.")
        if deployment == "PERSISTENT_2" and (asked.known("importPath") or asked.known("exportPath")):
            yield _bad(
                "importPath", "importPath and exportPath are given; PERSISTENT_2 mirrors by data repository associations."
            )

    def born(self, database: Database, record: Record) -> None:  # noqa: D102
        super().born(database, record)
        record.computed.update(
            mountName="".join(secrets.choice(string.ascii_lowercase) for _ in range(8)), deploymentType="SCRATCH_1",
            storageType="SSD", fileSystemTypeVersion="2.12", dataCompressionType="NONE", efaEnabled=False, exportPath="",
            autoImportPolicy="NONE", driveCacheType="", importedFileChunkSize=0, throughputCapacity=0,
        )  # fmt: skip

    def export(self, record: Record) -> str:  # noqa: D102
        return f"/{record.computed['mountName']}"

    def shut(self, database: Database, record: Record) -> str:  # noqa: D102
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
                    return f"{words}security groups do not permit all traffic to and from themselves by id, as EFA needs it."
        return ""


def _lets(rule: Allowed, direction: str, ports: tuple[int, int], groups: set[str], cidr: str) -> bool:
    """Whether a rule lets a file system's own servers talk on some TCP ports."""
    if rule.direction != direction or rule.protocol not in {"-1", "6"}:
        return False
    if rule.ports is not None and not (rule.ports[0] <= ports[0] and ports[1] <= rule.ports[1]):
        return False
    return rule.group in groups if rule.group else ip_network(cidr).subnet_of(ip_network(rule.cidr))  # type: ignore[arg-type]


def _bad(path: str, message: str) -> Problem:
    return refused(path, "BadRequest", message)


def _lustre_size(deployment: str, storage: str, size: int | None) -> Iterator[Problem]:
    if size is None:
        return
    steps = {"SCRATCH_1": 3600, "HDD12": 6000, "HDD40": 1800}.get(deployment, 2400)
    fits = size == 1200 or size % steps == 0 or (deployment == "SCRATCH_1" and size == 2400)  # noqa: PLR2004  GiB
    if storage == "HDD":
        fits = size % 6000 == 0 or size % 1800 == 0
    if not fits or size < 1200:  # noqa: PLR2004  GiB
        yield _bad("storageCapacity", f"Invalid StorageCapacity {size} GiB: it must be 1200, or a multiple of {steps} GiB.")


def _lustre_efa(asked: Asked, deployment: str, size: int | None, rate: int | None) -> Iterator[Problem]:
    if deployment != "PERSISTENT_2" or asked.inputs.get("metadataConfiguration") is None:
        yield _bad("efaEnabled", "EFA is supported by PERSISTENT_2 file systems with a metadata configuration alone.")
    step = _EFA_STEPS.get(rate or 0)
    if step and size is not None and size % step:
        yield _bad(
            "storageCapacity", f"With EFA and {rate} MB/s per TiB, StorageCapacity is a multiple of {step} GiB, not {size}."
        )


class OpenZfs(FileSystem):
    """FSx for OpenZFS."""

    token, noun, server, word = OPENZFS, "OpenZFS file system", "nfs", "OpenZFS"
    references: ClassVar[Mapping[str, str]] = {
        "subnetIds[]": SUBNET, "securityGroupIds[]": GROUP, "preferredSubnetId": SUBNET, "routeTableIds[]": TABLE,
    }  # fmt: skip

    def problems(self, asked: Asked) -> Iterator[Problem]:  # noqa: D102
        yield from super().problems(asked)
        deployment, region = asked.known("deploymentType"), region_of(asked.inputs)
        size, rate = asked.known("storageCapacity"), asked.known("throughputCapacity")
        if size is not None and not _ZFS_GIB[0] <= size <= _ZFS_GIB[1]:
            yield _bad("storageCapacity", f"Invalid StorageCapacity {size} GiB: it must be {_ZFS_GIB[0]} to {_ZFS_GIB[1]}.")
        if deployment not in _ZFS:
            return
        if region in {"SINGLE_AZ_HA_1": _WITHOUT_HA_1, "SINGLE_AZ_HA_2": _WITHOUT_HA_2}.get(deployment, frozenset()):
            yield _bad("deploymentType", f"The deployment type {deployment} is not supported in {region}.")
        if rate is not None and rate not in _ZFS[deployment]:
            yield _bad(
                "throughputCapacity",
                f"Invalid throughput {rate} for {deployment}: one of {', '.join(map(str, _ZFS[deployment]))}.",
            )
        yield from self._zones(asked, deployment)

    def _zones(self, asked: Asked, deployment: str) -> Iterator[Problem]:
        subnets = asked.known("subnetIds")
        wanted = 2 if deployment == "MULTI_AZ_1" else 1
        if isinstance(subnets, list) and len(subnets) != wanted:
            yield _bad("subnetIds", f"{deployment} stands in {wanted} subnets, and {len(subnets)} are given.")
        if wanted == 1 and asked.inputs.get("preferredSubnetId") is not None:
            yield _bad("preferredSubnetId", f"preferredSubnetId is given, and {deployment} stands in one subnet.")
        if wanted == 2 and asked.inputs.get("preferredSubnetId") is None:  # noqa: PLR2004  zones
            yield _bad("preferredSubnetId", "preferredSubnetId is missing, and MULTI_AZ_1 needs it.")
        found = [one for _, named in each(asked.inputs, "subnetIds[]") if (one := asked.database.find(named, SUBNET))]
        if len(found) == 2 and found[0].private["zone"] == found[1].private["zone"]:  # noqa: PLR2004  zones
            yield _bad("subnetIds", f"MULTI_AZ_1 stands in two zones, and both subnets are in {found[0].private['zone']}.")

    def born(self, database: Database, record: Record) -> None:  # noqa: D102
        super().born(database, record)
        record.computed.update(
            rootVolumeId=f"fsvol-0{''.join(secrets.choice(_HEX) for _ in range(16))}", storageType="SSD",
            endpointIpAddress=record.private["addresses"][0], endpointIpAddressRange="", copyTagsToVolumes=False,
        )  # fmt: skip

    def export(self, record: Record) -> str:  # noqa: ARG002, D102
        return "/fsx"


class Association(Kind):
    """A folder of a Lustre file system that mirrors a place in S3; here what lies there is brought in when it is made."""

    token, noun, service, arn, arn_service = ASSOCIATION, "data repository association", "FSx", "association/{id}", "fsx"
    create, update, delete = (f"{verb}DataRepositoryAssociation" for verb in ("Create", "Update", "Delete"))
    prefix, ready, seconds = "dra", "AVAILABLE", 120
    references: ClassVar[Mapping[str, str]] = {"fileSystemId": LUSTRE}

    def problems(self, asked: Asked) -> Iterator[Problem]:  # noqa: D102
        yield from super().problems(asked)
        system, place = asked.database.find(asked.known("fileSystemId"), LUSTRE), asked.known("dataRepositoryPath")
        if system is not None and str(system.inputs.get("deploymentType", "SCRATCH_1")) in {"SCRATCH_1", "PERSISTENT_1"}:
            yield _bad("fileSystemId", f"{system.id} is {system.inputs.get('deploymentType')} and takes no associations.")
        others = asked.neighbours(ASSOCIATION, fileSystemId=system.id) if system else []
        if len(others) >= _MOST_ASSOCIATIONS:
            yield refused("fileSystemId", "ServiceLimitExceeded", f"{system} has {_MOST_ASSOCIATIONS} associations already.")
        path = asked.known("fileSystemPath")
        for other in others:
            theirs = str(other.inputs["fileSystemPath"]).strip("/")
            if path is not None and _overlap(str(path).strip("/"), theirs):
                yield _bad("fileSystemPath", f"{path} and {other.inputs['fileSystemPath']} of {other.id} overlap.")
        if isinstance(place, str):
            bucket = place.removeprefix("s3://").partition("/")[0]
            if not place.startswith("s3://") or not bucket:
                yield _bad(
                    "dataRepositoryPath", f"dataRepositoryPath is {place}; it must be s3://bucket or s3://bucket/prefix."
                )
            elif asked.urn is None and by_name(asked.database, BUCKET, bucket) is None:
                yield _bad("dataRepositoryPath", f"The bucket {bucket} does not exist, or FSx may not read it.")

    def born(self, database: Database, record: Record) -> None:  # noqa: D102
        super().born(database, record)
        record.computed.update(
            associationId=record.id, batchImportMetaDataOnCreate=False, deleteDataInFilesystem=False, importedFileChunkSize=1024
        )

    def effect(self, cloud: Cloud, record: Record, old: Mapping[str, Any] | None) -> None:  # noqa: D102
        if old is not None:
            return
        cloud.wait(self.seconds)
        there = self._folder(cloud, record)
        there.mkdir(parents=True, exist_ok=True)
        there.chmod(0o777)  # as the root of a new Lustre file system
        bucket, _, prefix = record.inputs["dataRepositoryPath"].removeprefix("s3://").partition("/")
        source = bucket_folder(cloud.world, bucket) / prefix
        if record.inputs.get("batchImportMetaDataOnCreate") and source.is_dir():
            shutil.copytree(source, there, dirs_exist_ok=True)

    def _folder(self, cloud: Cloud, record: Record) -> Any:
        system = cloud.store.read().records[record.inputs["fileSystemId"]]
        return cloud.world.path / "storage" / system.id / "data" / record.inputs["fileSystemPath"].strip("/")

    def needs(self, record: Record) -> Iterator[str]:  # noqa: D102
        yield from super().needs(record)
        yield f"{BUCKET} {record.inputs['dataRepositoryPath'].removeprefix('s3://').partition('/')[0]}"


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
