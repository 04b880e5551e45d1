"""Instances as resources; each instance is a host of the world."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import capacity, efa_software, fabric, host_images, launch, launch_rules, metadata_service, placing
from rehearsal.aws.api import end_point
from rehearsal.aws.errors import Problem, refused
from rehearsal.aws.iam import may_put, role_of
from rehearsal.aws.images import IMAGES
from rehearsal.aws.instance_metadata import metadata
from rehearsal.aws.kinds import GROUP, INSTANCE, KEY, MISSING, PLACEMENT, PROFILE, SUBNET, TEMPLATE, Asked, Kind, by_name, shown
from rehearsal.aws.places import region_of
from rehearsal.aws.types import GIGA, GPU_BUSES, LOCAL_DISK, TYPES, Type
from rehearsal.host import hosts
from rehearsal.net import network
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import known, known_at

#: Name of a Nitro instance's first interface on Ubuntu and Amazon Linux 2023.
_FRONT = "ens5"


def boot(cloud: ResourceCloud, record: Record) -> None:
    """Start an instance's host on the instance's network, unless the host is running."""
    cloud.render(record.private["vpc"])
    database = cloud.store.read()
    private, kind = record.private, TYPES[record.private["type"]]
    region = region_of(record.inputs)
    profile = by_name(database, PROFILE, private["profile"])
    key = by_name(database, KEY, private["key"])
    role = role_of(database, profile)
    end_point.announce(cloud.world, region)
    rails = tuple(
        hosts.Rail(f"rdmap{at}", hca, kind.efa_gbit_s * GIGA, "efa", efa_software.protocol(kind.name))
        for at, hca in enumerate(kind.hcas[: len(private["efa_cards"])])
    )
    spec = hosts.HostSpec(
        id=record.short,
        index=private["index"],
        hostname=private["hostname"],
        image=host_images.image(IMAGES[private["image"]].host),
        shape=kind.name,
        user_data=private["user_data"].encode(errors="surrogateescape"),
        ssh_authorized_keys=(key.inputs["publicKey"].strip(),) if key else (),
        vcn_id=database.records[private["vpc"]].short,
        subnet_cidr=private["cidr"],
        address=record.computed["privateIp"],
        gateway=network.gateway(private["cidr"]),
        search_domain=private["domain"],
        front_name=_FRONT,
        fabric_id=private["fabric"] or None,
        rails=rails,
        bystanders=kind.bystanders if rails else (),
        gpus=(kind.gpu,) * kind.gpus,
        gpu_buses=GPU_BUSES[: kind.gpus],
        nvme=kind.nvme,
        nvme_model=LOCAL_DISK,
        front_rate_bits_per_s=int(kind.front_gbit_s * GIGA),
        instance_id=record.id,
        metadata=metadata(record, region, profile, shown(role) if role else "") if private["metadata"] else {},
        metadata_program=str(metadata_service.__file__),
        may_put=may_put(database, profile),
        firmware=efa_software.firmware(kind.name, record.id),
        processors=_topology(kind),
        memory_mib=kind.memory_gib * 1024,
    )
    if rails:
        fabric.join(cloud, private["fabric"], len(rails))
    hosts.boot(cloud.world, spec)


def _topology(kind: Type) -> tuple[int, int, int]:
    """Return sockets, cores per socket and threads per core, as Linux shows them; the API reports only cores and threads."""
    threads = 2 if kind.architecture == "x86_64" else 1
    sockets = 2 if kind.vcpus >= 96 else 1  # noqa: PLR2004 - p4d, p5 and similar types have two processors
    return sockets, kind.vcpus // threads // sockets, threads


def stop(cloud: ResourceCloud, record: Record) -> None:
    """Stop an instance's host, and remove the host from its network and its fabric."""
    hosts.stop(cloud.world, record.short)
    if record.private.get("vpc"):
        cloud.render(record.private["vpc"])
    if record.private.get("fabric"):
        fabric.leave(cloud, record.private["fabric"])


def needed(record: Record) -> Iterator[str]:
    """Yield the resources that a running instance needs, each as a type token and an id or name."""
    private = record.private
    yield f"{SUBNET} {private.get('subnet')}"
    for nic in private.get("nics", ()):
        yield from (f"{GROUP} {one}" for one in nic["groups"])
    if private.get("placement_group"):
        yield f"{PLACEMENT} {private['placement_group']}"


