"""The VPC of the tutorial's stack: the head in a public subnet, nodes in a private one, S3 without a detour.

It deliberately opens nothing: who may talk to whom is `components.aws.groups`. Routes are resources of their own, for FSx and
the S3 endpoint write routes into the same tables.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
from pulumi_aws import ec2

_ANYWHERE = "0.0.0.0/0"
#: A network of a VPC is /16 to /28 (VPC user guide), and halves of ours are subnets.
_LARGEST, _SMALLEST = 16, 27


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """What network is wanted.

    Attributes:
        label: prefix of names.
        region, zone: where.
        second_zone: zone of a second private subnet, for a file system that stands in two; empty for none.
        public_cidr: the VPC's own network; its first half is the public subnet.
        private_cidr: its second network; the halves are the private subnets.
        ssh_from: networks that may open SSH to the head.
        retain: destroying the stack leaves the VPC and its private subnets, for file systems that stay stand in them.
        tags: on everything.
    """

    label: str
    region: str
    zone: str
    second_zone: str = ""
    public_cidr: str = "10.0.0.0/16"
    private_cidr: str = "10.1.0.0/16"
    ssh_from: tuple[str, ...]
    retain: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse networks that overlap or that the vendor does not take."""
        first, second = (ipaddress.IPv4Network(text) for text in (self.public_cidr, self.private_cidr))
        if first.overlaps(second) or not all(_LARGEST <= one.prefixlen <= _SMALLEST for one in (first, second)):
            msg = (
                f"the VPC has {self.public_cidr} and {self.private_cidr}; both must be /16 to /27, for halves of them are "
                "subnets of at most /28, and apart from each other"
            )
            raise ValueError(msg)

    @property
    def public_subnet(self) -> str:
        """Return the CIDR of the head's subnet."""
        return _halves(self.public_cidr)[0]

    @property
    def private_subnets(self) -> tuple[str, str]:
        """Return the CIDRs of the nodes' subnet and of the one in the second zone."""
        return _halves(self.private_cidr)

    def named(self, noun: str) -> dict[str, str]:
        """Return the tags of one resource."""
        return {"Name": f"{self.label}-{noun}", "busbar:cluster": self.label, **self.tags}


class Network(pulumi.ComponentResource):
    """A VPC with a public subnet and one or two private ones.

    Creates: VPC, second network, internet gateway, address and NAT gateway, two route tables with a route each, subnets and
    their associations, S3 gateway endpoint.
    Outputs: `vpc_id`; `public_subnet_id`, `private_subnet_id`, `second_subnet_id` (None without a second zone), usable once
    their routes are in place; `route_table_ids`, private and public.
    """

    vpc_id: pulumi.Output[str]
    public_subnet_id: pulumi.Output[str]
    private_subnet_id: pulumi.Output[str]
    second_subnet_id: pulumi.Output[str] | None
    route_table_ids: tuple[pulumi.Output[str], pulumi.Output[str]]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Network", name, None, opts)
        self._name, self._args = name, args
        self._mine = pulumi.ResourceOptions(parent=self)
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=args.retain)
        self._vpc = ec2.Vpc(
            f"{name}-vpc",
            cidr_block=args.public_cidr,
            enable_dns_support=True,
            enable_dns_hostnames=True,
            tags=args.named("vpc"),
            opts=kept,
        )
        second = ec2.VpcIpv4CidrBlockAssociation(
            f"{name}-second-network", vpc_id=self._vpc.id, cidr_block=args.private_cidr, opts=kept
        )
        out = ec2.InternetGateway(f"{name}-igw", vpc_id=self._vpc.id, tags=args.named("igw"), opts=self._mine)
        public_table, public_route = self._table("public", gateway_id=out.id)
        public = self._subnet("public", args.zone, args.public_subnet, [])
        public_ready = self._ready("public", public, public_table, public_route)
        # A node with several interfaces cannot have a public address, so the way out is a gateway that has one.
        address = ec2.Eip(f"{name}-address", domain="vpc", tags=args.named("nat"), opts=self._mine)
        nat = ec2.NatGateway(
            f"{name}-nat",
            allocation_id=address.id,
            subnet_id=public_ready,
            tags=args.named("nat"),
            opts=self._mine,
        )
        private_table, private_route = self._table("private", nat_gateway_id=nat.id)
        endpoint = ec2.VpcEndpoint(
            f"{name}-s3",
            vpc_id=self._vpc.id,
            service_name=f"com.amazonaws.{args.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[private_table.id, public_table.id],
            tags=args.named("s3"),
            opts=self._mine,
        )
        private = self._subnet("private", args.zone, args.private_subnets[0], [second])
        self.vpc_id = self._vpc.id
        self.public_subnet_id = public_ready
        self.private_subnet_id = self._ready("private", private, private_table, private_route, endpoint)
        self.second_subnet_id = None
        if args.second_zone:
            far = self._subnet("second", args.second_zone, args.private_subnets[1], [second])
            self.second_subnet_id = self._ready("second", far, private_table, private_route)
        self.route_table_ids = (private_table.id, public_table.id)
        self.register_outputs({"vpc_id": self.vpc_id, "private_subnet_id": self.private_subnet_id})

    def _table(self, noun: str, **target: pulumi.Input[str]) -> tuple[ec2.RouteTable, ec2.Route]:
        table = ec2.RouteTable(
            f"{self._name}-{noun}-routes", vpc_id=self._vpc.id, tags=self._args.named(f"{noun}-routes"), opts=self._mine
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
            tags=self._args.named(noun),
            opts=pulumi.ResourceOptions(parent=self, depends_on=after, retain_on_delete=self._args.retain and noun != "public"),
        )

    def _ready(self, noun: str, subnet: ec2.Subnet, table: ec2.RouteTable, *ways: pulumi.CustomResource) -> pulumi.Output[str]:
        """Return the subnet's id once machines in it reach what they should."""
        joined = ec2.RouteTableAssociation(
            f"{self._name}-{noun}-association", subnet_id=subnet.id, route_table_id=table.id, opts=self._mine
        )
        return pulumi.Output.all(subnet.id, joined.id, *(way.id for way in ways)).apply(lambda found: str(found[0]))


def _halves(cidr: str) -> tuple[str, str]:
    first, second = ipaddress.IPv4Network(cidr).subnets(prefixlen_diff=1)
    return str(first), str(second)
