"""The stack's VPC: the login node in a public subnet, the nodes in a private subnet, and S3 through a gateway endpoint.

Routes are separate resources, because FSx and the S3 endpoint write routes into the same tables.
"""

from __future__ import annotations

import pulumi
from pulumi_aws import ec2

from components.after import after
from components.aws.launch_inputs import stack_tags
from config.aws.model import Aws, ExistingNetwork

_ANYWHERE = "0.0.0.0/0"


class Network(pulumi.ComponentResource):
    """A VPC with a public subnet and one or two private subnets, or an existing VPC.

    Creates: VPC, second address range, internet gateway, NAT gateway with its address, two route tables with a route each,
    subnets and their associations, S3 gateway endpoint; nothing if the stack file names existing subnets.
    Outputs: `vpc_id`; `private_cidr`, the address range of the nodes' subnet; `public_subnet_id`, `private_subnet_id` and
    `second_subnet_id`, each known as soon as the subnet's routes exist (`second_subnet_id` is None if there is no second zone);
    `route_table_ids`, the private and the public route table (empty for an existing network).
    """

    vpc_id: pulumi.Output[str]
    private_cidr: pulumi.Output[str]
    public_subnet_id: pulumi.Output[str]
    private_subnet_id: pulumi.Output[str]
    second_subnet_id: pulumi.Output[str] | None
    route_table_ids: tuple[pulumi.Output[str], ...]

    def __init__(self, name: str, wanted: Aws, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Network", name, None, opts)
        self._name, self._wanted = name, wanted
        self._mine = pulumi.ResourceOptions(parent=self)
        if wanted.network.existing:
            self._take(wanted.network.existing)
        else:
            self._make()
        self.register_outputs({"vpc_id": self.vpc_id, "private_subnet_id": self.private_subnet_id})

    def _take(self, own: ExistingNetwork) -> None:
        nodes = ec2.get_subnet_output(id=own.private_subnet)
        self.vpc_id = nodes.vpc_id
        self.public_subnet_id = pulumi.Output.from_input(own.public_subnet)
        self.private_subnet_id = pulumi.Output.from_input(own.private_subnet)
        self.private_cidr = nodes.cidr_block
        self.second_subnet_id, self.route_table_ids = None, ()

    def _make(self) -> None:
        name, wanted = self._name, self._wanted
        cidrs, zone = wanted.network, wanted.zone or ""  # never empty: the function `zone.chosen` has set it
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=wanted.storage.stays)
        self._vpc = ec2.Vpc(
            f"{name}-vpc",
            cidr_block=cidrs.public,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=stack_tags(wanted, "vpc"),
            opts=kept,
        )
        second = ec2.VpcIpv4CidrBlockAssociation(
            f"{name}-second-network", vpc_id=self._vpc.id, cidr_block=cidrs.private, opts=kept
        )
        out = ec2.InternetGateway(f"{name}-igw", vpc_id=self._vpc.id, tags=stack_tags(wanted, "igw"), opts=self._mine)
        public_table, public_route = self._table("public", gateway_id=out.id)
        public = self._subnet("public", zone, cidrs.public_subnet, [])
        public_ready = self._ready("public", public, public_table, public_route)
        # A node with several interfaces cannot have a public address, so it reaches the Internet through a NAT gateway.
        address = ec2.Eip(f"{name}-address", domain="vpc", tags=stack_tags(wanted, "nat"), opts=self._mine)
        nat = ec2.NatGateway(
            f"{name}-nat",
            allocation_id=address.id,
            subnet_id=public_ready,
            tags=stack_tags(wanted, "nat"),
            opts=self._mine,
        )
        private_table, private_route = self._table("private", nat_gateway_id=nat.id)
        endpoint = ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=self._vpc.id,
            service_name=f"com.amazonaws.{wanted.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[private_table.id, public_table.id],
            tags=stack_tags(wanted, "s3"),
            opts=self._mine,
        )
        private = self._subnet("private", zone, cidrs.private_subnets[0], [second])
        self.vpc_id = self._vpc.id
        self.private_cidr = pulumi.Output.from_input(cidrs.private_subnets[0])
        self.public_subnet_id = public_ready
        self.private_subnet_id = self._ready("private", private, private_table, private_route, endpoint)
        self.second_subnet_id = None
        if wanted.second_zone:
            far = self._subnet("second", wanted.second_zone, cidrs.private_subnets[1], [second])
            self.second_subnet_id = self._ready("second", far, private_table, private_route)
        self.route_table_ids = (private_table.id, public_table.id)

    def _table(self, noun: str, **target: pulumi.Input[str]) -> tuple[ec2.RouteTable, ec2.Route]:
        table = ec2.RouteTable(
            f"{self._name}-{noun}-routes", vpc_id=self._vpc.id, tags=stack_tags(self._wanted, f"{noun}-routes"), opts=self._mine
        )
        route = ec2.Route(
            f"{self._name}-{noun}-way-out",
            route_table_id=table.id,
            destination_cidr_block=_ANYWHERE,
            gateway_id=target.get("gateway_id"),
            nat_gateway_id=target.get("nat_gateway_id"),
            opts=self._mine,
        )
        return table, route

    def _subnet(self, noun: str, zone: str, cidr: str, after: list[pulumi.Resource]) -> ec2.Subnet:
        return ec2.Subnet(
            f"{self._name}-{noun}",
            vpc_id=self._vpc.id,
            availability_zone=zone,
            cidr_block=cidr,
            map_public_ip_on_launch=noun == "public",
            # `components.aws.zone` finds the stack's zone by these tags.
            tags=stack_tags(self._wanted, noun),
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=after, retain_on_delete=self._wanted.storage.stays and noun != "public"
            ),
        )

    def _ready(self, noun: str, subnet: ec2.Subnet, table: ec2.RouteTable, *ways: pulumi.CustomResource) -> pulumi.Output[str]:
        """Return the subnet's id once its routes exist."""
        joined = ec2.RouteTableAssociation(
            f"{self._name}-{noun}-association", subnet_id=subnet.id, route_table_id=table.id, opts=self._mine
        )
        return after(subnet.id, joined.id, *(way.id for way in ways))
