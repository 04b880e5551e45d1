"""Permissions that the operator's identity needs for a stack of target aws, by what the stack creates and looks up.

Source: Service Authorization Reference of each service, and the API calls of terraform-provider-aws for resources and look-ups.
The roles of the nodes and of the login node are in `components/aws/iam.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_TAGS = ("ec2:CreateTags", "ec2:DeleteTags")

#: Type of a resource -> the permissions to create, read, change and delete it.
RESOURCES: dict[str, tuple[str, ...]] = {
    "ec2/vpc:Vpc": (
        *("ec2:CreateVpc", "ec2:DeleteVpc", "ec2:DescribeVpcs", "ec2:DescribeVpcAttribute", "ec2:ModifyVpcAttribute"),
        *("ec2:DescribeNetworkAcls", "ec2:DescribeRouteTables", "ec2:DescribeSecurityGroups", *_TAGS),
    ),
    "ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation": (
        "ec2:AssociateVpcCidrBlock",
        "ec2:DisassociateVpcCidrBlock",
    ),
    "ec2/subnet:Subnet": (
        *("ec2:CreateSubnet", "ec2:DeleteSubnet", "ec2:DescribeSubnets", "ec2:ModifySubnetAttribute"),
        *("ec2:DescribeNetworkInterfaces", *_TAGS),
    ),
    "ec2/internetGateway:InternetGateway": (
        *("ec2:CreateInternetGateway", "ec2:AttachInternetGateway", "ec2:DetachInternetGateway"),
        *("ec2:DeleteInternetGateway", "ec2:DescribeInternetGateways", *_TAGS),
    ),
    "ec2/eip:Eip": (
        *("ec2:AllocateAddress", "ec2:ReleaseAddress", "ec2:DisassociateAddress", "ec2:DescribeAddresses"),
        *("ec2:DescribeAddressesAttribute", "ec2:AssociateAddress", *_TAGS),
    ),
    "ec2/natGateway:NatGateway": ("ec2:CreateNatGateway", "ec2:DeleteNatGateway", "ec2:DescribeNatGateways", *_TAGS),
    "ec2/routeTable:RouteTable": ("ec2:CreateRouteTable", "ec2:DeleteRouteTable", "ec2:DescribeRouteTables", *_TAGS),
    "ec2/route:Route": ("ec2:CreateRoute", "ec2:DeleteRoute", "ec2:ReplaceRoute", "ec2:DescribeRouteTables"),
    "ec2/routeTableAssociation:RouteTableAssociation": ("ec2:AssociateRouteTable", "ec2:DisassociateRouteTable"),
    "ec2/vpcEndpoint:VpcEndpoint": (
        *("ec2:CreateVpcEndpoint", "ec2:ModifyVpcEndpoint", "ec2:DeleteVpcEndpoints", "ec2:DescribeVpcEndpoints"),
        *("ec2:DescribePrefixLists", *_TAGS),
    ),
    "ec2/securityGroup:SecurityGroup": (
        *("ec2:CreateSecurityGroup", "ec2:DeleteSecurityGroup", "ec2:DescribeSecurityGroups"),
        *("ec2:RevokeSecurityGroupEgress", *_TAGS),
    ),
    "vpc/securityGroupIngressRule:SecurityGroupIngressRule": (
        *("ec2:AuthorizeSecurityGroupIngress", "ec2:RevokeSecurityGroupIngress", "ec2:DescribeSecurityGroupRules"),
        *("ec2:ModifySecurityGroupRules", *_TAGS),
    ),
    "vpc/securityGroupEgressRule:SecurityGroupEgressRule": (
        *("ec2:AuthorizeSecurityGroupEgress", "ec2:RevokeSecurityGroupEgress", "ec2:DescribeSecurityGroupRules"),
        *("ec2:ModifySecurityGroupRules", *_TAGS),
    ),
    "ec2/placementGroup:PlacementGroup": (
        *("ec2:CreatePlacementGroup", "ec2:DeletePlacementGroup", "ec2:DescribePlacementGroups", *_TAGS),
    ),
    "ec2/launchTemplate:LaunchTemplate": (
        *("ec2:CreateLaunchTemplate", "ec2:CreateLaunchTemplateVersion", "ec2:ModifyLaunchTemplate"),
        *("ec2:DeleteLaunchTemplate", "ec2:DescribeLaunchTemplates", "ec2:DescribeLaunchTemplateVersions", *_TAGS),
    ),
    "ec2/instance:Instance": (
        *("ec2:RunInstances", "ec2:TerminateInstances", "ec2:DescribeInstances", "ec2:DescribeInstanceAttribute"),
        *("ec2:ModifyInstanceAttribute", "ec2:DescribeInstanceTypes", "ec2:DescribeVolumes", "ec2:DescribeImages"),
        *("ec2:DescribeInstanceCreditSpecifications", "iam:PassRole", *_TAGS),
    ),
    "ec2/capacityBlockReservation:CapacityBlockReservation": (
        *("ec2:PurchaseCapacityBlock", "ec2:DescribeCapacityReservations", *_TAGS),
    ),
    "iam/role:Role": (
        *("iam:CreateRole", "iam:DeleteRole", "iam:GetRole", "iam:UpdateAssumeRolePolicy", "iam:TagRole", "iam:UntagRole"),
        *("iam:ListRolePolicies", "iam:ListAttachedRolePolicies", "iam:ListInstanceProfilesForRole"),
    ),
    "iam/rolePolicy:RolePolicy": ("iam:PutRolePolicy", "iam:GetRolePolicy", "iam:DeleteRolePolicy"),
    "iam/rolePolicyAttachment:RolePolicyAttachment": (
        *("iam:AttachRolePolicy", "iam:DetachRolePolicy", "iam:ListAttachedRolePolicies"),
    ),
    "iam/instanceProfile:InstanceProfile": (
        *("iam:CreateInstanceProfile", "iam:DeleteInstanceProfile", "iam:GetInstanceProfile", "iam:AddRoleToInstanceProfile"),
        *("iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile", "iam:UntagInstanceProfile"),
    ),
    "ssm/parameter:Parameter": (
        *("ssm:PutParameter", "ssm:GetParameter", "ssm:DeleteParameter", "ssm:DescribeParameters"),
        *("ssm:AddTagsToResource", "ssm:RemoveTagsFromResource", "ssm:ListTagsForResource"),
    ),
    "fsx/lustreFileSystem:LustreFileSystem": (
        *("fsx:CreateFileSystem", "fsx:DeleteFileSystem", "fsx:UpdateFileSystem", "fsx:DescribeFileSystems", "fsx:TagResource"),
        *("fsx:UntagResource", "fsx:ListTagsForResource", "iam:CreateServiceLinkedRole", "ec2:DescribeNetworkInterfaces"),
    ),
    "fsx/openZfsFileSystem:OpenZfsFileSystem": (
        *("fsx:CreateFileSystem", "fsx:DeleteFileSystem", "fsx:UpdateFileSystem", "fsx:DescribeFileSystems", "fsx:TagResource"),
        *("fsx:UntagResource", "fsx:ListTagsForResource", "fsx:DescribeVolumes", "fsx:UpdateVolume"),
        *("iam:CreateServiceLinkedRole", "ec2:DescribeNetworkInterfaces"),
    ),
    "fsx/dataRepositoryAssociation:DataRepositoryAssociation": (
        *(
            "fsx:CreateDataRepositoryAssociation",
            "fsx:DeleteDataRepositoryAssociation",
            "fsx:DescribeDataRepositoryAssociations",
        ),
        *("fsx:UpdateDataRepositoryAssociation", "fsx:TagResource", "iam:CreateServiceLinkedRole", "iam:AttachRolePolicy"),
        *("iam:PutRolePolicy", "s3:ListBucket", "s3:GetBucketLocation"),
    ),
    "s3/bucket:Bucket": (
        *("s3:CreateBucket", "s3:DeleteBucket", "s3:ListBucket", "s3:DeleteObject", "s3:DeleteObjectVersion"),
        *("s3:ListBucketVersions", "s3:GetBucket*", "s3:GetEncryptionConfiguration", "s3:GetLifecycleConfiguration"),
        *("s3:GetReplicationConfiguration", "s3:GetAccelerateConfiguration", "s3:PutBucketTagging"),
    ),
    "s3/bucketPublicAccessBlock:BucketPublicAccessBlock": ("s3:PutBucketPublicAccessBlock", "s3:GetBucketPublicAccessBlock"),
    "s3/bucketOwnershipControls:BucketOwnershipControls": ("s3:PutBucketOwnershipControls", "s3:GetBucketOwnershipControls"),
}
#: Data source -> the permissions that it needs.
LOOKUPS: dict[str, tuple[str, ...]] = {
    "index/getRegion:getRegion": (),
    "ssm/getParameter:getParameter": ("ssm:GetParameter",),
    "ec2/getVpc:getVpc": ("ec2:DescribeVpcs", "ec2:DescribeVpcAttribute", "ec2:DescribeRouteTables"),
    "ec2/getSubnet:getSubnet": ("ec2:DescribeSubnets",),
    "ec2/getRouteTable:getRouteTable": ("ec2:DescribeRouteTables", "ec2:DescribeNetworkInterfaces"),
    "ec2/getSecurityGroup:getSecurityGroup": ("ec2:DescribeSecurityGroups",),
    "vpc/getSecurityGroupRules:getSecurityGroupRules": ("ec2:DescribeSecurityGroupRules",),
    "vpc/getSecurityGroupRule:getSecurityGroupRule": ("ec2:DescribeSecurityGroupRules",),
    "ec2/getEips:getEips": ("ec2:DescribeAddresses",),
    "iam/getInstanceProfile:getInstanceProfile": ("iam:GetInstanceProfile",),
    "ec2/getInstances:getInstances": ("ec2:DescribeInstances",),
    "ec2/getInstanceTypeOfferings:getInstanceTypeOfferings": ("ec2:DescribeInstanceTypeOfferings",),
    "ec2/getInstanceType:getInstanceType": ("ec2:DescribeInstanceTypes",),
    "ec2/getAmi:getAmi": ("ec2:DescribeImages",),
    "servicequotas/getServiceQuota:getServiceQuota": ("servicequotas:ListServiceQuotas", "servicequotas:GetServiceQuota"),
    "cloudcontrol/getResource:getResource": (
        *("cloudformation:GetResource", "ec2:DescribeCapacityReservations", "ec2:DescribePlacementGroups"),
        *("resource-groups:GetGroup", "resource-groups:ListGroupResources", "resource-groups:GetGroupConfiguration"),
    ),
    "ec2/getCapacityBlockReservation:getCapacityBlockReservation": ("ec2:DescribeCapacityReservations",),
    "ec2/getCapacityBlockOffering:getCapacityBlockOffering": ("ec2:DescribeCapacityBlockOfferings",),
    "resourcegroupstaggingapi/getResources:getResources": ("tag:GetResources",),
}


def policy(resources: Iterable[str], lookups: Iterable[str]) -> dict[str, Any]:
    """Return an IAM policy for a stack that creates `resources` and calls `lookups`.

    Resources and look-ups are named by the tokens of pulumi-aws without `aws:`.

    Raises:
        KeyError: one of the tokens is not listed.
    """
    actions = {"sts:GetCallerIdentity"}
    for token in resources:
        actions.update(RESOURCES[token])
    for token in lookups:
        actions.update(LOOKUPS[token])
    return {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": sorted(actions), "Resource": "*"}]}
