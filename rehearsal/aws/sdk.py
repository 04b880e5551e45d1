"""Maps each resource type to the module of AWS's Pulumi SDK that defines the type."""

from __future__ import annotations

from rehearsal.plugin.sdk import Sdk

SDK = Sdk(
    "aws",
    {
        "aws:ec2/vpc:Vpc": "ec2.vpc",
        "aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation": "ec2.vpc_ipv4_cidr_block_association",
        "aws:ec2/subnet:Subnet": "ec2.subnet",
        "aws:ec2/internetGateway:InternetGateway": "ec2.internet_gateway",
        "aws:ec2/eip:Eip": "ec2.eip",
        "aws:ec2/natGateway:NatGateway": "ec2.nat_gateway",
        "aws:ec2/routeTable:RouteTable": "ec2.route_table",
        "aws:ec2/route:Route": "ec2.route",
        "aws:ec2/routeTableAssociation:RouteTableAssociation": "ec2.route_table_association",
        "aws:ec2/vpcEndpoint:VpcEndpoint": "ec2.vpc_endpoint",
        "aws:ec2/securityGroup:SecurityGroup": "ec2.security_group",
        "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "vpc.security_group_ingress_rule",
        "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "vpc.security_group_egress_rule",
        "aws:ec2/keyPair:KeyPair": "ec2.key_pair",
        "aws:ec2/placementGroup:PlacementGroup": "ec2.placement_group",
        "aws:ec2/launchTemplate:LaunchTemplate": "ec2.launch_template",
        "aws:ec2/instance:Instance": "ec2.instance",
        "aws:ec2/fleet:Fleet": "ec2.fleet",
        "aws:ec2/capacityReservation:CapacityReservation": "ec2.capacity_reservation",
        "aws:ec2/capacityBlockReservation:CapacityBlockReservation": "ec2.capacity_block_reservation",
        "aws:iam/role:Role": "iam.role",
        "aws:iam/rolePolicy:RolePolicy": "iam.role_policy",
        "aws:iam/rolePolicyAttachment:RolePolicyAttachment": "iam.role_policy_attachment",
        "aws:iam/instanceProfile:InstanceProfile": "iam.instance_profile",
        "aws:fsx/lustreFileSystem:LustreFileSystem": "fsx.lustre_file_system",
        "aws:fsx/openZfsFileSystem:OpenZfsFileSystem": "fsx.open_zfs_file_system",
        "aws:fsx/dataRepositoryAssociation:DataRepositoryAssociation": "fsx.data_repository_association",
        "aws:s3/bucket:Bucket": "s3.bucket",
        "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": "s3.bucket_public_access_block",
        "aws:s3/bucketOwnershipControls:BucketOwnershipControls": "s3.bucket_ownership_controls",
        "aws:ssm/parameter:Parameter": "ssm.parameter",
    },
)
