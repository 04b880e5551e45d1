"""Answers the data sources: what can be had here, and what a caller has; changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

from rehearsal import parameters
from rehearsal.aws import account, capacity
from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import refused
from rehearsal.aws.images import IMAGES, PARAMETERS, Image
from rehearsal.aws.kinds import INSTANCE, PLACEMENT, by_name
from rehearsal.aws.places import ACCOUNT, partition, zones
from rehearsal.aws.subnets import zone_id
from rehearsal.aws.types import BLOCK, GBPS, QUOTAS, SPOT_QUOTAS, TYPES, Type
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Record
from rehearsal.plugin.wire import UNKNOWN

Answer = dict[str, Any]
Lookup = Callable[[Mapping[str, Any], Cloud, str], Answer]
_MIB_PER_GIB = 1024


def answer(token: str, args: Mapping[str, Any], cloud: Cloud) -> Answer:
    """The result of a data source: its arguments, and what they found.

    Raises:
        KeyError: this cloud has no such data source.
        ServiceError: the service refused the arguments.
    """
    region = str(args.get("region") or cloud.region)
    found = LOOKUPS[token](args, cloud, region)
    name = token.rpartition(":")[2]
    return {"id": f"{name}-{region}", "region": region, **args, **found}


def _refused(code: str, message: str, service: str, operation: str, status: int = 400) -> ServiceError:
    return ServiceError(refused("", code, message, status), service, operation)


def _needed(args: Mapping[str, Any], name: str, service: str, operation: str) -> str:
    value = args.get(name)
    if value is None or value is UNKNOWN:
        raise _refused("MissingParameter", f"The request must contain the parameter {name}", service, operation)
    return str(value)


def _passes(args: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Whether something passes all of a request's filters; a filter that nothing here has is refused."""
    for one in args.get("filters") or []:
        name = str(one["name"])
        if name not in facts:
            raise _refused("InvalidParameterValue", f"The filter '{name}' is invalid or not played here.", "EC2", "Describe")
        have = facts[name] if isinstance(facts[name], list) else [facts[name]]
        if not any(fnmatchcase(str(value), str(wanted)) for value in have for wanted in one["values"]):
            return False
    return True


