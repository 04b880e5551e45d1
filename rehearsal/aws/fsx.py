"""FSx file systems: FSx's refusals, and the servers of the file systems.

When FSx creates a Lustre file system, FSx checks the security groups' rules (aws-parallelcluster issue 6181). For an OpenZFS
file system, FSx does not check the rules, and mounts hang if a rule is missing.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import addresses
from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.kinds import GROUP, OPENZFS, SUBNET, TABLE, Asked, Kind
from rehearsal.aws.places import region_of
from rehearsal.host import storage
from rehearsal.plugin import kinds
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each

#: Ports by kind of file system: FSx for Lustre and FSx for OpenZFS user guides, "access control with Amazon VPC".
PORTS = {
    "lustre": storage.Ports((988, *range(1018, 1024))),
    "nfs": storage.Ports((111, 2049, 20001, 20002, 20003), (111, 2049, 20001, 20002, 20003)),
}
_HEX = "0123456789abcdef"

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

# FSx for OpenZFS user guide, "Availability by AWS Region" (as quoted in awsome-distributed-ai issue 1097): large regions lack
# SINGLE_AZ_HA_1, and small regions lack SINGLE_AZ_HA_2.
_WITHOUT_HA_1 = frozenset({
    "us-east-1", "us-east-2", "us-west-2", "eu-central-1", "eu-west-1", "ap-northeast-1", "ap-southeast-1", "ap-southeast-2",
    "ap-south-1", "ca-central-1",
})  # fmt: skip
_WITHOUT_HA_2 = frozenset(["ap-northeast-3", "eu-west-2", "eu-west-3", "sa-east-1", "ap-southeast-3"])


def bad(path: str, message: str) -> Problem:
    """Return FSx's refusal of an invalid value."""
    return refused(path, "BadRequest", message)


