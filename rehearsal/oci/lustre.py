"""File Storage with Lustre: the service's refusals, and the file systems' servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.host import storage
from rehearsal.oci.core_subnet import SUBNET
from rehearsal.oci.errors import Problem
from rehearsal.oci.files import Served
from rehearsal.oci.kinds import Asked
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import known

#: The ports under "Lustre ports" on the vendor's page about network security rules for File Storage with Lustre.
PORTS = storage.Ports((988,))
LUSTRE = "oci:Lustre/fileStorageLustreFileSystem:FileStorageLustreFileSystem"

# docs.oracle.com/iaas/Content/lustre/file-system-capacity.htm: at least 31.2 TB; up to 124.8 TB in steps of 10.4 TB, above
# 124.8 TB in steps of 41.6 TB. A file system cannot shrink. oci-hpc creates multiples of 31.2 TB, even above 124.8
# TB, so a new file system of any size needs only a multiple of 10.4 TB here.
_LEAST_GB, _STEP_GB, _LARGE_GB, _LARGE_STEP_GB = 31_200, 10_400, 124_800, 41_600
# docs.oracle.com/solutions/deploy-lustre-file-systems: 43 to 60 addresses per 100 TB, depending on the performance tier.
_ADDRESSES, _FOR_GB = 60, 100_000


class Lustre(Served):
    """A Lustre file system and its servers."""

    token, noun, service, ready = LUSTRE, "lustrefilesystem", "Lustre File Storage Lustre File System", "ACTIVE"
    create, update, delete = "CreateLustreFileSystem", "UpdateLustreFileSystem", "DeleteLustreFileSystem"
    references: ClassVar[Mapping[str, str]] = {"subnetId": SUBNET}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        size, before = asked.known("capacityInGbs"), asked.database.find(asked.itself)
        if size is not None and (size < _LEAST_GB or size % _STEP_GB):
            yield Problem("capacityInGbs", f"capacityInGbs is {size}; it must be at least {_LEAST_GB}, in steps of {_STEP_GB}.")
        elif size is not None and before is not None:
            yield from _growth(int(before.inputs["capacityInGbs"]), size)
        squash = asked.inputs.get("rootSquashConfiguration")
        if isinstance(squash, Mapping) and known(squash.get("identitySquash", "NONE")) == "ROOT":
            yield Problem(
                "rootSquashConfiguration.identitySquash", "The rehearsal cannot simulate root squash.", 501, "NotRehearsed"
            )

    @override
    def addresses(self, inputs: Mapping[str, Any]) -> int:
        size = known(inputs.get("capacityInGbs"))
        return -(-size * _ADDRESSES // _FOR_GB) if isinstance(size, int) else 0

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        address = self.settle(database, record)[0]
        record.computed.update(
            managementServiceAddress=address,
            lnet="tcp",
            majorVersion="2.15",
            lifecycleDetails="",
            fileSystemDescription="",
            timeBillingCycleEnd="",
            timeUpdated=record.computed["timeCreated"],
        )

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        database = cloud.store.read()
        storage.start(
            cloud.world, id=record.id, kind="lustre", ports=PORTS, vcn_id=database.records[record.private["vcn"]].short,
            subnet_cidr=record.private["cidr"], address=record.computed["managementServiceAddress"], names=(),
            export=f"/{record.inputs['fileSystemName']}",
        )  # fmt: skip

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        storage.stop(cloud.world, record.id)


def _growth(before: int, after: int) -> Iterator[Problem]:
    if after < before:
        yield Problem("capacityInGbs", f"capacityInGbs is {before} and cannot become {after}: a file system cannot shrink.")
    if after > max(before, _LARGE_GB) and (after - max(before, _LARGE_GB)) % _LARGE_STEP_GB:
        large = f"above {_LARGE_GB} it grows only in steps of {_LARGE_STEP_GB}"
        yield Problem("capacityInGbs", f"capacityInGbs is {before} and cannot become {after}: {large}.")