def _region(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    return {"id": region, "name": region, "description": f"{region} (rehearsed)", "endpoint": f"ec2.{region}.amazonaws.com"}


def _zones(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    names = list(zones(region))
    return {"names": names, "zoneIds": [zone_id(one) for one in names], "groupNames": [region]}


def _caller(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    arn = f"arn:{partition(region)}:iam::{ACCOUNT}:user/rehearsed"
    return {"id": ACCOUNT, "accountId": ACCOUNT, "arn": arn, "userId": "AIDAREHEARSEDREHEARSED"}


def _parameter(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    name = _needed(args, "name", "SSM", "GetParameter")
    public, own = PARAMETERS.get(name), parameters.get(cloud.world, name)
    if public is None and own is None:
        raise _refused("ParameterNotFound", f"couldn't find resource: {name}", "SSM", "GetParameter")
    value, kind, version = (own.value, own.type, own.version) if own else (str(public), "String", 1)
    slash = "" if name.startswith("/") else "/"
    owner = "" if public else ACCOUNT
    secret = kind == "SecureString"
    return {
        "id": name, "name": name, "value": value, "insecureValue": None if secret else value, "type": kind, "version": version,
        "arn": f"arn:{partition(region)}:ssm:{region}:{owner}:parameter{slash}{name}",
    }  # fmt: skip


def _instances(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    states = set(args.get("instanceStateNames") or ["running"])
    found = [one for one in cloud.store.read().of(INSTANCE) if _state(one) in states and _passes(args, _facts(one))]
    tags = {str(key): str(value) for key, value in (args.get("instanceTags") or {}).items()}
    found = [one for one in found if tags.items() <= one.private["tags"].items()]
    return {
        "ids": [one.id for one in found], "privateIps": [one.computed["privateIp"] for one in found],
        "publicIps": [one.computed["publicIp"] for one in found if one.computed["publicIp"]], "ipv6Addresses": [],
        "instanceTags": tags,
    }  # fmt: skip


def _state(record: Record) -> str:
    return "pending" if record.state in {"PROVISIONING", "pending"} else "running"


def _facts(record: Record) -> dict[str, Any]:
    private = record.private
    return {
        "instance-id": record.id, "instance-state-name": _state(record), "instance-type": private["type"],
        "vpc-id": private["vpc"], "subnet-id": private["subnet"], "availability-zone": private["zone"],
        "image-id": private["image"], "private-ip-address": record.computed["privateIp"],
        "placement-group-name": private["placement_group"], "tag-key": list(private["tags"]),
        **{f"tag:{key}": value for key, value in private["tags"].items()},
    }  # fmt: skip


def _offerings(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    kind = str(args.get("locationType") or "region")
    if kind not in {"region", "availability-zone", "availability-zone-id"}:
        raise _refused(
            "InvalidParameterValue", f"Invalid value '{kind}' for locationType.", "EC2", "DescribeInstanceTypeOfferings"
        )
    found: list[tuple[str, str]] = []
    for one in TYPES.values():
        offered = one.offered(zones(region))
        by_kind = {
            "region": [region],
            "availability-zone": offered,
            "availability-zone-id": [zone_id(zone) for zone in offered],
        }
        found += [(one.name, where) for where in by_kind[kind] if _passes(args, {"instance-type": one.name, "location": where})]
    return {
        "instanceTypes": [name for name, _ in found], "locations": [where for _, where in found],
        "locationTypes": [kind for _ in found], "locationType": kind,
    }  # fmt: skip


def _type(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    name = _needed(args, "instanceType", "EC2", "DescribeInstanceTypes")
    one = TYPES.get(name)
    if one is None or not one.offered(zones(region)):
        message = f"The following supplied instance types do not exist: [{name}]"
        raise _refused("InvalidInstanceType", message, "EC2", "DescribeInstanceTypes")
    del cloud
    return {"id": name, **_type_facts(one)}


def _type_facts(one: Type) -> Answer:
    cards = [
        {
            "index": at, "maximumInterfaces": most, "performance": f"{one.efa_gbps or one.front_gbps:g} Gigabit",
            "baselineBandwidth": float(one.efa_gbps or one.front_gbps), "peakBandwidth": float(one.efa_gbps or one.front_gbps),
        }
        for at, most in enumerate(one.cards)
    ]  # fmt: skip
    gpu = {"manufacturer": "NVIDIA", "name": one.gpu, "count": one.gpus, "memorySize": one.gpu_gib * _MIB_PER_GIB}
    disks = [{"count": len(one.nvme), "size": one.nvme[0] // GBPS, "type": "ssd"}] if one.nvme else []
    return {
        "instanceType": one.name, "defaultVcpus": one.vcpus, "memorySize": one.memory_gib * _MIB_PER_GIB,
        "supportedUsagesClasses": list(one.usage), "supportedPlacementStrategies": list(one.strategies),
        "efaSupported": bool(one.efa), "efaMaximumInterfaces": one.efa, "networkCards": cards,
        "maximumNetworkCards": len(one.cards), "defaultNetworkCardIndex": 0, "maximumNetworkInterfaces": one.cards[0],
        "supportedArchitectures": [one.architecture], "gpuses": [gpu] if one.gpu else [],
        "totalGpuMemory": one.gpus * one.gpu_gib * _MIB_PER_GIB, "instanceDisks": disks,
        "instanceStorageSupported": bool(one.nvme), "totalInstanceStorage": sum(one.nvme) // GBPS,
        "ebsOptimizedSupport": "default", "enaSupport": "required", "currentGeneration": True, "bareMetal": False,
        "hypervisor": "nitro", "supportedRootDeviceTypes": ["ebs"], "supportedVirtualizationTypes": ["hvm"],
        "networkPerformance": f"{one.efa * one.efa_gbps or one.front_gbps:g} Gigabit", "freeTierEligible": False,
        "efaMaximumInterface": one.efa,
    }  # fmt: skip


def _image(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    owners = [str(one) for one in args.get("owners") or []]
    found = [one for one in IMAGES.values() if _passes(args, _image_facts(one)) and (not owners or one.owner in owners)]
    pattern = args.get("nameRegex")
    found = [one for one in found if not pattern or re.search(str(pattern), one.name)]
    if not found:
        message = "Your query returned no results. Please change your search criteria and try again."
        raise _refused("InvalidAMIID.NotFound", message, "EC2", "DescribeImages")
    if len(found) > 1 and not args.get("mostRecent"):
        message = "Your query returned more than one result. Please try a more specific search criteria, or set mostRecent."
        raise _refused("TooManyResults", message, "EC2", "DescribeImages")
    return _image_answer(max(found, key=lambda one: one.name[-8:]), region)


def _image_facts(one: Image) -> dict[str, Any]:
    return {
        "image-id": one.id, "name": one.name, "architecture": one.architecture, "state": "available", "owner-id": _owner(one),
        "owner-alias": one.owner, "root-device-type": "ebs", "virtualization-type": "hvm", "root-device-name": one.root_device,
        "description": one.description, "is-public": "true", "ena-support": "true", "image-type": "machine",
    }  # fmt: skip


def _owner(one: Image) -> str:
    return "898082745236" if one.owner == "amazon" else one.owner  # the account of the Deep Learning images


def _image_answer(one: Image, region: str) -> Answer:
    snapshot = one.id.replace("ami-", "snap-")
    ebs = {
        "volume_size": str(one.root_gib), "volume_type": "gp3", "encrypted": "false", "delete_on_termination": "true",
        "snapshot_id": snapshot, "iops": "3000", "throughput": "125",
    }  # fmt: skip
    return {
        "id": one.id, "imageId": one.id, "name": one.name, "description": one.description, "architecture": one.architecture,
        "arn": f"arn:{partition(region)}:ec2:{region}::image/{one.id}", "rootDeviceName": one.root_device,
        "rootDeviceType": "ebs", "rootSnapshotId": snapshot, "virtualizationType": "hvm", "state": "available", "public": True,
        "ownerId": _owner(one), "imageOwnerAlias": one.owner, "imageType": "machine", "hypervisor": "xen", "enaSupport": True,
        "blockDeviceMappings": [{"deviceName": one.root_device, "ebs": ebs, "noDevice": "", "virtualName": ""}],
        "creationDate": f"{one.name[-8:]}" if one.name[-8:].isdigit() else "20261012", "platformDetails": "Linux/UNIX",
        "imageLocation": f"{one.owner}/{one.name}", "productCodes": [], "usageOperation": "RunInstances", "sriovNetSupport": "simple",
        "stateReason": {"code": "UNSET", "message": "UNSET"}, "tags": {}, "bootMode": "uefi-preferred", "imdsSupport": "v2.0",
        "deprecationTime": "", "kernelId": "", "ramdiskId": "", "platform": "", "tpmSupport": "", "lastLaunchedTime": "",
    }  # fmt: skip


def _quota(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    service = _needed(args, "serviceCode", "Service Quotas", "GetServiceQuota")
    listed = {name: (code, value) for name, code, value in QUOTAS.values()} | SPOT_QUOTAS
    del cloud
    for name, (code, value) in listed.items():
        if service == "ec2" and (args.get("quotaName") == name or args.get("quotaCode") == code):
            return {
                "id": f"{service}/{code}", "quotaName": name, "quotaCode": code, "value": value, "defaultValue": 0.0,
                "adjustable": True, "globalQuota": False, "serviceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
                "arn": f"arn:{partition(region)}:servicequotas:{region}:{ACCOUNT}:{service}/{code}", "usageMetrics": [],
            }  # fmt: skip
    wanted = args.get("quotaName") or args.get("quotaCode")
    raise _refused("NoSuchResourceException", f"no quota {wanted} of {service} exists.", "Service Quotas", "GetServiceQuota")


def _resource(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    kind, name = (_needed(args, one, "CloudControl", "GetResource") for one in ("typeName", "identifier"))
    found = _CONTROLLED[kind](name, cloud, region) if kind in _CONTROLLED else None
    if kind not in _CONTROLLED:
        raise _refused("TypeNotFoundException", f"The rehearsal does not show {kind}.", "CloudControl", "GetResource")
    if found is None:
        message = f"ResourceNotFoundException: AWS::{kind.partition('::')[2]} {name} was not found"
        raise _refused("ResourceNotFoundException", message, "CloudControl", "GetResource")
    return {"id": name, "properties": json.dumps(found)}


def _controlled_reservation(name: str, cloud: Cloud, region: str) -> Answer | None:
    one = capacity.reservations(cloud.store.read(), region).get(name)
    if one is None:
        return None
    group = (
        f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}:placement-group/{one.placement_group}" if one.placement_group else ""
    )
    left = one.count - capacity.used(cloud.store.read(), one.id)
    found = {
        "Id": one.id, "InstanceType": one.type, "AvailabilityZone": one.zone, "InstanceCount": one.count, "State": "active",
        "TotalInstanceCount": one.count, "AvailableInstanceCount": left, "InstanceMatchCriteria": one.match,
        "ReservationType": BLOCK if one.block else "default", "Tenancy": "default",
    }  # fmt: skip
    return found | ({"PlacementGroupArn": group} if group else {})


def _controlled_group(name: str, cloud: Cloud, region: str) -> Answer | None:
    del cloud
    if name != account.GROUP:
        return None
    arns = [f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}:capacity-reservation/{one}" for one in account.POOLED]
    return {
        "Name": name, "Arn": account.group_arn(region), "Resources": arns,
        "Configuration": [
            {"Type": "AWS::EC2::CapacityReservationPool"},
            {"Type": "AWS::ResourceGroups::Generic",
             "Parameters": [{"Name": "allowed-resource-types", "Values": ["AWS::EC2::CapacityReservation"]}]},
        ],
    }  # fmt: skip


def _controlled_placement(name: str, cloud: Cloud, region: str) -> Answer | None:
    del region
    record = by_name(cloud.store.read(), PLACEMENT, name)
    if record is not None:
        return {"GroupName": name, "Strategy": record.inputs.get("strategy", "cluster")}
    return {"GroupName": name, "Strategy": "cluster"} if name == account.PLACEMENT_GROUP else None


_CONTROLLED: Mapping[str, Callable[[str, Cloud, str], Answer | None]] = {
    "AWS::EC2::CapacityReservation": _controlled_reservation,
    "AWS::ResourceGroups::Group": _controlled_group,
    "AWS::EC2::PlacementGroup": _controlled_placement,
}


def _block(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    name = _needed(args, "id", "EC2", "DescribeCapacityReservations")
    one = capacity.reservations(cloud.store.read(), region).get(name)
    if one is None or not one.block:
        message = f"The capacity reservation ID '{name}' does not exist" if one is None else f"{name} is no Capacity Block"
        raise _refused("InvalidCapacityReservationId.NotFound", message, "EC2", "DescribeCapacityReservations")
    return {
        "id": name, "instanceType": one.type, "instanceCount": one.count, "availabilityZone": one.zone, "state": "active",
        "placementGroupArn": "", "reservationType": BLOCK, "tenancy": "default", "instancePlatform": "Linux/UNIX",
        "arn": f"arn:{partition(region)}:ec2:{region}:{ACCOUNT}:capacity-reservation/{name}", "tags": {}, "outpostArn": "",
    }  # fmt: skip


def _offer(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    del cloud
    name, operation = _needed(args, "instanceType", "EC2", "DescribeCapacityBlockOfferings"), "DescribeCapacityBlockOfferings"
    kind, count, hours = TYPES.get(name), int(args.get("instanceCount") or 0), int(args.get("capacityDurationHours") or 0)
    if kind is None or BLOCK not in kind.usage or not 1 <= count <= 64 or hours % 24 or not hours:  # noqa: API
        raise _refused(
            "InvalidParameterValue", f"no capacity block offering for {count} x {name}, {hours} hours", "EC2", operation
        )
    start = (datetime.now(UTC) + timedelta(days=1)).replace(hour=11, minute=30, second=0, microsecond=0)
    fee = count * hours * float(account.OFFERED_USD_PER_HOUR)
    return {
        "capacityBlockOfferingId": capacity.offering_id(name, count), "availabilityZone": zones(region)[0],
        "startDateRange": f"{start:%Y-%m-%dT%H:%M:%SZ}", "endDateRange": f"{start + timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}",
        "upfrontFee": f"{fee:.2f}", "currencyCode": "USD", "tenancy": "default",
    }  # fmt: skip


LOOKUPS: Mapping[str, Lookup] = {
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getAvailabilityZones:getAvailabilityZones": _zones,
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:ssm/getParameter:getParameter": _parameter,
    "aws:ec2/getInstances:getInstances": _instances,
    "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": _offerings,
    "aws:ec2/getInstanceType:getInstanceType": _type,
    "aws:ec2/getAmi:getAmi": _image,
    "aws:servicequotas/getServiceQuota:getServiceQuota": _quota,
    "aws:cloudcontrol/getResource:getResource": _resource,
    "aws:ec2/getCapacityBlockReservation:getCapacityBlockReservation": _block,
    "aws:ec2/getCapacityBlockOffering:getCapacityBlockOffering": _offer,
}
"""Token -> what answers it."""
