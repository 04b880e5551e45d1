"""Maps each property of a resource to the member (field) of a request to AWS's API that the property sets.

For most properties, the names of property and member differ only in upper and lower case, plural or suffix. `MEMBERS` lists all
other properties, and the properties that this module does not check. Sources: botocore's service models and the provider's
documentation of each resource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal.aws import models
from rehearsal.aws.errors import Problem
from rehearsal.plugin.sdk import Inputs, ListOf, MapOf, Sdk
from rehearsal.plugin.wire import Unknown

#: Type token -> AWS service, and the shape (structure of a request) whose members the type's properties set.
REQUESTS: Mapping[str, tuple[str, str]] = {
    "aws:ec2/vpc:Vpc": ("ec2", "CreateVpcRequest"),
    "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation": ("ec2", "AssociateVpcCidrBlockRequest"),
    "aws:ec2/subnet:Subnet": ("ec2", "CreateSubnetRequest"),
    "aws:ec2/internetGateway:InternetGateway": ("ec2", "AttachInternetGatewayRequest"),
    "aws:ec2/eip:Eip": ("ec2", "AllocateAddressRequest"),
    "aws:ec2/natGateway:NatGateway": ("ec2", "CreateNatGatewayRequest"),
    "aws:ec2/routeTable:RouteTable": ("ec2", "CreateRouteTableRequest"),
    "aws:ec2/route:Route": ("ec2", "CreateRouteRequest"),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": ("ec2", "AssociateRouteTableRequest"),
    "aws:ec2/vpcEndpoint:VpcEndpoint": ("ec2", "CreateVpcEndpointRequest"),
    "aws:ec2/securityGroup:SecurityGroup": ("ec2", "CreateSecurityGroupRequest"),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": ("ec2", "IpPermission"),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": ("ec2", "IpPermission"),
    "aws:ec2/keyPair:KeyPair": ("ec2", "ImportKeyPairRequest"),
    "aws:ec2/placementGroup:PlacementGroup": ("ec2", "CreatePlacementGroupRequest"),
    "aws:ec2/launchTemplate:LaunchTemplate": ("ec2", "RequestLaunchTemplateData"),
    "aws:ec2/instance:Instance": ("ec2", "RunInstancesRequest"),
    "aws:ec2/fleet:Fleet": ("ec2", "CreateFleetRequest"),
    "aws:ec2/capacityReservation:CapacityReservation": ("ec2", "CreateCapacityReservationRequest"),
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": ("ec2", "PurchaseCapacityBlockRequest"),
    "aws:iam/role:Role": ("iam", "CreateRoleRequest"),
    "aws:iam/rolePolicy:RolePolicy": ("iam", "PutRolePolicyRequest"),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": ("iam", "AttachRolePolicyRequest"),
    "aws:iam/instanceProfile:InstanceProfile": ("iam", "CreateInstanceProfileRequest"),
    "aws:fsx/lustreFileSystem:LustreFileSystem": ("fsx", "CreateFileSystemLustreConfiguration"),
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem": ("fsx", "CreateFileSystemOpenZFSConfiguration"),
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": ("fsx", "CreateDataRepositoryAssociationRequest"),
    "aws:s3/bucket:Bucket": ("s3", "CreateBucketRequest"),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": ("s3", "PublicAccessBlockConfiguration"),
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": ("s3", "OwnershipControls"),
    "aws:ssm/parameter:Parameter": ("ssm", "PutParameterRequest"),
}

_RULE: Mapping[str, str | None] = {
    "securityGroupId": "AuthorizeSecurityGroupIngressRequest.GroupId",
    "cidrIpv4": "IpRange.CidrIp",
    "cidrIpv6": "Ipv6Range.CidrIpv6",
    "description": "IpRange.Description",
    "referencedSecurityGroupId": "UserIdGroupPair.GroupId",
}
_SYSTEM: dict[str, str | None] = {
    "subnetIds": "CreateFileSystemRequest.SubnetIds",
    "backupId": "CreateFileSystemFromBackupRequest.BackupId",
    "kmsKeyId": "CreateFileSystemRequest.KmsKeyId",
    "securityGroupIds": "CreateFileSystemRequest.SecurityGroupIds",
    "storageCapacity": "CreateFileSystemRequest.StorageCapacity",
    "storageType": "CreateFileSystemRequest.StorageType",
}
#: Type token -> dotted path of a property -> API member that the property sets; None: this module does not check the property.
MEMBERS: Mapping[str, Mapping[str, str | None]] = {
    "aws:ec2/vpc:Vpc": {
        "assignGeneratedIpv6CidrBlock": "CreateVpcRequest.AmazonProvidedIpv6CidrBlock",
        "enableDnsHostnames": "ModifyVpcAttributeRequest.EnableDnsHostnames.Value",
        "enableDnsSupport": "ModifyVpcAttributeRequest.EnableDnsSupport.Value",
        "enableNetworkAddressUsageMetrics": "ModifyVpcAttributeRequest.EnableNetworkAddressUsageMetrics.Value",
    },
    "aws:ec2/subnet:Subnet": {
        "assignIpv6AddressOnCreation": "ModifySubnetAttributeRequest.AssignIpv6AddressOnCreation.Value",
        "customerOwnedIpv4Pool": "ModifySubnetAttributeRequest.CustomerOwnedIpv4Pool",
        "enableDns64": "ModifySubnetAttributeRequest.EnableDns64.Value",
        "enableLniAtDeviceIndex": "ModifySubnetAttributeRequest.EnableLniAtDeviceIndex",
        "enableResourceNameDnsARecordOnLaunch": "ModifySubnetAttributeRequest.EnableResourceNameDnsARecordOnLaunch.Value",
        "enableResourceNameDnsAaaaRecordOnLaunch": "ModifySubnetAttributeRequest.EnableResourceNameDnsAAAARecordOnLaunch.Value",
        "mapCustomerOwnedIpOnLaunch": "ModifySubnetAttributeRequest.MapCustomerOwnedIpOnLaunch.Value",
        "mapPublicIpOnLaunch": "ModifySubnetAttributeRequest.MapPublicIpOnLaunch.Value",
        "privateDnsHostnameTypeOnLaunch": "ModifySubnetAttributeRequest.PrivateDnsHostnameTypeOnLaunch",
    },
    "aws:ec2/eip:Eip": {
        "associateWithPrivateIp": "AssociateAddressRequest.PrivateIpAddress",
        "instance": "AssociateAddressRequest.InstanceId",
        "networkInterface": "AssociateAddressRequest.NetworkInterfaceId",
    },
    "aws:ec2/natGateway:NatGateway": {"privateIp": "CreateNatGatewayRequest.PrivateIpAddress"},
    "aws:ec2/routeTable:RouteTable": {
        "propagatingVgws": "EnableVgwRoutePropagationRequest.GatewayId",
        "routes": None,  # the provider sends a CreateRouteRequest for each route
    },
    "aws:ec2/route:Route": {"egressOnlyGatewayId": "CreateRouteRequest.EgressOnlyInternetGatewayId"},
    "aws:ec2/vpcEndpoint:VpcEndpoint": {
        "autoAccept": None,  # if autoAccept is true, the provider makes a second call: AcceptVpcEndpointConnections
        "policy": "CreateVpcEndpointRequest.PolicyDocument",
    },
    "aws:ec2/securityGroup:SecurityGroup": {
        "egress": None,  # the provider sends an IpPermission for each rule
        "ingress": None,
        "name": "CreateSecurityGroupRequest.GroupName",
        "namePrefix": None,
        "revokeRulesOnDelete": None,  # the provider itself revokes the rules before it deletes the group
    },
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": _RULE,
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": _RULE,
    "aws:ec2/keyPair:KeyPair": {"publicKey": "ImportKeyPairRequest.PublicKeyMaterial", "keyNamePrefix": None},
    "aws:ec2/placementGroup:PlacementGroup": {"name": "CreatePlacementGroupRequest.GroupName"},
    "aws:ec2/launchTemplate:LaunchTemplate": {
        "defaultVersion": "ModifyLaunchTemplateRequest.DefaultVersion",
        "description": "CreateLaunchTemplateRequest.VersionDescription",
        "name": "LaunchTemplateName",  # this shape has a pattern; CreateLaunchTemplateRequest declares a String without limits
        "namePrefix": None,
        "networkInterfaces.ipv4AddressCount": (
            "LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.SecondaryPrivateIpAddressCount"
        ),
        "networkInterfaces.ipv4Addresses": "PrivateIpAddressSpecification.PrivateIpAddress",
        "networkInterfaces.securityGroups": "LaunchTemplateInstanceNetworkInterfaceSpecificationRequest.Groups",
        "securityGroupNames": "RequestLaunchTemplateData.SecurityGroups",
        "updateDefaultVersion": None,  # the provider itself updates the default version after it has created a version
        "vpcSecurityGroupIds": "RequestLaunchTemplateData.SecurityGroupIds",
    },
    "aws:ec2/instance:Instance": {
        "ami": "RunInstancesRequest.ImageId",
        "associatePublicIpAddress": "InstanceNetworkInterfaceSpecification.AssociatePublicIpAddress",
        "availabilityZone": "Placement.AvailabilityZone",
        "ebsBlockDevices": None,  # the rehearsal does not check the devices' properties, which set members of EbsBlockDevice
        "ephemeralBlockDevices": None,
        "forceDestroy": None,
        "getPasswordData": None,
        "hibernation": "HibernationOptionsRequest.Configured",
        "hostId": "Placement.HostId",
        "hostResourceGroupArn": "Placement.HostResourceGroupArn",
        "launchTemplate.id": "LaunchTemplateSpecification.LaunchTemplateId",
        "launchTemplate.name": "LaunchTemplateSpecification.LaunchTemplateName",
        "placementGroup": "Placement.GroupName",
        "placementGroupId": "Placement.GroupId",
        "placementPartitionNumber": "Placement.PartitionNumber",
        "primaryNetworkInterface": None,
        "privateIp": "RunInstancesRequest.PrivateIpAddress",
        "rootBlockDevice": None,  # launch_rules checks the root volume's properties
        "secondaryNetworkInterfaces": None,
        "secondaryPrivateIps": "PrivateIpAddressSpecification.PrivateIpAddress",
        "sourceDestCheck": "ModifyInstanceAttributeRequest.SourceDestCheck.Value",
        "tenancy": "Placement.Tenancy",
        "userDataBase64": "RunInstancesRequest.UserData",
        "userDataReplaceOnChange": None,
        "volumeTags": None,
        "vpcSecurityGroupIds": "RunInstancesRequest.SecurityGroupIds",
    },
    "aws:ec2/fleet:Fleet": {
        "fleetInstanceSets": None,  # an output that the SDK also accepts as an input
        "fleetState": None,
        "fulfilledCapacity": None,
        "fulfilledOnDemandCapacity": None,
        "terminateInstances": "DeleteFleetsRequest.TerminateInstances",
    },
    "aws:ec2/capacityBlockReservation:CapacityBlockReservation": {"timeouts": None},
    "aws:iam/role:Role": {
        "assumeRolePolicy": "CreateRoleRequest.AssumeRolePolicyDocument",
        "forceDetachPolicies": None,
        "inlinePolicies": None,
        "managedPolicyArns": "AttachRolePolicyRequest.PolicyArn",
        "name": "CreateRoleRequest.RoleName",
        "namePrefix": None,
    },
    "aws:iam/rolePolicy:RolePolicy": {
        "policy": "PutRolePolicyRequest.PolicyDocument",
        "role": "PutRolePolicyRequest.RoleName",
        "name": "PutRolePolicyRequest.PolicyName",
        "namePrefix": None,
    },
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": {"role": "AttachRolePolicyRequest.RoleName"},
    "aws:iam/instanceProfile:InstanceProfile": {
        "name": "CreateInstanceProfileRequest.InstanceProfileName",
        "namePrefix": None,
        "role": "AddRoleToInstanceProfileRequest.RoleName",
    },
    "aws:fsx/lustreFileSystem:LustreFileSystem": _SYSTEM
    | {
        "dataReadCacheConfiguration.size": "LustreReadCacheConfiguration.SizeGiB",
        "fileSystemTypeVersion": "CreateFileSystemRequest.FileSystemTypeVersion",
        "finalBackupTags": "DeleteFileSystemLustreConfiguration.FinalBackupTags",
        "skipFinalBackup": "DeleteFileSystemLustreConfiguration.SkipFinalBackup",
    },
    "aws:fsx/openZfsFileSystem:OpenZfsFileSystem": _SYSTEM
    | {
        "deleteOptions": "DeleteFileSystemOpenZFSConfiguration.Options",
        "finalBackupTags": "DeleteFileSystemOpenZFSConfiguration.FinalBackupTags",
        "networkType": "CreateFileSystemRequest.NetworkType",
        "readCacheConfiguration.size": "OpenZFSReadCacheConfiguration.SizeGiB",
        "skipFinalBackup": "DeleteFileSystemOpenZFSConfiguration.SkipFinalBackup",
    },
    "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": {
        "deleteDataInFilesystem": "DeleteDataRepositoryAssociationRequest.DeleteDataInFileSystem",
    },
    "aws:s3/bucket:Bucket": {
        "accelerationStatus": "AccelerateConfiguration.Status",
        "bucketPrefix": None,
        "corsRules": None,  # a separate call sets this, and every other None of a Bucket except forceDestroy
        "forceDestroy": None,
        "grants": None,
        "lifecycleRules": None,
        "logging": None,
        "objectLockConfiguration": None,
        "objectLockEnabled": "CreateBucketRequest.ObjectLockEnabledForBucket",
        "policy": "PutBucketPolicyRequest.Policy",
        "replicationConfiguration": None,
        "requestPayer": "RequestPaymentConfiguration.Payer",
        "serverSideEncryptionConfiguration": None,
        "versioning": None,
        "website": None,
    },
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": {"bucket": "CreateBucketRequest.Bucket", "skipDestroy": None},
    "aws:s3/bucketOwnershipControls:BucketOwnershipControls": {"bucket": "CreateBucketRequest.Bucket"},
    "aws:ssm/parameter:Parameter": {
        "arn": None,  # an output that the SDK also accepts as an input
        "insecureValue": "PutParameterRequest.Value",
        "valueWo": "PutParameterRequest.Value",
        "valueWoVersion": None,
    },
}

#: Value in the provider's spelling (documentation of aws:ec2:Fleet) -> the API's spelling.
SPELT: Mapping[str, str] = {"lowestPrice": "lowest-price"}

#: Properties that most resources have, and that this module does not check.
_EVERYWHERE = frozenset({"tags", "region"})


def broken(sdk: Sdk, token: str, inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each input that violates the service model of its API member."""
    service, shape = REQUESTS[token]
    yield from _walk(sdk.inputs(token), (token, service, shape), inputs, "", "")


