"""File Storage: file systems, mount targets with addresses, and the exports that connect file systems to mount targets.

A file system has a server as long as an export connects the file system to a mount target. The data stay even without a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.host import storage
from rehearsal.oci.core_network import malformed
from rehearsal.oci.core_subnet import SUBNET
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.netplan import free_private_ips, hostnames, subnet_cidr, taken, within
from rehearsal.oci.ocids import new_ocid, sibling_ocid
from rehearsal.oci.places import AVAILABILITY_DOMAINS
from rehearsal.plugin.addresses import cidr
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import each, known

#: The ports on the vendor's page "Configuring VCN Security Rules for File Storage".
PORTS = storage.Ports((111, 2048, 2049, 2050), (111, 2048))
FILE_SYSTEM = "oci:FileStorage/fileSystem:FileSystem"
MOUNT_TARGET = "oci:FileStorage/mountTarget:MountTarget"
EXPORT = "oci:FileStorage/export:Export"

# docs.oracle.com/iaas/Content/File/Tasks/change-mt-performance.htm: how many mount targets of each rate in Gb/s an availability
# domain can have, unless the tenancy has a higher limit.
_LIMITS = {"1": 2, "20": 2, "40": 1, "80": 0}
_ADDRESSES = 3  # docs.oracle.com, "Creating a Mount Target": two addresses to start, and one for failover
#: Throughput of a new mount target (Gbit/s); only an update makes it faster (File Storage API, CreateMountTargetDetails).
_CREATED_WITH = "1"
#: Storage in GB that the price of a mount target includes, by the mount target's Gb/s.
_CACHE_GB = {"1": 0, "20": 20_480, "40": 40_960, "80": 81_920}


class Served(Kind):
    """A resource in one availability domain; if it names a subnet, it has addresses in that subnet."""

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        domain = asked.known("availabilityDomain")
        if domain is not None and domain not in AVAILABILITY_DOMAINS:
            yield not_found("availabilityDomain", domain)
        subnet = asked.database.find(asked.known("subnetId"), SUBNET)
        if subnet is None:
            return
        wanted = self.addresses(asked.inputs)
        own = subnet.inputs.get("availabilityDomain")
        if own is not None and domain is not None and own != domain:
            yield Problem("subnetId", f"Subnet {subnet.id} is in {own}, but availabilityDomain is {domain}.")
        if asked.itself is None and free_private_ips(asked.database, subnet, wanted) is None:
            yield Problem(
                "subnetId", f"Subnet {subnet.id} does not have the {wanted} free addresses needed.", 400, "LimitExceeded"
            )

    def addresses(self, inputs: Mapping[str, Any]) -> int:  # noqa: ARG002
        """Return the number of addresses that the resource uses in its subnet."""
        return 0

    def settle(self, database: Database, record: Record) -> list[str]:
        """Assign a resource's addresses, and store its location; return the addresses. Clients use the first address."""
        subnet = database.records[record.inputs["subnetId"]]
        found = free_private_ips(database, subnet, self.addresses(record.inputs)) or []
        asked = record.inputs.get("ipAddress")
        addresses = [asked, *[one for one in found if one != asked][: len(found) - 1]] if asked else found
        record.private = {
            "addresses": addresses,
            "vcn": subnet.inputs["vcnId"],
            "subnet": subnet.id,
            "cidr": subnet_cidr(subnet),
            "domain": record.inputs["availabilityDomain"],
        }
        return addresses


class FileSystem(Served):
    """A file system; clients reach it through an export."""

    token, noun, service, ready = FILE_SYSTEM, "filesystem", "File Storage File System", "ACTIVE"
    create, update, delete = "CreateFileSystem", "UpdateFileSystem", "DeleteFileSystem"

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(
            meteredBytes="0", isCloneParent=False, isHydrated=True, isTargetable=True, cloneCount=0, replicationSourceCount=0,
            lifecycleDetails="", replicationTargetId="", areQuotaRulesEnabled=False, cloneAttachStatus="",
        )  # fmt: skip

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        storage.stop(cloud.world, record.id)
        storage.forget(cloud.world, record.id)


