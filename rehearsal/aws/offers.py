"""Data sources of AWS's instance types, images and quotas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.images import IMAGES, Image
from rehearsal.aws.lookup_requests import Answer, needed, passes, refusal
from rehearsal.aws.places import ACCOUNT, partition, zones
from rehearsal.aws.subnets import zone_id
from rehearsal.aws.types import ADDRESS_QUOTA, GIGA, QUOTAS, SPOT_QUOTAS, TYPES, Type

_MIB_PER_GIB = 1024


def offerings(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    """Return the locations (regions or zones) where instance types are offered.

    Raises:
        ServiceError: the request is invalid.
    """
    kind = str(args.get("locationType") or "region")
    if kind not in {"region", "availability-zone", "availability-zone-id"}:
        raise refusal(
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
        found += [(one.name, where) for where in by_kind[kind] if passes(args, {"instance-type": one.name, "location": where})]
    return {
        "instanceTypes": [name for name, _ in found],
        "locations": [where for _, where in found],
        "locationTypes": [kind for _ in found],
        "locationType": kind,
    }


def machine(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return the facts of an instance type.

    Raises:
        ServiceError: the region does not offer this instance type, or the request is invalid.
    """
    name = needed(args, "instanceType", "EC2", "DescribeInstanceTypes")
    one = TYPES.get(name)
    if one is None or not one.offered(zones(region)):
        message = f"The following supplied instance types do not exist: [{name}]"
        raise refusal("InvalidInstanceType", message, "EC2", "DescribeInstanceTypes")
    del cloud
    return {"id": name, **_type_facts(one)}