def unmapped(sdk: Sdk, token: str) -> Iterator[str]:
    """Yield a type's properties for which no API member is known, and which `MEMBERS` does not list as None."""
    service, shape = REQUESTS[token]
    yield from _unmapped(sdk.inputs(token), (token, service, shape), "")


def _at(place: tuple[str, str, str], dotted: str, name: str) -> str | None:
    """Return the shape that a property of a structure maps to, or None."""
    token, service, shape = place
    listed = MEMBERS.get(token, {})
    if dotted in listed:
        named = listed[dotted]
        return models.member(service, named) if named else None
    members = models.shapes(service)[models.element(service, shape)].get("members", {})
    spelt = {one.lower(): one for one in members}
    # The SDK uses plurals for lists, and leaves out the ending of some members, such as `Specification`.
    for word in (name, f"{name}s", name.rstrip("s"), name.replace("Ids", "Id"), f"{name}Specification", f"{name}Request"):
        if word.lower() in spelt:
            return str(members[spelt[word.lower()]]["shape"])
    return None


def _walk(args: Inputs, place: tuple[str, str, str], inputs: Mapping[str, Any], path: str, dotted: str) -> Iterator[Problem]:
    token, service, _ = place
    known = args.fields
    for name, value in inputs.items():
        if name not in known or isinstance(value, Unknown) or value is None or (name in _EVERYWHERE and not path):
            continue
        here, plain = (f"{path}.{name}", f"{dotted}.{name}") if path else (name, name)
        shape = _at(place, plain, name)
        if shape is None:
            continue
        kind = known[name].type
        inner = kind.element if isinstance(kind, ListOf | MapOf) else kind
        said = SPELT.get(value, value) if isinstance(value, str) else value
        yield from models.refusals(service, shape, said, here)
        if isinstance(inner, Inputs):
            each = [(f"{here}[{at}]", one) for at, one in enumerate(value)] if isinstance(value, list) else [(here, value)]
            for where, one in each:
                if isinstance(one, Mapping):
                    yield from _walk(inner, (token, service, models.element(service, shape)), one, where, plain)


def _unmapped(args: Inputs, place: tuple[str, str, str], dotted: str) -> Iterator[str]:
    token, service, _ = place
    for name, field in args.fields.items():
        plain = f"{dotted}.{name}" if dotted else name
        if (name in _EVERYWHERE and not dotted) or MEMBERS.get(token, {}).get(plain, "") is None:
            continue
        shape = _at(place, plain, name)
        inner = field.type.element if isinstance(field.type, ListOf | MapOf) else field.type
        if shape is None:
            yield plain
        elif isinstance(inner, Inputs):
            yield from _unmapped(inner, (token, service, models.element(service, shape)), plain)
