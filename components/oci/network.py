"""The VCN of seed 000, as it ends up: bastions in a public subnet, nodes in a private one that trusts the VCN.

It deliberately opens nothing to the world: SSH comes from named networks only.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
from pulumi_oci import core

_ALL = "all"
_ICMP, _TCP = "1", "6"
_SSH_PORT = 22
_ANYWHERE = "0.0.0.0/0"
#: Destination unreachable; code 4 tells a sender to send smaller packets, and without it large ones vanish.
_ICMP_UNREACHABLE = core.SecurityListIngressSecurityRuleIcmpOptionsArgs(type=3)


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """What network is wanted.

    Attributes:
        compartment: OCID that everything is created in.
        label: prefix of display names and DNS label of the VCN.
        vcn_cidr, public_cidr, private_cidr: the network and its two subnets.
        ssh_from: networks that may open SSH to the public subnet.
        private_ingress: `all` (every protocol from the VCN) or `ssh`.
    """

    compartment: str
    label: str
    vcn_cidr: str
    public_cidr: str
    private_cidr: str
    ssh_from: tuple[str, ...]
    private_ingress: str

    @property
    def search_domain(self) -> str:
        """DNS domain of the private subnet, as the VCN's resolver will serve it."""
        return f"private.{self.label}.oraclevcn.com"


class Network(pulumi.ComponentResource):
    """A VCN with a public and a private subnet.

    Creates: VCN, internet, NAT and service gateway, two route tables, two security lists, two subnets.
    Outputs: `vcn_id`, `public_subnet_id`, `private_subnet_id` (OCIDs; usable once routes and rules are in place).
    """

    vcn_id: pulumi.Output[str]
    public_subnet_id: pulumi.Output[str]
    private_subnet_id: pulumi.Output[str]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Network", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        vcn = core.Vcn(
            f"{name}-vcn",
            compartment_id=args.compartment,
            cidr_blocks=[args.vcn_cidr],
            display_name=f"{args.label}-vcn",
            dns_label=args.label,
            opts=mine,
        )
        to_internet = core.InternetGateway(f"{name}-igw", compartment_id=args.compartment, vcn_id=vcn.id, opts=mine)
        to_outside = core.NatGateway(f"{name}-nat", compartment_id=args.compartment, vcn_id=vcn.id, opts=mine)
        # Asked once the VCN exists: a preview of a new stack then needs no account for it.
        services = core.get_services_output(
            filters=[
                core.GetServicesFilterArgs(name="name", values=["All .* Services In Oracle Services Network"], regex=True)
            ],
            opts=pulumi.InvokeOutputOptions(depends_on=[vcn]),
        )
        # The agent plugins that address the rails talk to the services network; without a way there rails stay without address.
        to_services = core.ServiceGateway(
            f"{name}-sgw",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            services=[core.ServiceGatewayServiceArgs(service_id=services.services[0].id)],
            opts=mine,
        )
        public_routes = core.RouteTable(
            f"{name}-public-routes",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            route_rules=[_route(_ANYWHERE, to_internet.id)],
            opts=mine,
        )
        private_routes = core.RouteTable(
            f"{name}-private-routes",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            route_rules=[
                _route(_ANYWHERE, to_outside.id),
                _route(services.services[0].cidr_block, to_services.id, kind="SERVICE_CIDR_BLOCK"),
            ],
            opts=mine,
        )
        public_rules = core.SecurityList(
            f"{name}-public-rules",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            ingress_security_rules=[
                *(_ingress_ssh(source) for source in args.ssh_from),
                core.SecurityListIngressSecurityRuleArgs(
                    protocol=_ICMP,
                    source=args.vcn_cidr,
                    icmp_options=_ICMP_UNREACHABLE,
                    description="unreachable hosts, path MTU",
                ),
            ],
            egress_security_rules=[_egress_all()],
            opts=mine,
        )
        private_rules = core.SecurityList(
            f"{name}-private-rules",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            ingress_security_rules=[_ingress_private(args)],
            egress_security_rules=[_egress_all()],
            opts=mine,
        )
        public = core.Subnet(
            f"{name}-public",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            cidr_block=args.public_cidr,
            display_name=f"{args.label}-public",
            dns_label="public",
            route_table_id=public_routes.id,
            security_list_ids=[public_rules.id],
            opts=mine,
        )
        private = core.Subnet(
            f"{name}-private",
            compartment_id=args.compartment,
            vcn_id=vcn.id,
            cidr_block=args.private_cidr,
            display_name=f"{args.label}-private",
            dns_label="private",
            prohibit_public_ip_on_vnic=True,
            route_table_id=private_routes.id,
            security_list_ids=[private_rules.id],
            opts=mine,
        )
        self.vcn_id = vcn.id
        self.public_subnet_id = public.id
        self.private_subnet_id = private.id
        self.register_outputs(
            {"vcn_id": self.vcn_id, "public_subnet_id": self.public_subnet_id, "private_subnet_id": self.private_subnet_id}
        )


def _route(destination: pulumi.Input[str], entity: pulumi.Input[str], kind: str = "CIDR_BLOCK") -> core.RouteTableRouteRuleArgs:
    return core.RouteTableRouteRuleArgs(destination=destination, destination_type=kind, network_entity_id=entity)


def _ingress_ssh(source: str) -> core.SecurityListIngressSecurityRuleArgs:
    ports = core.SecurityListIngressSecurityRuleTcpOptionsArgs(min=_SSH_PORT, max=_SSH_PORT)
    return core.SecurityListIngressSecurityRuleArgs(protocol=_TCP, source=source, tcp_options=ports, description="SSH")


def _ingress_private(args: NetworkArgs) -> core.SecurityListIngressSecurityRuleArgs:
    if args.private_ingress == "ssh":
        return _ingress_ssh(args.vcn_cidr)
    return core.SecurityListIngressSecurityRuleArgs(
        protocol=_ALL, source=args.vcn_cidr, description="MPI and NCCL use any port between nodes"
    )


def _egress_all() -> core.SecurityListEgressSecurityRuleArgs:
    return core.SecurityListEgressSecurityRuleArgs(protocol=_ALL, destination=_ANYWHERE)
