"""Instances (each one is a host of the world) and their console histories."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.host import hosts
from rehearsal.net import network
from rehearsal.oci import host_images, instance_metadata, launch, metadata_service
from rehearsal.oci.api import end_point
from rehearsal.oci.core_network import DHCP_OPTIONS
from rehearsal.oci.core_subnet import private
from rehearsal.oci.errors import Problem
from rehearsal.oci.images import Image
from rehearsal.oci.imports import image_of
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.machines import equipped
from rehearsal.oci.netplan import free_private_ip, subnet_cidr
from rehearsal.oci.ocids import sibling_ocid
from rehearsal.oci.places import FAULT_DOMAINS, REGION
from rehearsal.oci.shapes import SHAPES, quota_use
from rehearsal.plugin.addresses import free_public
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import at

INSTANCE = launch.INSTANCE
NO_CAPACITY = Problem("", "Out of host capacity.", status=500, code="InternalError")


@dataclass(frozen=True)
class Place:
    """The location of an instance.

    Attributes:
        subnet: OCID of the subnet of the instance's primary VNIC.
        domain: the availability domain.
        index: the instance's launch index in its pool; -1 if the instance is in no pool.
        fabric: short id of the fabric of the instance's cluster network; None if the instance is in no cluster network.
    """

    subnet: str
    domain: str
    index: int = -1
    fabric: str | None = None


def place(database: Database, record: Record, where: Place) -> None:
    """Assign an instance's addresses and names before the instance boots, and record what the instance's host will need.

    Raises:
        ServiceError: the subnet or the region has no free address.
    """
    subnet = database.records[where.subnet]
    vnic = record.inputs.get("createVnicDetails") or {}
    # By default, an instance gets a public address unless its subnet forbids this: Subnet.prohibitPublicIpOnVnic.
    wants_public = str(vnic.get("assignPublicIp", not private(subnet.inputs))).lower() == "true"
    address = vnic.get("privateIp") or free_private_ip(database, subnet)
    public = free_public(database) if wants_public else None
    if address is None or (wants_public and public is None):
        lacking = "private address in the subnet" if address is None else "public address in the region"
        problem = Problem("createVnicDetails", f"There is no free {lacking}.", code="LimitExceeded")
        raise ServiceError(problem, "Core Instance", "LaunchInstance")
    name = record.outputs()["displayName"]
    label = vnic.get("hostnameLabel") or record.inputs.get("hostnameLabel")
    source = record.inputs.get("sourceDetails") or {}
    image = _launched(database, source.get("sourceId") or source.get("imageId") or record.inputs["image"])
    shape = SHAPES[record.inputs["shape"]]
    hostname = (label or re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "instance").lower()[:63].rstrip("-")
    config = record.inputs.get("shapeConfig") or {}
    ocpus = config.get("ocpus", shape.ocpus)
    record.private = {
        "subnet": where.subnet, "vcn": subnet.inputs["vcnId"], "domain": where.domain, "index": where.index,
        "fabric": where.fabric, "hostname": hostname, "image": image.id, "shape": shape.name, "ocpus": ocpus,
    }  # fmt: skip
    memory = config.get("memoryInGbs", ocpus * shape.memory_gib / shape.ocpus if shape.flexible else shape.memory_gib)
    record.computed.update(
        availabilityDomain=where.domain,
        faultDomain=FAULT_DOMAINS[max(where.index, 0) % len(FAULT_DOMAINS)],
        region=REGION,
        launchMode="NATIVE" if shape.bare_metal else "PARAVIRTUALIZED",
        privateIp=address,
        publicIp=public or "",
        image=image.id,
        subnetId=where.subnet,
        hostnameLabel=hostname,
        bootVolumeId=sibling_ocid(record.id, "bootvolume"),
        createVnicDetails={
            "subnetId": where.subnet,
            "privateIp": address,
            "hostnameLabel": hostname,
            "displayName": name,
        },
        sourceDetails={
            "sourceType": "image",
            "sourceId": image.id,
            "bootVolumeSizeInGbs": str(max(50, image.size_gib)),
        },
        shapeConfig={"ocpus": ocpus, "memoryInGbs": memory, "gpus": shape.gpus, "localDisks": len(shape.nvme_bytes)},
    )


def _launched(database: Database, ocid: str) -> Image:
    """Return the image that an instance was launched from.

    Raises:
        KeyError: there is no such image.
    """
    image = image_of(database, ocid)
    if image is None:
        raise KeyError(ocid)
    return image


def boot(cloud: ResourceCloud, record: Record) -> None:
    """Start an instance's host, unless it is running."""
    database = cloud.store.read()
    subnet = database.records[record.private["subnet"]]
    image, shape = _launched(database, record.private["image"]), SHAPES[record.private["shape"]]
    cidr = subnet_cidr(subnet)
    metadata = record.inputs.get("metadata") or {}
    agent = record.inputs.get("agentConfig") or {}
    end_point.announce(cloud.world)
    spec = hosts.HostSpec(
        id=record.short,
        index=record.private["index"],
        hostname=record.private["hostname"],
        image=host_images.image(image.name),
        shape=shape.name,
        user_data=base64.b64decode("".join(metadata.get("user_data", "").split())),
        ssh_authorized_keys=tuple(line for line in metadata.get("ssh_authorized_keys", "").splitlines() if line.strip()),
        vcn_id=database.records[record.private["vcn"]].short,
        subnet_cidr=cidr,
        address=record.computed["privateIp"],
        gateway=network.gateway(cidr),
        search_domain=_search_domain(database, subnet),
        fabric_id=record.private["fabric"],
        agent_plugins=_plugins(agent),
        metadata=instance_metadata.metadata(database, record, cidr, topology=_has_topology(cloud)),
        metadata_program=str(metadata_service.__file__),
    )
    hosts.boot(cloud.world, equipped(spec, shape, record.private["ocpus"]))


