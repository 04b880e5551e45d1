"""Decides which changed properties make AWS's Pulumi provider replace a resource.

These are the properties that the provider's documentation and schema mark as forcing a new resource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehearsal.aws.sdk import SDK
from rehearsal.plugin.diff import Changes, compare
from rehearsal.plugin.sdk import Field

_ALL = frozenset({"*"})
_RULE = frozenset({"securityGroupId"})
_SYSTEM = frozenset({"backupId", "deploymentType", "kmsKeyId", "securityGroupIds", "storageType", "subnetIds"})

#: Type token -> properties whose change replaces the resource; `*`: every property except tags.
REPLACED: Mapping[str, frozenset[str]] = {
    "aws:ec2/vpc:Vpc": frozenset({"cidrBlock", "ipv4IpamPoolId", "ipv4NetmaskLength"}),
    "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation": _ALL,
    "aws:ec2/subnet:Subnet": frozenset(
        {"availabilityZone", "availabilityZoneId", "cidrBlock", "ipv6Native", "outpostArn", "vpcId"}
    ),
    "aws:ec2/internetGateway:InternetGateway": frozenset(),
    "aws:ec2/eip:Eip": frozenset({"address", "customerOwnedIpv4Pool", "domain", "networkBorderGroup", "publicIpv4Pool"}),
    "aws:ec2/natGateway:NatGateway": frozenset({"allocationId", "connectivityType", "privateIp", "subnetId", "vpcId"}),
    "aws:ec2/routeTable:RouteTable": frozenset({"vpcId"}),
    "aws:ec2/route:Route": frozenset(
        {"destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId", "routeTableId"}
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": frozenset({"gatewayId", "subnetId"}),
    "aws:ec2/vpcEndpoint:VpcEndpoint": frozenset({"serviceName", "serviceRegion", "vpcEndpointType", "vpcId"}),
    "aws:ec2/securityGroup:SecurityGroup": frozenset({"description", "name", "namePrefix", "vpcId"}),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _RULE,
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _RULE,
    "aws:ec2/keyPair:KeyPair": frozenset({"keyName", "keyNamePrefix", "publicKey"}),
    "aws:ec2/placementGroup:PlacementGroup": frozenset({"name", "partitionCount", "spreadLevel", "strategy"}),
    "aws:ec2/launchTemplate:LaunchTemplate": frozenset({"name", "namePrefix"}),
    "aws:ec2/instance:Instance": frozenset(
        {
            "ami", "availabilityZone", "cpuOptions", "enclaveOptions", "ephemeralBlockDevices", "hibernation", "hostId",
            "instanceMarketOptions", "ipv6AddressCount", "keyName", "networkInterfaces", "placementGroup", "privateIp",
            "associatePublicIpAddress", "secondaryPrivateIps", "securityGroups", "subnetId", "tenancy",
            "rootBlockDevice.encrypted", "rootBlockDevice.kmsKeyId", "ebsBlockDevices",
        }
    ),
    "aws:ec2/fleet:Fleet": frozenset(
        {"launchTemplateConfigs", "onDemandOptions", "replaceUnhealthyInstances", "spotOptions",
         "terminateInstancesWithExpiration", "type", "validFrom", "validUntil",
         "targetCapacitySpecification.defaultTargetCapacityType"}
    ),
    "aws:ec2/capacityReservation:CapacityReservation": frozenset(
        {"availabilityZone", "ebsOptimized", "ephemeralStorage", "instanceMatchCriteria", "instancePlatform", "instanceType",
         "outpostArn", "placementGroupArn", "tenancy"}
    ),
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": frozenset({"capacityBlockOfferingId", "instancePlatform"}),
    "aws:iam/role:Role": frozenset({"name", "namePrefix", "path"}),
    "aws:iam/rolePolicy:RolePolicy": frozenset({"name", "namePrefix", "role"}),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": _ALL,
    "aws:iam/instanceProfile:InstanceProfile": frozenset({"name", "namePrefix", "path"}),
    "aws:fsx/lustreFileSystem:LustreFileSystem": _SYSTEM | {
        "copyTagsToBackups", "driveCacheType", "efaEnabled", "exportPath", "fileSystemTypeVersion", "importPath",
        "importedFileChunkSize",
    },
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem": _SYSTEM | {
        "copyTagsToBackups", "copyTagsToVolumes", "endpointIpAddressRange", "networkType", "preferredSubnetId",
        "rootVolumeConfiguration.copyTagsToSnapshots",
    },
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": frozenset(
        {"batchImportMetaDataOnCreate", "dataRepositoryPath", "fileSystemId", "fileSystemPath"}
    ),
    "aws:s3/bucket:Bucket": frozenset({"bucket", "bucketPrefix", "objectLockEnabled"}),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": frozenset({"bucket"}),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": frozenset({"bucket"}),
    "aws:ssm/parameter:Parameter": frozenset({"dataType", "name"}),
}  # fmt: skip


def changes(token: str, old: Mapping[str, Any], new: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> Changes:
    """Return which properties differ between the inputs `old` and `new`, and which of these differences replace the resource.

    `state` is what the provider last read from the cloud; an instance's new tags are compared with the tags in `state`, not
    with the tags in `old`.
    """
    if state and token.endswith(":Instance"):
        # The provider's Read stores all tags of the instance, including the tags from the instance's launch template
        # (terraform-provider-aws:internal/service/ec2/ec2_instance.go: SetTagsOut), and `tags` is not a computed property. So
        # each tag that the instance has, but the program does not set, is a difference.
        old = {**old, "tags": {key: text for key, text in (state.get("tags") or {}).items() if not key.startswith("aws:")}}
        new = {**new, "tags": new.get("tags") or {}}
    replaced = REPLACED[token]

    def updatable(path: str, field: Field) -> bool:  # noqa: ARG001
        # A change of region always replaces the resource.
        return path != "region" and path not in replaced and ("*" not in replaced or path == "tags")

    found = compare(old, new, SDK.inputs(token), updatable)
    if token.endswith(":Instance"):
        _instance(old, new, found)
    if token.endswith(":LustreFileSystem") and _shrinks(old, new):
        found.replaced.append("storageCapacity")
    return found


def _instance(old: Mapping[str, Any], new: Mapping[str, Any], found: Changes) -> None:
    """Add to `found` the changed properties that replace an instance.

    A change to another launch template replaces the instance, but a change to another version of the same template does not. A
    change of the user data replaces the instance if userDataReplaceOnChange is set.
    """
    if new.get("userDataReplaceOnChange"):
        found.replaced += [name for name in ("userData", "userDataBase64") if name in found.changed]
    before, after = old.get("launchTemplate") or {}, new.get("launchTemplate") or {}
    if any(before.get(name) != after.get(name) for name in ("id", "name")) and "launchTemplate" in str(found.changed):
        found.replaced.append("launchTemplate")


def _shrinks(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    sizes = [one.get("storageCapacity") for one in (old, new)]
    return isinstance(sizes[0], int) and isinstance(sizes[1], int) and sizes[1] < sizes[0]