class FileSystem(Kind):
    """A file system in a subnet; the file system's security groups decide which hosts reach the file system."""

    service, prefix, arn, arn_service = "FSx", "fs", "file-system/{id}", "fsx"
    create, update, delete = "CreateFileSystem", "UpdateFileSystem", "DeleteFileSystem"
    ready = "AVAILABLE"
    seconds = 600
    server = ""
    word = ""

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        if asked.inputs.get("backupId") is not None:
            yield refused("backupId", "NotRehearsed", "The rehearsal creates only empty file systems.", 501)
        subnets = [asked.database.find(one, SUBNET) for _, one in self._subnets(asked.inputs)]
        vpcs = {one.inputs["vpcId"] for one in subnets if one}
        if len(vpcs) > 1:
            yield refused("subnetIds", "InvalidNetworkSettings", "The subnets belong to different VPCs.")
        for path, named in each(asked.inputs, "securityGroupIds[]"):
            group = asked.database.find(named, GROUP)
            if group and vpcs and group.inputs["vpcId"] not in vpcs:
                yield refused(path, "InvalidNetworkSettings", f"Security group {named} belongs to another VPC than the subnet.")
        for one in subnets:
            if one and asked.itself is None and not addresses.room(asked.database, one):
                yield refused("subnetIds", "InvalidNetworkSettings", f"Subnet {one.id} has no free address.")

    def _subnets(self, inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        return each(inputs, "subnetIds") if isinstance(inputs.get("subnetIds"), str) else each(inputs, "subnetIds[]")

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return f"fs-0{''.join(secrets.choice(_HEX) for _ in range(16))}"

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        preferred = record.inputs.get("preferredSubnetId") or self._subnets(record.inputs)[0][1]
        subnet = database.records[preferred]
        vpc = database.records[subnet.inputs["vpcId"]]
        groups = record.inputs.get("securityGroupIds") or [vpc.computed["defaultSecurityGroupId"]]
        found = addresses.free(database, subnet) or [""]
        record.private = {
            "addresses": found,
            "vpc": vpc.id,
            "subnet": subnet.id,
            "cidr": subnet.inputs["cidrBlock"],
            "groups": list(groups),
        }
        region = region_of(record.inputs)
        record.computed.update(
            dnsName=f"{record.id}.fsx.{region}.amazonaws.com", vpcId=vpc.id, networkInterfaceIds=[f"eni-{record.id[3:]}"],
            kmsKeyId=f"arn:aws:kms:{region}:{record.computed['ownerId']}:key/aws-fsx", automaticBackupRetentionDays=0,
            weeklyMaintenanceStartTime="1:00:00", securityGroupIds=list(groups), copyTagsToBackups=False,
            dailyAutomaticBackupStartTime="", skipFinalBackup=False,
        )  # fmt: skip

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            cloud.wait(self.seconds)
            shut = self.shut(cloud.store.read(), record)
            if shut:
                raise cloud.failed(
                    record,
                    f"waiting for FSx for {self.word} File System ({record.id}) create: unexpected state 'FAILED', wanted "
                    f"target 'AVAILABLE'. last error: {shut}",
                )
        elif record.private.get("failed"):
            raise cloud.failed(record, f"{record.id} is FAILED and stays so: {record.private['failed']} Delete it.")
        cloud.render(record.private["vpc"])
        self._serve(cloud, record)

    def _serve(self, cloud: ResourceCloud, record: Record) -> None:
        database = cloud.store.read()
        storage.start(
            cloud.world, id=record.id, kind=self.server, vcn_id=database.records[record.private["vpc"]].short,
            subnet_cidr=record.private["cidr"], address=record.private["addresses"][0], names=(record.computed["dnsName"],),
            export=self.export(record), ports=PORTS[self.server],
        )  # fmt: skip

    def shut(self, database: Database, record: Record) -> str:  # noqa: ARG002
        """Return FSx's error if the security groups' rules block the file system's own traffic, else ""."""
        return ""

    @abstractmethod
    def export(self, record: Record) -> str:
        """Return the export name that clients mount."""

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        storage.stop(cloud.world, record.id)
        if record.private.get("vpc"):
            cloud.render(record.private["vpc"])

    @override
    def needs(self, record: Record) -> Iterator[str]:
        yield from super().needs(record)
        yield from (f"{GROUP} {one}" for one in record.private.get("groups", ()))

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        return refused("", "BadRequest", f"File system {record.id} has a data repository association, {holder.id}.")


class OpenZfs(FileSystem):
    """FSx for OpenZFS."""

    token, noun, server, word = OPENZFS, "OpenZFS file system", "nfs", "OpenZFS"
    references: ClassVar[Mapping[str, str]] = {
        "subnetIds[]": SUBNET,
        "securityGroupIds[]": GROUP,
        "preferredSubnetId": SUBNET,
        "routeTableIds[]": TABLE,
    }

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        deployment, region = asked.known("deploymentType"), region_of(asked.inputs)
        size, rate = asked.known("storageCapacity"), asked.known("throughputCapacity")
        if size is not None and not _ZFS_GIB[0] <= size <= _ZFS_GIB[1]:
            yield bad("storageCapacity", f"Invalid StorageCapacity {size} GiB: it must be {_ZFS_GIB[0]} to {_ZFS_GIB[1]}.")
        if deployment not in _ZFS:
            return
        if region in {"SINGLE_AZ_HA_1": _WITHOUT_HA_1, "SINGLE_AZ_HA_2": _WITHOUT_HA_2}.get(deployment, frozenset()):
            yield bad("deploymentType", f"The deployment type {deployment} is not supported in {region}.")
        if rate is not None and rate not in _ZFS[deployment]:
            yield bad(
                "throughputCapacity",
                f"Invalid throughput {rate} for {deployment}: it must be one of {', '.join(map(str, _ZFS[deployment]))}.",
            )
        yield from self._zones(asked, deployment)

    def _zones(self, asked: Asked, deployment: str) -> Iterator[Problem]:
        subnets = asked.known("subnetIds")
        wanted = 2 if deployment == "MULTI_AZ_1" else 1
        if isinstance(subnets, list) and len(subnets) != wanted:
            yield bad("subnetIds", f"{deployment} needs {wanted} subnets, but {len(subnets)} are given.")
        if wanted == 1 and asked.inputs.get("preferredSubnetId") is not None:
            yield bad("preferredSubnetId", f"preferredSubnetId is given, but {deployment} has only one subnet.")
        if wanted == 2 and asked.inputs.get("preferredSubnetId") is None:  # noqa: PLR2004  zones
            yield bad("preferredSubnetId", "preferredSubnetId is missing, but MULTI_AZ_1 needs it.")
        found = [one for _, named in each(asked.inputs, "subnetIds[]") if (one := asked.database.find(named, SUBNET))]
        if wanted == 2 and len(found) == 2 and found[0].private["zone"] == found[1].private["zone"]:  # noqa: PLR2004  zones
            yield bad("subnetIds", f"MULTI_AZ_1 needs two zones, but both subnets are in {found[0].private['zone']}.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            rootVolumeId=f"fsvol-0{''.join(secrets.choice(_HEX) for _ in range(16))}",
            storageType="SSD",
            endpointIpAddress=record.private["addresses"][0],
            endpointIpAddressRange="",
            copyTagsToVolumes=False,
        )

    @override
    def export(self, record: Record) -> str:
        return "/fsx/"  # the path of the root volume, which clients mount
