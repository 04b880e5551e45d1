"""Metadata of an instance, as the instance metadata service returns it: text by path.

Paths: EC2 user guide, "Instance metadata categories".
"""

from __future__ import annotations

import json
from typing import Any

from rehearsal.aws.places import ACCOUNT
from rehearsal.plugin.store import Record

_META = "latest/meta-data"


def metadata(record: Record, region: str, profile: Record | None, role: str = "") -> dict[str, str]:
    """Return all metadata of an instance, but no credentials of `role`: the metadata service creates those on request."""
    own, private = record.computed, record.private
    zone, address, name = private["zone"], own["privateIp"], own["privateDns"]
    found = {
        "ami-id": private["image"], "ami-launch-index": str(max(private["index"], 0)), "ami-manifest-path": "(unknown)",
        "hostname": name, "instance-action": "none", "instance-id": record.id, "instance-life-cycle": private["market"],
        "instance-type": private["type"], "local-hostname": name, "local-ipv4": address, "mac": private["nics"][0]["mac"],
        "placement/availability-zone": zone, "placement/availability-zone-id": private["zone_id"],
        "placement/region": region, "profile": "default-hvm", "reservation-id": private["reservation_id"],
        "security-groups": "\n".join(private["group_names"]), "services/domain": "amazonaws.com", "services/partition": "aws",
    }  # fmt: skip
    if own.get("publicIp"):
        found |= {"public-ipv4": own["publicIp"], "public-hostname": own["publicDns"]}
    if private.get("placement_group"):
        found["placement/group-name"] = private["placement_group"]
    if profile is not None:
        arn = profile.computed.get("arn", "")
        info = {"Code": "Success", "InstanceProfileArn": arn, "InstanceProfileId": profile.computed.get("uniqueId", "")}
        found["iam/info"] = json.dumps(info)
    if role:
        found[f"iam/security-credentials/{role}"] = ""
    if private.get("metadata_tags"):
        found |= {f"tags/instance/{key}": value for key, value in private["tags"].items()}
    for nic in private["nics"]:
        found |= _interface(nic, private)
    document = {
        "accountId": ACCOUNT, "architecture": private["architecture"], "availabilityZone": zone, "imageId": private["image"],
        "instanceId": record.id, "instanceType": private["type"], "privateIp": address, "region": region,
        "version": "2017-09-30",
    }  # fmt: skip
    texts = {f"{_META}/{path}": text for path, text in found.items()}
    return texts | {"latest/dynamic/instance-identity/document": json.dumps(document, indent=2)}


def _interface(nic: dict[str, Any], private: dict[str, Any]) -> dict[str, str]:
    base = f"network/interfaces/macs/{nic['mac']}"
    found = {
        "device-number": str(nic["device"]), "network-card": str(nic["card"]), "interface-id": nic["id"], "mac": nic["mac"],
        "owner-id": ACCOUNT, "security-group-ids": "\n".join(nic["groups"]), "subnet-id": nic["subnet"],
        "vpc-id": private["vpc"], "subnet-ipv4-cidr-block": private["cidr"],
    }  # fmt: skip
    if nic["address"]:
        found["local-ipv4s"] = nic["address"]
    return {f"{base}/{name}": text for name, text in found.items()}
