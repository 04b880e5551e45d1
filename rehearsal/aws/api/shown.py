"""Instances as EC2 returns them: members of `Instance` in botocore's service model."""

from __future__ import annotations

from typing import Any

from rehearsal.aws.images import IMAGES
from rehearsal.plugin.store import Record

Shown = dict[str, Any]
_CODES = {"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48}
#: Codes and messages of the EC2 API's StateReason.
WHY = {
    "Client.UserInitiatedShutdown": "Client.UserInitiatedShutdown: User initiated shutdown",
    "Server.InternalError": "Server.InternalError: Internal error on launch",
}


def state(record: Record) -> str:
    """Return the state of an instance from its record."""
    if record.private.get("ending") or record.state == "TERMINATING":
        return "shutting-down"
    return "pending" if record.state in {"PROVISIONING", "pending"} else "running"


def named(name: str) -> Shown:
    """Return an InstanceState."""
    return {"Code": _CODES[name], "Name": name}


def tags(found: dict[str, str]) -> list[Shown]:
    """Return a list of Tag."""
    return [{"Key": key, "Value": value} for key, value in found.items()]


def instance(record: Record, why: str = "") -> Shown:
    """Return an Instance; if the instance was terminated, `why` is the code of the reason."""
    own, private = record.computed, record.private
    ended = bool(why)
    shown: Shown = {
        "InstanceId": record.id, "ImageId": private["image"], "State": named("terminated" if ended else state(record)),
        "PrivateDnsName": "" if ended else own["privateDns"], "PublicDnsName": "" if ended else own["publicDns"],
        "StateTransitionReason": WHY[why].partition(": ")[2] if ended else "", "KeyName": private["key"] or None,
        "AmiLaunchIndex": 0, "InstanceType": private["type"], "LaunchTime": private.get("launched"),
        "Placement": {"AvailabilityZone": private["zone"], "GroupName": private["placement_group"], "Tenancy": "default"},
        "Monitoring": {"State": "disabled"}, "Architecture": private["architecture"], "RootDeviceType": "ebs",
        "RootDeviceName": IMAGES[private["image"]].root_device, "VirtualizationType": "hvm", "Hypervisor": "xen",
        "ClientToken": private.get("clientToken", ""), "Tags": tags(private["tags"]), "EbsOptimized": False,
        "SourceDestCheck": True,
    }  # fmt: skip
    if private["market"] != "on-demand":
        shown["InstanceLifecycle"] = private["market"]
    if ended:
        return shown | {"StateReason": {"Code": why, "Message": WHY[why]}}
    groups = zip(private["nics"][0]["groups"], private["group_names"], strict=False)
    return shown | {
        "SubnetId": private["subnet"], "VpcId": private["vpc"], "PrivateIpAddress": own["privateIp"],
        "PublicIpAddress": own["publicIp"] or None,
        "SecurityGroups": [{"GroupId": group, "GroupName": name} for group, name in groups],
    }  # fmt: skip