class MountTarget(Served):
    """A mount target: addresses in a subnet, and the exports that are reachable at these addresses."""

    token, noun, service, ready = MOUNT_TARGET, "mounttarget", "File Storage Mount Target", "ACTIVE"
    create, update, delete = "CreateMountTarget", "UpdateMountTarget", "DeleteMountTarget"
    references: ClassVar[Mapping[str, str]] = {"subnetId": SUBNET}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        domain, rate = asked.known("availabilityDomain"), _rate_gbit_s(asked.inputs)
        others = [one for one in asked.neighbours(MOUNT_TARGET, availabilityDomain=domain) if _rate_gbit_s(one.inputs) == rate]
        if domain is not None and rate in _LIMITS and len(others) >= _LIMITS[rate]:
            yield Problem(
                "requestedThroughput",
                f"The following service limits were exceeded: mount targets of {rate} Gbps in {domain}, where {len(others)} of "
                f"{_LIMITS[rate]} are in use. Request a service limit increase from the service limits page in the console.",
                code="LimitExceeded",
            )
        subnet, address = asked.database.find(asked.known("subnetId"), SUBNET), asked.known("ipAddress")
        if subnet is None:
            return
        if address is not None and not within(address, subnet_cidr(subnet)):
            yield Problem("ipAddress", f"ipAddress {address} is not a host's address in {subnet_cidr(subnet)}.")
        elif address is not None and asked.itself is None and address in taken(asked.database):
            yield Problem("ipAddress", f"ipAddress {address} is taken.", 409, "Conflict")
        label = asked.known("hostnameLabel")
        if label is not None and asked.itself is None and label.lower() in hostnames(asked.database, subnet):
            yield Problem("hostnameLabel", f"hostnameLabel {label!r} is taken in subnet {subnet.id}.", 409, "Conflict")

    @override
    def addresses(self, inputs: Mapping[str, Any]) -> int:
        return _ADDRESSES

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        address, rate = self.settle(database, record)[0], _rate_gbit_s(record.inputs) or _CREATED_WITH
        if rate != _CREATED_WITH:  # the service says so only when the mount target is created, not in a preview
            why = f"Only {_CREATED_WITH} Gbps of requestedThroughput is supported when a mount target is created."
            raise ServiceError(Problem("requestedThroughput", why), self.service, self.create)
        record.private["hostname"] = str(record.inputs.get("hostnameLabel") or "").lower()
        record.computed.update(
            ipAddress=address, exportSetId=new_ocid("exportset"), privateIpIds=[sibling_ocid(record.id, "privateip")],
            observedThroughput=rate, requestedThroughput=rate, reservedStorageCapacity=str(_CACHE_GB[rate]), idmapType="NONE",
            lifecycleDetails="", timeBillingCycleEnd="",
        )  # fmt: skip

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        # A lower throughput takes effect only at the end of the billing cycle (MountTarget.requestedThroughput).
        rate = _rate_gbit_s(record.inputs) or _CREATED_WITH
        if old is not None and int(rate) > int(record.computed["observedThroughput"]):
            with cloud.store.change() as database:
                faster = {"observedThroughput": rate, "reservedStorageCapacity": str(_CACHE_GB[rate])}
                database.records[record.id].computed.update(faster)


