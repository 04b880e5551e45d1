"""Instances: launches hosts of the world and takes them down again."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from rehearsal import hosts, network
from rehearsal.aws import addresses, capacity, fabric, launch, launch_rules
from rehearsal.aws.cloud_types import Cloud
from rehearsal.aws.errors import Problem, not_played, refused
from rehearsal.aws.iam import may_put
from rehearsal.aws.images import IMAGES
from rehearsal.aws.imds import metadata
from rehearsal.aws.kinds import GROUP, INSTANCE, KEY, MISSING, PLACEMENT, PROFILE, SUBNET, TEMPLATE, Asked, Kind, by_name, shown
from rehearsal.aws.launch import Launch
from rehearsal.aws.places import region_of
from rehearsal.aws.subnets import zone_id
from rehearsal.aws.types import GBPS, TYPES
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record

_HEX = "0123456789abcdef"
_FRONT = "ens5"
"""The first interface of a Nitro instance, on Ubuntu and on Amazon Linux 2023."""


def place(database: Database, record: Record, asked: Launch, index: int) -> None:
    """Give an instance that is about to boot its addresses and names, and note what its host will need.

    Raises:
        ServiceError: the subnet or the region has no address left.
    """
    kind, image = TYPES[asked.known("instanceType")], IMAGES[asked.known("ami")]
    subnet = asked.subnet(database) or database.records[_default_subnet(database)]
    region, vpc = region_of(record.inputs), database.records[subnet.inputs["vpcId"]]
    default = (vpc.computed["defaultSecurityGroupId"],)
    nics = [_interface(one, default, subnet.id) for one in asked.nics]
    _give_addresses(database, nics, subnet, asked)
    first = next(one for one, nic in zip(nics, asked.nics, strict=True) if (nic.card, nic.device) == (0, 0))
    wished = next(nic.public for nic in asked.nics if (nic.card, nic.device) == (0, 0))
    wants_public = bool(subnet.inputs.get("mapPublicIpOnLaunch")) if wished is None else wished
    public = addresses.free_public(database) if wants_public else None
    if wants_public and public is None:
        raise ServiceError(refused("", "AddressLimitExceeded", "No public address is left."), "EC2", "RunInstances")
    hostname = "ip-" + first["address"].replace(".", "-")
    domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
    zone = subnet.private["zone"]
    options = asked.known("metadataOptions") or {}
    groups = [database.records[one] for one in first["groups"]]
    profile = by_name(database, PROFILE, asked.profile)
    tags = dict(asked.tags) | dict(record.inputs.get("tags") or {})
    efa = any(nic.efa for nic in asked.nics)
    record.private.update(
        addresses=[one["address"] for one in nics if one["address"]], nics=nics, vpc=vpc.id, subnet=subnet.id, zone=zone,
        zone_id=zone_id(zone), cidr=subnet.inputs["cidrBlock"], index=index, hostname=hostname, domain=domain,
        image=image.id, type=kind.name, architecture=kind.architecture, market=asked.market,
        reservation=asked.reservation or "", reservation_id=f"r-0{_digits()}", group_names=[_name(one) for one in groups],
        profile=shown(profile) if profile else "", placement_group=asked.placement_group or "", tags=tags,
        metadata_tags=str(options.get("instanceMetadataTags")) == "enabled",
        metadata=str(options.get("httpEndpoint", "enabled")) == "enabled",
        key=asked.known("keyName") or "", efa_cards=[nic.card for nic in asked.nics if nic.efa],
        efa_groups=[one["groups"] for one, nic in zip(nics, asked.nics, strict=True) if nic.efa],
        fabric=fabric.fabric_id(vpc, zone) if efa else "", user_data=(asked.user_data or b"").decode(errors="surrogateescape"),
    )  # fmt: skip
    record.computed.update(_outputs(record, asked, first, public, region))


def _outputs(record: Record, asked: Launch, first: Mapping[str, Any], public: str | None, region: str) -> dict[str, Any]:
    private = record.private
    outside = "compute-1" if region == "us-east-1" else f"{region}.compute"
    image = IMAGES[private["image"]]
    root = {
        "volumeId": f"vol-{record.id[2:]}", "deviceName": image.root_device, "volumeSize": image.root_gib, "volumeType": "gp3",
        "iops": 3000, "throughput": 125, "encrypted": False, "deleteOnTermination": True, "kmsKeyId": "", "tags": {},
        "tagsAll": {},
    }  # fmt: skip
    return {
        "ami": private["image"], "instanceType": private["type"], "availabilityZone": private["zone"],
        "subnetId": private["subnet"], "privateIp": first["address"], "privateDns": f"{private['hostname']}.{private['domain']}",
        "publicIp": public or "", "publicDns": f"ec2-{public.replace('.', '-')}.{outside}.amazonaws.com" if public else "",
        "primaryNetworkInterfaceId": first["id"], "vpcSecurityGroupIds": list(first["groups"]), "securityGroups": [],
        "arn": f"arn:aws:ec2:{region}:{record.computed['ownerId']}:instance/{record.id}", "instanceState": "running",
        "keyName": private["key"], "placementGroup": private["placement_group"], "tenancy": "default", "monitoring": False,
        "ebsOptimized": False, "sourceDestCheck": True, "disableApiTermination": False, "disableApiStop": False,
        "associatePublicIpAddress": public is not None, "iamInstanceProfile": private["profile"],
        "rootBlockDevice": root | {key: value for key, value in asked.root.items() if key in root},
        "instanceInitiatedShutdownBehavior": asked.known("instanceInitiatedShutdownBehavior") or "stop",
        "tags": private["tags"], "tagsAll": private["tags"], "ipv6Addresses": [], "ipv6AddressCount": 0,
        "secondaryPrivateIps": [], "getPasswordData": False, "hibernation": False, "instanceLifecycle": "",
    }  # fmt: skip


def _interface(nic: launch.Nic, default: tuple[str, ...], subnet: str) -> dict[str, Any]:
    mac = ":".join(["0a", *(secrets.token_hex(1) for _ in range(5))])
    return {
        "id": f"eni-0{_digits()}", "card": nic.card, "device": nic.device, "kind": nic.kind, "mac": mac, "subnet": nic.subnet or subnet,
        "groups": list(nic.groups or default), "address": nic.address or "",
    }  # fmt: skip


def _give_addresses(database: Database, nics: list[dict[str, Any]], subnet: Record, asked: Launch) -> None:
    lacking = [one for one, nic in zip(nics, asked.nics, strict=True) if nic.kind != launch.EFA_ONLY and not one["address"]]
    found = addresses.free(database, subnet, len(lacking))
    if found is None:
        why = "The specified subnet does not have enough free addresses to satisfy the request."
        raise ServiceError(refused("", "InsufficientFreeAddressesInSubnet", why), "EC2", "RunInstances")
    for one, address in zip(lacking, found, strict=True):
        one["address"] = address


def _default_subnet(database: Database) -> str:
    raise ServiceError(
        refused("subnetId", "MissingInput", "No subnets found for the default VPC: the account has none, so name a subnet."),
        "EC2", "RunInstances",
    )  # fmt: skip


def _name(group: Record) -> str:
    return str(group.computed.get("name") or group.inputs.get("name") or group.id)


def _digits() -> str:
    return "".join(secrets.choice(_HEX) for _ in range(16))


def boot(cloud: Cloud, record: Record) -> None:
    """Start an instance's host on its network; one that runs already is left alone."""
    cloud.render(record.private["vpc"])
    database = cloud.store.read()
    private, kind = record.private, TYPES[record.private["type"]]
    region = region_of(record.inputs)
    profile = by_name(database, PROFILE, private["profile"])
    key = by_name(database, KEY, private["key"])
    rails = tuple(
        hosts.Rail(f"rdmap{at}", hca, kind.efa_gbps * GBPS, "efa")
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
        front_rate_bits_per_s=int(kind.front_gbps * GBPS),
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
        if wanted.market != "on-demand" and wanted.market != "capacity-block":
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
        place(database, record, wanted, _index(database, record.private["template"]))

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