def _type_facts(one: Type) -> Answer:
    cards = [
        {
            "index": at,
            "maximumInterfaces": most,
            "performance": f"{one.efa_gbit_s or one.front_gbit_s:g} Gigabit",
            "baselineBandwidth": float(one.efa_gbit_s or one.front_gbit_s),
            "peakBandwidth": float(one.efa_gbit_s or one.front_gbit_s),
        }
        for at, most in enumerate(one.cards)
    ]
    gpu = {"manufacturer": "NVIDIA", "name": one.gpu, "count": one.gpus, "memorySize": one.gpu_gib * _MIB_PER_GIB}
    disks = [{"count": len(one.nvme), "size": one.nvme[0] // GIGA, "type": "ssd"}] if one.nvme else []
    return {
        "instanceType": one.name, "defaultVcpus": one.vcpus, "memorySize": one.memory_gib * _MIB_PER_GIB,
        "supportedUsagesClasses": list(one.usage), "supportedPlacementStrategies": list(one.strategies),
        "efaSupported": bool(one.efa), "efaMaximumInterfaces": one.efa, "networkCards": cards,
        "maximumNetworkCards": len(one.cards), "defaultNetworkCardIndex": 0, "maximumNetworkInterfaces": one.cards[0],
        "supportedArchitectures": [one.architecture], "gpuses": [gpu] if one.gpu else [],
        "totalGpuMemory": one.gpus * one.gpu_gib * _MIB_PER_GIB, "instanceDisks": disks,
        "instanceStorageSupported": bool(one.nvme), "totalInstanceStorage": sum(one.nvme) // GIGA,
        "ebsOptimizedSupport": "default", "enaSupport": "required", "currentGeneration": True, "bareMetal": False,
        "hypervisor": "nitro", "supportedRootDeviceTypes": ["ebs"], "supportedVirtualizationTypes": ["hvm"],
        "networkPerformance": f"{one.efa * one.efa_gbit_s or one.front_gbit_s:g} Gigabit", "freeTierEligible": False,
    }  # fmt: skip


def image(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:  # noqa: ARG001
    """Return the image that a request selects.

    Raises:
        ServiceError: no image matches, several match without `mostRecent`, or the request is invalid.
    """
    owners = [str(one) for one in args.get("owners") or []]
    found = [one for one in IMAGES.values() if passes(args, _image_facts(one)) and (not owners or one.owner in owners)]
    pattern = args.get("nameRegex")
    found = [one for one in found if not pattern or re.search(str(pattern), one.name)]
    if not found:
        message = "Your query returned no results. Please change your search criteria and try again."
        raise refusal("InvalidAMIID.NotFound", message, "EC2", "DescribeImages")
    if len(found) > 1 and not args.get("mostRecent"):
        message = "Your query returned more than one result. Please try a more specific search criteria, or set mostRecent."
        raise refusal("TooManyResults", message, "EC2", "DescribeImages")
    return _image_answer(max(found, key=lambda one: one.name[-8:]), region)


def _image_facts(one: Image) -> dict[str, Any]:
    return {
        "image-id": one.id, "name": one.name, "architecture": one.architecture, "state": "available", "owner-id": _owner(one),
        "owner-alias": one.owner, "root-device-type": "ebs", "virtualization-type": "hvm", "root-device-name": one.root_device,
        "description": one.description, "is-public": "true", "ena-support": "true", "image-type": "machine",
    }  # fmt: skip


def _owner(one: Image) -> str:
    return "898082745236" if one.owner == "amazon" else one.owner  # account that publishes the Deep Learning images


def _image_answer(one: Image, region: str) -> Answer:
    snapshot = one.id.replace("ami-", "snap-")
    ebs = {
        "volume_size": str(one.root_gib),
        "volume_type": "gp3",
        "encrypted": "false",
        "delete_on_termination": "true",
        "snapshot_id": snapshot,
        "iops": "3000",
        "throughput": "125",
    }
    return {
        "id": one.id, "imageId": one.id, "name": one.name, "description": one.description, "architecture": one.architecture,
        "arn": f"arn:{partition(region)}:ec2:{region}::image/{one.id}", "rootDeviceName": one.root_device,
        "rootDeviceType": "ebs", "rootSnapshotId": snapshot, "virtualizationType": "hvm", "state": "available", "public": True,
        "ownerId": _owner(one), "imageOwnerAlias": one.owner, "imageType": "machine", "hypervisor": "xen", "enaSupport": True,
        "blockDeviceMappings": [{"deviceName": one.root_device, "ebs": ebs, "noDevice": "", "virtualName": ""}],
        "creationDate": f"{one.name[-8:]}" if one.name[-8:].isdigit() else "20261012", "platformDetails": "Linux/UNIX",
        "imageLocation": f"{one.owner}/{one.name}", "productCodes": [], "usageOperation": "RunInstances",
        "sriovNetSupport": "simple",
        "stateReason": {"code": "UNSET", "message": "UNSET"}, "tags": {}, "bootMode": "uefi-preferred", "imdsSupport": "v2.0",
        "deprecationTime": "", "kernelId": "", "ramdiskId": "", "platform": "", "tpmSupport": "", "lastLaunchedTime": "",
    }  # fmt: skip


def quota(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return a quota of the account.

    Raises:
        ServiceError: the rehearsal has no quota with this name or code, or the request is invalid.
    """
    service = needed(args, "serviceCode", "Service Quotas", "GetServiceQuota")
    listed = {name: (code, value) for name, code, value in (*QUOTAS.values(), ADDRESS_QUOTA)} | SPOT_QUOTAS
    del cloud
    for name, (code, value) in listed.items():
        if service == "ec2" and (args.get("quotaName") == name or args.get("quotaCode") == code):
            return {
                "id": f"{service}/{code}", "quotaName": name, "quotaCode": code, "value": value, "defaultValue": 0.0,
                "adjustable": True, "globalQuota": False, "serviceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
                "arn": f"arn:{partition(region)}:servicequotas:{region}:{ACCOUNT}:{service}/{code}", "usageMetrics": [],
            }  # fmt: skip
    wanted = args.get("quotaName") or args.get("quotaCode")
    raise refusal("NoSuchResourceException", f"no quota {wanted} of {service} exists.", "Service Quotas", "GetServiceQuota")