class Export(Kind):
    """The path by which a file system is mounted from a mount target."""

    token, noun, service, ready = EXPORT, "export", "File Storage Export", "ACTIVE"
    named = False
    create, update, delete = "CreateExport", "UpdateExport", "DeleteExport"
    references: ClassVar[Mapping[str, str]] = {"fileSystemId": FILE_SYSTEM, "exportSetId": MOUNT_TARGET}

    @override
    def referred(self, database: Database, token: str, named: object) -> Record | None:
        if token != MOUNT_TARGET:
            return super().referred(database, token, named)
        return next((one for one in database.of(MOUNT_TARGET) if one.computed["exportSetId"] == named), None)

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        system = asked.database.find(asked.known("fileSystemId"), FILE_SYSTEM)
        target = self.referred(asked.database, MOUNT_TARGET, asked.known("exportSetId"))
        path = asked.known("path")
        if system and target and system.inputs["availabilityDomain"] != target.inputs["availabilityDomain"]:
            yield Problem(
                "fileSystemId",
                f"File system {system.id} is in {system.inputs['availabilityDomain']}, and mount target {target.id} in "
                f"{target.inputs['availabilityDomain']}; an export needs both in one availability domain.",
            )
        for one in asked.neighbours(EXPORT):
            if target is not None and one.inputs["exportSetId"] == target.computed["exportSetId"]:
                yield from self._beside(one, system, path)
            elif target is not None and system is not None and one.inputs["fileSystemId"] == system.id:
                yield Problem("exportSetId", "The rehearsal supports only one export per file system.", 501, "NotRehearsed")
        yield from self._options(asked)

    def _beside(self, other: Record, system: Record | None, path: str | None) -> Iterator[Problem]:
        """Yield the conflicts of an export with another export of the same export set."""
        if path is not None and _contains(path, other.inputs["path"]):
            yield Problem("path", f"path {path} and {other.inputs['path']} of {other.id} overlap.", 409, "Conflict")
        if system is not None and other.inputs["fileSystemId"] == system.id:
            yield Problem("fileSystemId", f"File system {system.id} is in the export set already.", 409, "Conflict")
        elif system is not None:
            yield Problem("exportSetId", "The rehearsal supports one file system per mount target.", 501, "NotRehearsed")

    def _options(self, asked: Asked) -> Iterator[Problem]:
        for path, option in each(asked.inputs, "exportOptions[]"):
            source = known(option.get("source"))
            if source is not None and cidr(source if "/" in source else f"{source}/32") is None:
                yield malformed(f"{path}.source", source)
            # The service's default for identitySquash is ROOT.
            for name, default, played in (("access", "READ_WRITE", "READ_WRITE"), ("identitySquash", "ROOT", "NONE")):
                value = known(option.get(name, default))
                if value not in {played, None}:
                    yield Problem(
                        f"{path}.{name}",
                        f"{path}.{name} is {value}, but the rehearsal supports only {played}.",
                        501,
                        "NotRehearsed",
                    )

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        target = self.referred(database, MOUNT_TARGET, record.inputs["exportSetId"])
        # An export set is deleted with its mount target.
        record.parent = target.id if target else None
        anybody = {"source": "0.0.0.0/0", "access": "READ_WRITE", "identitySquash": "NONE"}
        record.computed.update(exportOptions=[anybody], isIdmapGroupsForSysAuth=False)

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        database = cloud.store.read()
        target = database.records[record.parent or ""]
        domain = database.records[target.private["subnet"]].computed.get("subnetDomainName")
        name = target.private["hostname"]
        storage.start(
            cloud.world, id=record.inputs["fileSystemId"], kind="nfs", ports=PORTS,
            vcn_id=database.records[target.private["vcn"]].short, subnet_cidr=target.private["cidr"],
            address=target.computed["ipAddress"], names=(f"{name}.{domain}",) if name and domain else (),
            export=record.inputs["path"], clients=[one["source"] for one in record.outputs()["exportOptions"]],
        )  # fmt: skip

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        storage.put_away(cloud.world, record.inputs["fileSystemId"])


def _rate_gbit_s(inputs: Mapping[str, Any]) -> str | None:
    """Return the requested throughput, or None while it is unknown."""
    rate: str | None = known(inputs.get("requestedThroughput", "1"))
    return rate


def _contains(one: str, other: str) -> bool:
    """Return whether two paths are equal or one of them contains the other."""
    first, second = f"{one.rstrip('/')}/", f"{other.rstrip('/')}/"
    return first.startswith(second) or second.startswith(first)
