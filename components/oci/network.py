"""The VCN: a public subnet for login nodes, and a private subnet for nodes.

By default, the private subnet accepts all traffic from the VCN.

Source: the network at the end of the tutorial oracle-japan/ocitutorials.
"""

from __future__ import annotations

import pulumi
from pulumi_oci import core

from catalogue.oci.ports import NFS_TCP_PORTS
from components.oci.tagged_machines import stack_tags
from config.oci.model import Oci

_ALL = "all"
_ICMP, _TCP, _UDP = "1", "6", "17"
_SSH_PORT = 22
#: UDP ports of the port mapper and of the mount service (OCI documentation, "Configuring VCN Security Rules for File Storage").
_NFS_UDP = (111, 2048)
#: Clients connect to this port of a Lustre server, and servers connect to the same port of clients (Lustre manual, acceptor).
_LUSTRE_PORT = 988
_ANYWHERE = "0.0.0.0/0"
#: ICMP type 3, destination unreachable. Its code 4 tells a sender to send smaller packets (path MTU discovery); if this type is
#: blocked, large packets are lost without a message.
_ICMP_UNREACHABLE = core.SecurityListIngressSecurityRuleIcmpOptionsArgs(type=3)


class Network(pulumi.ComponentResource):
    """A VCN with a public and a private subnet, or two existing subnets.

    Creates: VCN, internet gateway, NAT gateway, service gateway, two route tables, two security lists and two subnets. If
    the stack file names existing subnets, this component creates nothing.
    Outputs: the OCIDs `vcn_id` (None for existing subnets), `public_subnet_id` and `private_subnet_id`. New subnets already
    have their routes and security lists.
    """

    vcn_id: pulumi.Output[str] | None
    public_subnet_id: pulumi.Output[str]
    private_subnet_id: pulumi.Output[str]

    def __init__(self, name: str, wanted: Oci, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Network", name, None, opts)
        existing = wanted.network.existing
        if existing:
            self.vcn_id = None
            self.public_subnet_id = pulumi.Output.from_input(existing.public_subnet)
            self.private_subnet_id = pulumi.Output.from_input(existing.private_subnet)
        else:
            self._make(name, wanted)
        self.register_outputs(
            {"vcn_id": self.vcn_id, "public_subnet_id": self.public_subnet_id, "private_subnet_id": self.private_subnet_id}
        )

    def _make(self, name: str, wanted: Oci) -> None:
        cidrs, compartment, label, tags = wanted.network, wanted.compartment, wanted.name, stack_tags(wanted)
        mine = pulumi.ResourceOptions(parent=self)
        # If Lustre is to outlive the stack, keep the VCN, the private subnet and everything that this subnet uses.
        kept = pulumi.ResourceOptions(parent=self, retain_on_delete=wanted.storage.stays)
        vcn = core.Vcn(
            f"{name}-vcn",
            compartment_id=compartment,
            freeform_tags=tags,
            cidr_blocks=[cidrs.vcn],
            display_name=f"{label}-vcn",
            dns_label=label,
            opts=kept,
        )
        to_internet = core.InternetGateway(
            f"{name}-igw", compartment_id=compartment, vcn_id=vcn.id, freeform_tags=tags, opts=mine
        )
        to_outside = core.NatGateway(f"{name}-nat", compartment_id=compartment, vcn_id=vcn.id, freeform_tags=tags, opts=kept)
        # Look up the services only once the VCN exists, so that the preview of a new stack needs no call to OCI.
        services = core.get_services_output(
            filters=[
                core.GetServicesFilterArgs(name="name", values=["All .* Services In Oracle Services Network"], regex=True)
            ],
            opts=pulumi.InvokeOutputOptions(depends_on=[vcn]),
        )
        # On images whose cloud agent assigns the rails' addresses, the agent needs a route to the Oracle Services Network.
        to_services = core.ServiceGateway(
            f"{name}-sgw",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            services=[core.ServiceGatewayServiceArgs(service_id=services.services[0].id)],
            opts=kept,
        )
        public_routes = core.RouteTable(
            f"{name}-public-routes",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            route_rules=[_route(_ANYWHERE, to_internet.id)],
            opts=mine,
        )
        private_routes = core.RouteTable(
            f"{name}-private-routes",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            route_rules=[
                _route(_ANYWHERE, to_outside.id),
                _route(services.services[0].cidr_block, to_services.id, kind="SERVICE_CIDR_BLOCK"),
            ],
            opts=kept,
        )
        public_rules = core.SecurityList(
            f"{name}-public-rules",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            ingress_security_rules=[
                *(_ingress_ssh(source) for source in wanted.access.ssh_from),
                core.SecurityListIngressSecurityRuleArgs(
                    protocol=_ICMP,
                    source=cidrs.vcn,
                    icmp_options=_ICMP_UNREACHABLE,
                    description="unreachable hosts, path MTU",
                ),
                *_ingress_slurm(wanted, cidrs.private),
                # The controller sets up further login nodes over SSH. These login nodes are in the controller's subnet and use
                # the controller's Slurm.
                *([_ingress_ssh(cidrs.public), *_ingress_slurm(wanted, cidrs.public)] if wanted.people else []),
            ],
            egress_security_rules=[_egress_all()],
            opts=mine,
        )
        private_rules = core.SecurityList(
            f"{name}-private-rules",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            ingress_security_rules=_ingress_private(wanted),
            egress_security_rules=[_egress_all()],
            opts=kept,
        )
        public = core.Subnet(
            f"{name}-public",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            cidr_block=cidrs.public,
            display_name=f"{label}-public",
            dns_label="public",
            route_table_id=public_routes.id,
            security_list_ids=[public_rules.id],
            opts=mine,
        )
        private = core.Subnet(
            f"{name}-private",
            compartment_id=compartment,
            freeform_tags=tags,
            vcn_id=vcn.id,
            cidr_block=cidrs.private,
            display_name=f"{label}-private",
            dns_label="private",
            prohibit_public_ip_on_vnic=True,
            route_table_id=private_routes.id,
            security_list_ids=[private_rules.id],
            opts=kept,
        )
        self.vcn_id = vcn.id
        self.public_subnet_id = public.id
        self.private_subnet_id = private.id


def _route(destination: pulumi.Input[str], entity: pulumi.Input[str], kind: str = "CIDR_BLOCK") -> core.RouteTableRouteRuleArgs:
    return core.RouteTableRouteRuleArgs(destination=destination, destination_type=kind, network_entity_id=entity)


def _ingress_ssh(source: str) -> core.SecurityListIngressSecurityRuleArgs:
    return _ingress_tcp(source, _SSH_PORT, _SSH_PORT, "SSH")


def _ingress_tcp(source: str, first: int, last: int, what: str) -> core.SecurityListIngressSecurityRuleArgs:
    ports = core.SecurityListIngressSecurityRuleTcpOptionsArgs(min=first, max=last)
    return core.SecurityListIngressSecurityRuleArgs(protocol=_TCP, source=source, tcp_options=ports, description=what)


def _ingress_udp(source: str, port: int, what: str) -> core.SecurityListIngressSecurityRuleArgs:
    ports = core.SecurityListIngressSecurityRuleUdpOptionsArgs(min=port, max=port)
    return core.SecurityListIngressSecurityRuleArgs(protocol=_UDP, source=source, udp_options=ports, description=what)


def _ingress_slurm(wanted: Oci, source: str) -> list[core.SecurityListIngressSecurityRuleArgs]:
    """Return the rules that let machines in `source` reach Slurm on the controller and the login nodes; none without Slurm."""
    return [_ingress_tcp(source, *rule) for rule in wanted.slurm.ports] if wanted.slurm else []


def _ingress_private(wanted: Oci) -> list[core.SecurityListIngressSecurityRuleArgs]:
    """Return the private subnet's ingress rules; the rules open the file systems' ports even if `ingress` is ssh."""
    vcn = wanted.network.vcn
    if wanted.network.ingress == "all":
        why = "MPI and NCCL use any port between nodes"
        return [core.SecurityListIngressSecurityRuleArgs(protocol=_ALL, source=vcn, description=why)]
    nfs = [_ingress_tcp(vcn, first, last, "NFS") for first, last in NFS_TCP_PORTS] if wanted.storage.home else []
    nfs += [_ingress_udp(vcn, port, "NFS") for port in _NFS_UDP] if wanted.storage.home else []
    lustre = [_ingress_tcp(vcn, _LUSTRE_PORT, _LUSTRE_PORT, "Lustre")] if wanted.storage.lustre else []
    return [_ingress_ssh(vcn), *nfs, *lustre]


def _egress_all() -> core.SecurityListEgressSecurityRuleArgs:
    return core.SecurityListEgressSecurityRuleArgs(protocol=_ALL, destination=_ANYWHERE)