def _has_topology(cloud: ResourceCloud) -> bool:
    return all(one["kind"] != "no_capacity_topology" for one in cloud.world.faults())


def _search_domain(database: Database, subnet: Record) -> str:
    """Return the domain of a host's full name: the subnet's domain, else the search domain in the DHCP options, else ""."""
    options = database.find(subnet.inputs.get("dhcpOptionsId"), DHCP_OPTIONS)
    wished = [str(one["searchDomainNames"][0]) for one in _options(options) if one["type"] == "SearchDomain"]
    return str(next(iter([*filter(None, [subnet.computed.get("subnetDomainName")]), *wished]), ""))


def _options(record: Record | None) -> list[Mapping[str, Any]]:
    return list(record.inputs["options"]) if record else []


def _plugins(agent: Mapping[str, Any]) -> tuple[str, ...]:
    if agent.get("areAllPluginsDisabled"):
        return ()
    return tuple(one["name"] for one in agent.get("pluginsConfigs") or [] if one.get("desiredState") == "ENABLED")


class Instance(Kind):
    """One instance, standalone or in a pool."""

    token, noun, service = INSTANCE, "instance", "Core Instance"
    ready = "RUNNING"
    create, update, delete = "LaunchInstance", "UpdateInstance", "TerminateInstance"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        if asked.inputs.get("shape") is None:
            yield Problem("shape", "shape is missing, but an instance needs one.", code="MissingParameter")
        if asked.known("state") not in {None, "RUNNING"}:
            yield Problem("state", "The rehearsal supports only running instances.", 501, "NotRehearsed")
        source = asked.inputs.get("sourceDetails")
        if source is None and asked.inputs.get("image") is None:
            yield Problem("sourceDetails", "sourceDetails is missing, but an instance needs an image.", code="MissingParameter")
        # While createVnicDetails is unknown, it may contain the subnet.
        in_vnic = at(asked.inputs, "createVnicDetails.subnetId") is not None
        details = launch.Details(
            asked,
            prefix="",
            image_path="image" if source is None else "sourceDetails.sourceId",
            subnet_path="createVnicDetails.subnetId" if in_vnic else "subnetId",
            domain=asked.known("availabilityDomain"),
        )
        if not in_vnic and asked.inputs.get("subnetId") is None:
            yield Problem("createVnicDetails.subnetId", "createVnicDetails.subnetId is missing, but an instance needs one.")
        yield from launch.problems(details)
        if details.shape is not None and details.domain is not None:
            mine = asked.database.find(asked.itself)
            more = quota_use(details.shape, details.at("shapeConfig.ocpus"))
            more -= quota_use(SHAPES[mine.private["shape"]], mine.private["ocpus"]) if mine else 0
            exceeded = launch.over_limit(asked.database, details.shape, details.domain, more)
            if exceeded:
                yield Problem("shape", exceeded, code="LimitExceeded")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        vnic = record.inputs.get("createVnicDetails") or {}
        subnet = vnic.get("subnetId") or record.inputs["subnetId"]
        place(database, record, Place(subnet, record.inputs["availabilityDomain"]))

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            if SHAPES[record.private["shape"]].bare_metal and not cloud.faults.capacity_left(0):
                raise ServiceError(NO_CAPACITY, self.service, self.create)
        else:
            self._readdress(cloud, record, old)
        if old is not None or record.computed["publicIp"]:
            cloud.render(record.private["vcn"])
        if old is None:
            boot(cloud, record)
        elif record.inputs.get("sourceDetails", {}).get("sourceId") != (old.get("sourceDetails") or {}).get("sourceId"):
            self._reinstall(cloud, record)

    def _reinstall(self, cloud: ResourceCloud, record: Record) -> None:
        """Replace the boot volume: the instance and its addresses stay, but the system and its host keys are new."""
        with cloud.store.change() as database:
            mine = database.records[record.id]
            image = _launched(database, mine.inputs["sourceDetails"]["sourceId"])
            mine.private["image"] = mine.computed["image"] = image.id
            mine.computed["sourceDetails"] = {**mine.computed["sourceDetails"], "sourceId": image.id}
        hosts.stop(cloud.world, record.short)
        boot(cloud, cloud.store.read().records[record.id])

    def _readdress(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any]) -> None:
        """Add or remove the public address as an update requests, and record the updated shape and its number of OCPUs."""
        before, after = ((one.get("createVnicDetails") or {}).get("assignPublicIp") for one in (old, record.inputs))
        with cloud.store.change() as database:
            mine = database.records[record.id]
            if before != after and after is not None:
                has = mine.computed["publicIp"]
                mine.computed["publicIp"] = (has or free_public(database) or "") if after == "true" else ""
            mine.private["shape"] = mine.inputs["shape"]
            mine.private["ocpus"] = (mine.inputs.get("shapeConfig") or {}).get("ocpus", mine.private["ocpus"])

    @override
    def needs(self, record: Record) -> Iterator[str]:
        yield from super().needs(record)
        yield record.private["subnet"]  # also for an instance in a pool, whose subnet the pool sets

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        hosts.stop(cloud.world, record.short)
        if record.computed.get("publicIp"):
            cloud.render(record.private["vcn"])

    @override
    def exists(self, cloud: ResourceCloud, record: Record) -> bool:
        return hosts.alive(cloud.world, record.short)


class ConsoleHistory(Kind):
    """An instance's console output at the time when the history was captured."""

    token, noun, service = "oci:Core/consoleHistory:ConsoleHistory", "consolehistory", "Core Console History"
    ready = "SUCCEEDED"
    create, update, delete = "CaptureConsoleHistory", "UpdateConsoleHistory", "DeleteConsoleHistory"
    references: ClassVar[Mapping[str, str]] = {"instanceId": INSTANCE}
    holds = False

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        instance = database.records[record.inputs["instanceId"]]
        record.computed["availabilityDomain"] = instance.computed["availabilityDomain"]
        record.computed["compartmentId"] = instance.inputs["compartmentId"]

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            instance = cloud.store.read().records[record.inputs["instanceId"]]
            written = hosts.console(cloud.world, instance.short)
            with cloud.store.change() as database:
                database.records[record.id].private["data"] = written
