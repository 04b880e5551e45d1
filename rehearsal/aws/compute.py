"""Instances: launches hosts of the world and takes them down again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rehearsal.aws import capacity, fabric, launch, launch_rules, placing
from rehearsal.aws.cloud_types import Cloud
from rehearsal.aws.errors import Problem, not_played, refused
from rehearsal.aws.iam import may_put
from rehearsal.aws.images import IMAGES
from rehearsal.aws.imds import metadata
from rehearsal.aws.kinds import GROUP, INSTANCE, KEY, MISSING, PLACEMENT, PROFILE, SUBNET, TEMPLATE, Asked, Kind, by_name
from rehearsal.aws.places import region_of
from rehearsal.aws.types import GIGA, SPOT, TYPES
from rehearsal.host import hosts
from rehearsal.net import network
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import known, known_at

_HEX = "0123456789abcdef"
_FRONT = "ens5"
"""The first interface of a Nitro instance, on Ubuntu and on Amazon Linux 2023."""


def boot(cloud: Cloud, record: Record) -> None:
    """Start an instance's host on its network; one that runs already is left alone."""
    cloud.render(record.private["vpc"])
    database = cloud.store.read()
    private, kind = record.private, TYPES[record.private["type"]]
    region = region_of(record.inputs)
    profile = by_name(database, PROFILE, private["profile"])
    key = by_name(database, KEY, private["key"])
    rails = tuple(
        hosts.Rail(f"rdmap{at}", hca, kind.efa_gbit_s * GIGA, "efa")
        for at, hca in enumerate(kind.hcas[: len(private["efa_cards"])])
    )
    spec = hosts.HostSpec(
        id=record.short,
        index=private["index"],
        hostname=private["hostname"],
        image=IMAGES[private["image"]].host,
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
        gpus=(kind.gpu,) * kind.gpus,
        nvme=kind.nvme,
        front_rate_bits_per_s=int(kind.front_gbit_s * GIGA),
        instance_id=record.id,
        metadata=metadata(record, region, profile) if private["metadata"] else {},
        may_put=may_put(database, profile),
    )
    if rails:
        fabric.join(cloud, private["fabric"], len(rails))
    hosts.boot(cloud.world, spec)


def stop(cloud: Cloud, record: Record) -> None:
    """Take an instance's host down, with what it was the last to need."""
    hosts.stop(cloud.world, record.short)
    if record.private.get("vpc"):
        cloud.render(record.private["vpc"])
    if record.private.get("fabric"):
        fabric.leave(cloud, record.private["fabric"])


def needed(record: Record) -> Iterator[str]:
    """What a running instance cannot be without."""
    private = record.private
    yield f"{SUBNET} {private.get('subnet')}"
    for nic in private.get("nics", ()):
        yield from (f"{GROUP} {one}" for one in nic["groups"])
    if private.get("placement_group"):
        yield f"{PLACEMENT} {private['placement_group']}"


class Instance(Kind):
    """One instance, by itself or a fleet's."""

    token, noun, prefix, arn = INSTANCE, "instance", "i", "instance/{id}"
    create, update, delete = "RunInstances", "ModifyInstanceAttribute", "TerminateInstances"
    ready = "running"
    seconds = 10
    unplayed: ClassVar[Mapping[str, str]] = {
        "hibernation": "instances here never sleep.", "primaryNetworkInterface": "interfaces come with their instance here.",
        "networkInterfaces": "the provider wants primaryNetworkInterface or a launch template instead.",
        "hostId": "there are no dedicated hosts here.", "ipv6AddressCount": "the rehearsal plays IPv4 alone.",
    }  # fmt: skip

    def problems(self, asked: Asked) -> Iterator[Problem]:  # noqa: D102
        yield from super().problems(asked)
        if asked.known("userData") is not None and asked.known("userDataBase64") is not None:
            yield refused(
                "userData", "InvalidParameterCombination", "userData and userDataBase64 are given; one of them is used."
            )
        for path, token in (("launchTemplate.id", TEMPLATE), ("launchTemplate.name", TEMPLATE)):
            named = asked.known(path)
            if named is not None and self.referred(asked.database, token, named) is None:
                code, sentence, status = MISSING[TEMPLATE]
                yield refused(path, code, sentence.format(named), status)
        wanted = launch.of_instance(asked.inputs, asked.database)
        # An instance that is changed has its room and its addresses already.
        if wanted is None or asked.itself is not None:
            return
        region = region_of(asked.inputs)
        yield from launch_rules.problems(wanted, asked.database, region)
        yield from capacity.problems(wanted, asked.database, region, 1)
        if wanted.market == SPOT:
            yield not_played("instanceMarketOptions", "The rehearsal plays spot instances as fleets alone.")

    def born(self, database: Database, record: Record) -> None:  # noqa: D102
        super().born(database, record)
        wanted = launch.of_instance(record.inputs, database)
        if wanted is None:
            code, sentence, status = MISSING[TEMPLATE]
            missing = refused("launchTemplate", code, sentence.format(record.inputs.get("launchTemplate")), status)
            raise ServiceError(missing, self.service, self.create)
        template = record.inputs.get("launchTemplate")
        record.private["template"] = str(template.get("id") or template.get("name")) if template else ""
        placing.place(database, record, wanted, _index(database, record.private["template"]))

    def effect(self, cloud: Cloud, record: Record, old: Mapping[str, Any] | None) -> None:  # noqa: D102
        if old is None:
            if not cloud.faults.capacity_left(max(record.private["index"], 0)):
                none = capacity.no_capacity(record.private["type"], record.private["zone"])
                raise ServiceError(none, self.service, self.create)
            cloud.wait(self.seconds)
            boot(cloud, record)
            return
        with cloud.store.change() as database:
            mine = database.records[record.id]
            groups = mine.inputs.get("vpcSecurityGroupIds")
            if groups:
                mine.private["nics"][0]["groups"] = list(groups)
                mine.computed["vpcSecurityGroupIds"] = list(groups)
        cloud.render(record.private["vpc"])

    def stale(self, inputs: Mapping[str, Any]) -> Problem | None:  # noqa: D102
        profile = known(inputs.get("iamInstanceProfile"))
        if isinstance(profile, str):
            return self.missing("iamInstanceProfile", profile, PROFILE)
        template = known_at(inputs, "launchTemplate.id")
        return self.missing("launchTemplate", str(template), TEMPLATE) if template else None

    def outputs(self, record: Record) -> dict[str, Any]:  # noqa: D102
        own = super().outputs(record) | {"tagsAll": record.private["tags"]}
        # As the provider keeps it in its state: a hash, for user data may be long.
        if record.private["user_data"] and "userData" not in record.inputs:
            own["userData"] = hashlib.sha1(record.private["user_data"].encode(), usedforsecurity=False).hexdigest()
        return own

    def gone(self, cloud: Cloud, record: Record) -> None:  # noqa: D102
        stop(cloud, record)

    def exists(self, cloud: Cloud, record: Record) -> bool:  # noqa: D102
        return hosts.alive(cloud.world, record.short)

    def needs(self, record: Record) -> Iterator[str]:  # noqa: D102
        return needed(record)


def _index(database: Database, template: str) -> int:
    """The launch index among the instances of a template, the lowest that is free; -1 for one without a template."""
    if not template:
        return -1
    taken = {one.private.get("index") for one in database.of(INSTANCE) if one.private.get("template") == template}
    return next(at for at in range(len(taken) + 1) if at not in taken)
