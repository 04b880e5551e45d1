"""Instance configurations and cluster networks. A cluster network is a fabric with hosts; two of the hosts boot at a time."""

from __future__ import annotations

import secrets
import string
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from typing_extensions import override

from rehearsal.net import network
from rehearsal.oci import launch
from rehearsal.oci.compute import INSTANCE, NO_CAPACITY, Place, boot, place
from rehearsal.oci.core_subnet import SUBNET
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.ocids import new_ocid, now, sibling_ocid
from rehearsal.oci.places import AVAILABILITY_DOMAINS
from rehearsal.oci.shapes import SHAPES, Shape, quota_use
from rehearsal.plugin import kinds
from rehearsal.plugin.errors import PartlyCreatedError, RequestTimeoutError, ServiceError
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record, references
from rehearsal.plugin.wire import each, known_at

CONFIGURATION = "oci:Core/instanceConfiguration:InstanceConfiguration"
_DETAILS = "instanceDetails.launchDetails"
_WINDOW = 2  # number of hosts that boot at the same time; the smallest machine that runs the rehearsal has two cores
_LAUNCH = ("Core Instance", "LaunchInstance")
_DETACH = ("Core Instance Pool", "DetachInstancePoolInstance")
_NAME_DIGITS = 5
_ALPHABET = string.ascii_lowercase + string.digits


class InstanceConfiguration(Kind):
    """An instance configuration."""

    token, noun, service = CONFIGURATION, "instanceconfiguration", "Core Instance Configuration"
    ready = "ACTIVE"
    create, update, delete = "CreateInstanceConfiguration", "UpdateInstanceConfiguration", "DeleteInstanceConfiguration"
    holds = False

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        for path in ("instanceDetails", f"{_DETAILS}", f"{_DETAILS}.shape"):
            parent = asked.known(path.rpartition(".")[0]) if "." in path else asked.inputs
            if isinstance(parent, Mapping) and parent.get(path.rpartition(".")[2]) is None:
                yield Problem(path, f"{path} is missing, but the configuration needs it.", code="MissingParameter")
                return
        yield from launch.problems(
            launch.Details(
                asked,
                prefix=f"{_DETAILS}.",
                image_path="sourceDetails.imageId",
                subnet_path="createVnicDetails.subnetId",
                domain=asked.known(f"{_DETAILS}.availabilityDomain"),
            )
        )

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        # This is the service's own message: oci-hpc issue 11.
        return Problem(
            "", f"The Instance Configuration {record.id} is associated to one or more Instance Pools.", 409, "Conflict"
        )