class Instance(Kind):
    """One instance, standalone or in a fleet."""

    token, noun, prefix, arn = INSTANCE, "instance", "i", "instance/{id}"
    create, update, delete = "RunInstances", "ModifyInstanceAttribute", "TerminateInstances"
    ready = "running"
    seconds = 10
    unplayed: ClassVar[Mapping[str, str]] = {
        "hibernation": "the rehearsal's instances never hibernate.",
        "primaryNetworkInterface": "the rehearsal creates interfaces only with their instance.",
        "networkInterfaces": "the provider requires primaryNetworkInterface or a launch template instead.",
        "hostId": "the rehearsal has no dedicated hosts.",
        "ipv6AddressCount": "the rehearsal supports only IPv4.",
    }

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        if asked.known("userData") is not None and asked.known("userDataBase64") is not None:
            yield refused(
                "userData", "InvalidParameterCombination", "userData and userDataBase64 are given, but only one is allowed."
            )
        for path, token in (("launchTemplate.id", TEMPLATE), ("launchTemplate.name", TEMPLATE)):
            named = asked.known(path)
            if named is not None and self.referred(asked.database, token, named) is None:
                code, sentence, status = MISSING[TEMPLATE]
                yield refused(path, code, sentence.format(named), status)
        wanted = launch.of_instance(asked.inputs, asked.database)
        # An existing instance already has its capacity and its addresses.
        if wanted is None or asked.itself is not None:
            return
        region = region_of(asked.inputs)
        yield from launch_rules.problems(wanted, asked.database, region)
        yield from capacity.problems(wanted, asked.database, region, 1)

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        wanted = launch.of_instance(record.inputs, database)
        if wanted is None:
            code, sentence, status = MISSING[TEMPLATE]
            missing = refused("launchTemplate", code, sentence.format(record.inputs.get("launchTemplate")), status)
            raise ServiceError(missing, self.service, self.create)
        template = record.inputs.get("launchTemplate")
        record.private["template"] = str(template.get("id") or template.get("name")) if template else ""
        placing.place(database, record, wanted, index(database, record.private["template"]))

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        if old is None:
            # The launch fails only if there is no capacity even after the provider's retries. The provider retries a lack of
            # capacity as often as its SDK retries other errors (terraform-provider-aws:internal/service/ec2/service_package.go:
            # RunInstances).
            if not cloud.faults.capacity_after_retries(max(record.private["index"], 0)):
                none = capacity.no_capacity(record.private["type"], record.private["zone"])
                raise ServiceError(none, self.service, self.create)
            cloud.wait(self.seconds)
            boot(cloud, record)
            return
        with cloud.store.change() as database:
            mine = database.records[record.id]
            # UpdateTags (terraform-provider-aws:internal/tags): a tag that is no longer in the inputs is removed, unless EC2
            # itself has set the tag.
            own = {key: value for key, value in mine.private["tags"].items() if key.startswith("aws:")}
            mine.private["tags"] = own | dict(mine.inputs.get("tags") or {})
            mine.computed.update(tags=mine.private["tags"], tagsAll=mine.private["tags"])
            groups = mine.inputs.get("vpcSecurityGroupIds")
            if groups:
                mine.private["nics"][0]["groups"] = list(groups)
                mine.computed["vpcSecurityGroupIds"] = list(groups)
        cloud.render(record.private["vpc"])

    @override
    def stale(self, inputs: Mapping[str, Any]) -> Problem | None:
        profile = known(inputs.get("iamInstanceProfile"))
        if isinstance(profile, str):
            return self.missing("iamInstanceProfile", profile, PROFILE)
        template = known_at(inputs, "launchTemplate.id")
        return self.missing("launchTemplate", str(template), TEMPLATE) if template else None

    @override
    def outputs(self, record: Record) -> dict[str, Any]:
        own = super().outputs(record) | {"tagsAll": record.private["tags"]}
        # The provider stores only a hash of the user data in the state, because user data may be long.
        if record.private["user_data"] and not {"userData", "userDataBase64"} & set(record.inputs):
            data = record.private["user_data"].encode(errors="surrogateescape")
            own["userData"] = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        return own

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        stop(cloud, record)

    @override
    def exists(self, cloud: ResourceCloud, record: Record) -> bool:
        return hosts.alive(cloud.world, record.short)

    @override
    def needs(self, record: Record) -> Iterator[str]:
        return needed(record)


def index(database: Database, template: str) -> int:
    """Return the lowest free launch index among a template's instances; -1 without a template."""
    if not template:
        return -1
    taken = {one.private.get("index") for one in database.of(INSTANCE) if one.private.get("template") == template}
    return next(at for at in range(len(taken) + 1) if at not in taken)
