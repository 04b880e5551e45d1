"""Assigns an instance's addresses, network interfaces and names, and computes the instance's outputs."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from rehearsal.aws import addresses, fabric, launch
from rehearsal.aws.errors import refused
from rehearsal.aws.images import IMAGES
from rehearsal.aws.kinds import PROFILE, by_name, shown
from rehearsal.aws.launch import Launch
from rehearsal.aws.places import region_of
from rehearsal.aws.subnets import zone_id
from rehearsal.aws.types import TYPES
from rehearsal.plugin.addresses import free_public
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Database, Record

_HEX = "0123456789abcdef"


def place(database: Database, record: Record, asked: Launch, index: int) -> None:
    """Assign an instance's addresses and names before the instance boots, and record what the instance's host will need.

    Raises:
        ServiceError: no subnet is named, the subnet has too few free addresses, or no public address is free.
    """
    kind, image = TYPES[asked.known("instanceType")], IMAGES[asked.known("ami")]
    subnet = asked.subnet(database) or _default_subnet()
    region, vpc = region_of(record.inputs), database.records[subnet.inputs["vpcId"]]
    default = (vpc.computed["defaultSecurityGroupId"],)
    nics = [_interface(one, default, subnet.id) for one in asked.nics]
    _give_addresses(database, nics, subnet, asked)
    first = next(one for one, nic in zip(nics, asked.nics, strict=True) if (nic.card, nic.device) == (0, 0))
    wished = next(nic.public for nic in asked.nics if (nic.card, nic.device) == (0, 0))
    wants_public = bool(subnet.inputs.get("mapPublicIpOnLaunch")) if wished is None else wished
    public = free_public(database) if wants_public else None
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
    image = IMAGES[private["image"]]
    root = {
        "volumeId": f"vol-{record.id[2:]}", "deviceName": image.root_device, "volumeSize": image.root_gib, "volumeType": "gp3",
        "iops": 3000, "throughput": 125, "encrypted": False, "deleteOnTermination": True, "kmsKeyId": "", "tags": {},
        "tagsAll": {},
    }  # fmt: skip
    return {
        "ami": private["image"], "instanceType": private["type"], "availabilityZone": private["zone"],
        "subnetId": private["subnet"], "privateIp": first["address"],
        "privateDns": f"{private['hostname']}.{private['domain']}",
        **addresses.public_names(public, region),
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
        "id": f"eni-0{_digits()}",
        "card": nic.card,
        "device": nic.device,
        "kind": nic.kind,
        "mac": mac,
        "subnet": nic.subnet or subnet,
        "groups": list(nic.groups or default),
        "address": nic.address or "",
    }


def _give_addresses(database: Database, nics: list[dict[str, Any]], subnet: Record, asked: Launch) -> None:
    lacking = [one for one, nic in zip(nics, asked.nics, strict=True) if nic.kind != launch.EFA_ONLY and not one["address"]]
    found = addresses.free(database, subnet, len(lacking))
    if found is None:
        why = "The specified subnet does not have enough free addresses to satisfy the request."
        raise ServiceError(refused("", "InsufficientFreeAddressesInSubnet", why), "EC2", "RunInstances")
    for one, address in zip(lacking, found, strict=True):
        one["address"] = address


def _default_subnet() -> Record:
    """Refuse a launch without a subnet, because the account has no default VPC.

    Raises:
        ServiceError: always.
    """
    raise ServiceError(
        refused(
            "subnetId",
            "MissingInput",
            "No subnets found for the default VPC: the account has no default VPC, so name a subnet.",
        ),
        "EC2",
        "RunInstances",
    )


def _name(group: Record) -> str:
    return str(group.computed.get("name") or group.inputs.get("name") or group.id)


def _digits() -> str:
    return "".join(secrets.choice(_HEX) for _ in range(16))