class ClusterNetwork(Kind):
    """A pool of RDMA hosts on one fabric."""

    token, noun, service = "oci:Core/clusterNetwork:ClusterNetwork", "clusternetwork", "Core Cluster Network"
    ready = "RUNNING"
    create, update, delete = "CreateClusterNetwork", "UpdateClusterNetwork", "TerminateClusterNetwork"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        pools = asked.known("instancePools")
        if isinstance(pools, list) and len(pools) != 1:
            yield Problem("instancePools", f"instancePools has {len(pools)} entries, but a cluster network has exactly one.")
        yield from self._placement(asked)
        domain = asked.known("placementConfiguration.availabilityDomain")
        for path, pool in each(asked.inputs, "instancePools[]"):
            ocid = known_at(pool, "instanceConfigurationId")
            if ocid is None:
                continue
            configuration = asked.database.find(ocid, CONFIGURATION)
            if configuration is None:
                yield not_found(f"{path}.instanceConfigurationId", ocid)
                continue
            shape = SHAPES[configuration.inputs["instanceDetails"]["launchDetails"]["shape"]]
            yield from self._pool(asked, path, pool, shape, domain)

    def _placement(self, asked: Asked) -> Iterator[Problem]:
        domain = asked.known("placementConfiguration.availabilityDomain")
        if domain is not None and domain not in AVAILABILITY_DOMAINS:
            yield not_found("placementConfiguration.availabilityDomain", domain)
        placement = asked.known("placementConfiguration")
        path = "placementConfiguration.primarySubnetId"
        if isinstance(placement, Mapping) and placement.get("primarySubnetId") is None:
            path = "placementConfiguration.primaryVnicSubnets.subnetId"
            if placement.get("primaryVnicSubnets") is None:
                yield Problem(path, "placementConfiguration needs a primary subnet.", code="MissingParameter")
        subnet = asked.known(path)
        if subnet is not None and asked.database.find(subnet, SUBNET) is None:
            yield not_found(path, subnet)

    def _pool(self, asked: Asked, path: str, pool: Mapping[str, Any], shape: Shape, domain: str | None) -> Iterator[Problem]:
        if not shape.rdma:
            yield Problem(
                f"{path}.instanceConfigurationId",
                f"Shape {shape.name} is not supported in a cluster network, which takes bare-metal shapes with RDMA.",
            )
        if domain in AVAILABILITY_DOMAINS and domain is not None:
            if domain not in shape.offered_in:
                offered = ", ".join(shape.offered_in)
                yield Problem(
                    f"{path}.instanceConfigurationId",
                    f"Shape {shape.name} is not offered in {domain}, only in {offered}.",
                )
            have = len(_members(asked.database, asked.itself)) if asked.itself else 0
            size = known_at(pool, "size")
            if isinstance(size, int) and size > have:
                exceeded = launch.over_limit(asked.database, shape, domain, quota_use(shape, None) * (size - have))
                if exceeded:
                    yield Problem(f"{path}.size", exceeded, code="LimitExceeded")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed["timeUpdated"] = now()
        record.private["pool"] = sibling_ocid(record.id, "instancepool")

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        pool = record.inputs["instancePools"][0]
        database = cloud.store.read()
        configuration = database.records[pool["instanceConfigurationId"]]
        details = configuration.inputs["instanceDetails"]["launchDetails"]
        network.apply_fabric(cloud.world, record.short, len(SHAPES[details["shape"]].ports))
        members = _members(database, record.id)
        # When a pool shrinks, the vendor terminates the oldest instances first: oci-hpc README.md@2.10.0.
        for member in members[: max(0, len(members) - pool["size"])]:
            cloud.remove(member.id)
        taken = {member.private["index"] for member in members}
        wanted = [index for index in range(pool["size"] + len(members)) if index not in taken]
        wanted = wanted[: max(0, pool["size"] - len(members))]
        failures: list[BaseException] = []
        launching = []
        with ThreadPoolExecutor(_WINDOW) as window:
            for index in wanted:
                # Addresses are assigned in order, so that the same stack always gets the same addresses.
                try:
                    member = self._enter(cloud, record, configuration, index)
                except (ServiceError, RequestTimeoutError) as refused:
                    failures.append(refused)
                    break
                launching.append(window.submit(self._boot, cloud, member))
        failures += [failure for one in launching if (failure := one.exception()) is not None]
        self._count(cloud, record)
        if failures:
            now_there = cloud.store.read().records[record.id]
            raise PartlyCreatedError(
                record.id, self.outputs(now_there) | {"state": self.ready}, record.inputs, str(failures[0])
            )

    def detach(self, cloud: ResourceCloud, pool: str, instance: str, *, smaller: bool) -> None:
        """Detach and terminate one instance of a pool.

        If `smaller` is true, the pool shrinks; otherwise the pool launches a new instance.
        In the API's DetachInstancePoolInstanceDetails, isAutoTerminate is true, and isDecrementSize has the value of `smaller`.

        Raises:
            ServiceError: there is no such pool, or the pool has no such instance.
        """
        database = cloud.store.read()
        owner = next((one for one in database.of(self.token) if one.private["pool"] == pool), None)
        if owner is None or instance not in {one.id for one in _members(database, owner.id)}:
            raise ServiceError(not_found("", pool if owner is None else instance), *_DETACH)
        cloud.faults.before(*_DETACH)
        cloud.remove(instance)
        if smaller:
            with cloud.store.change() as database:
                owner = database.records[owner.id]
                owner.inputs["instancePools"][0]["size"] -= 1
        self.effect(cloud, owner, owner.inputs)

    def _enter(self, cloud: ResourceCloud, owner: Record, configuration: Record, index: int) -> Record:
        """Record one more instance of the pool, with its name and addresses.

        Raises:
            ServiceError: the service refused the launch.
            RequestTimeoutError: the service did not answer.
        """
        cloud.faults.before(*_LAUNCH)
        placement = owner.inputs["placementConfiguration"]
        if not cloud.faults.capacity_left(index, placement["availabilityDomain"]):
            raise ServiceError(NO_CAPACITY, *_LAUNCH)
        details = configuration.inputs["instanceDetails"]["launchDetails"]
        subnet = placement.get("primarySubnetId") or placement["primaryVnicSubnets"]["subnetId"]
        pool = owner.inputs["instancePools"][0]
        suffix = pool.get("displayName") or owner.outputs()["displayName"]
        name = f"inst-{''.join(secrets.choice(_ALPHABET) for _ in range(_NAME_DIGITS))}-{suffix}"
        with cloud.store.change() as database:
            inputs = {"compartmentId": owner.inputs["compartmentId"], **details, "displayName": name}
            record = cloud.stamp(
                Record(
                    new_ocid("instance"),
                    INSTANCE,
                    "",
                    "PROVISIONING",
                    inputs,
                    {"timeCreated": now()},
                    parent=owner.id,
                )
            )
            record.computed["instanceConfigurationId"] = configuration.id
            place(database, record, Place(subnet, placement["availabilityDomain"], index, owner.short))
            database.records[record.id] = record
        return record

    def _boot(self, cloud: ResourceCloud, record: Record) -> None:
        """Start an instance's host; if that fails, remove the host and the instance."""
        with cloud.working(record):
            if record.computed["publicIp"]:
                cloud.render(record.private["vcn"])
            boot(cloud, record)
            cloud.faults.within(_LAUNCH[1])

    def _count(self, cloud: ResourceCloud, record: Record) -> None:
        with cloud.store.change() as database:
            mine = database.records[record.id]
            mine.computed["timeUpdated"] = now()
            mine.private["size"] = len(_members(database, record.id))

    @override
    def outputs(self, record: Record) -> dict[str, Any]:
        outputs = super().outputs(record)
        pool = {
            "id": record.private["pool"],
            "compartmentId": record.inputs["compartmentId"],
            "displayName": outputs["displayName"],
            **record.inputs["instancePools"][0],
            "currentSize": record.private.get("size", 0),
            "state": outputs["state"],
            "timeCreated": record.computed["timeCreated"],
        }
        return outputs | {"instancePools": [pool]}

    @override
    def needs(self, record: Record) -> Iterator[str]:
        """Yield the cluster network's own dependencies, without the subnet: only the instances' VNICs depend on the subnet."""
        return (one for one in references(record.inputs["instancePools"]) if one.startswith("ocid1."))

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        network.delete_fabric(cloud.world, record.short)


def _members(database: Database, cluster_network: str | None) -> list[Record]:
    """Return the hosts of a cluster network, oldest first."""
    return [one for one in database.of(INSTANCE) if one.parent == cluster_network]
