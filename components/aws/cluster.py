"""A cluster on AWS: network, groups, roles, file systems, head, and one pool for each entry of machines."""

from __future__ import annotations

import hashlib

import pulumi

from catalogue import Shape
from cloudinit.aws import Mounts
from components.aws import preflight
from components.aws.bastion import Head
from components.aws.compute import Member, Pool
from components.aws.groups import Groups
from components.aws.iam import Iam
from components.aws.network import Network
from components.aws.parts import Parts
from components.aws.storage import Storage
from components.cluster import Access, Contact, Node
from config.aws.model import Aws, Machines
from config.measure import Measure


class AwsCluster(pulumi.ComponentResource):
    """A head and its machines.

    Creates: Network, Groups, Iam, Storage (where wanted), Head, one Pool for each entry of machines.
    Outputs: `nodes`, `access`, `identity` (see `components.cluster.Cluster`), of the machines that are measured; `templates`,
    ids of launch templates by queue and name of machines, for a scheduler.
    """

    nodes: pulumi.Output[tuple[Node, ...]]
    access: pulumi.Output[Access]
    shape: Shape | None
    size: int
    contact: Contact
    identity: pulumi.Output[str]
    templates: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, wanted: Aws, measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        preflight.judge(wanted)
        super().__init__("busbar:aws:Cluster", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        network = Network(f"{name}-network", wanted, mine)
        subnet = network.private_subnet_id
        groups = Groups(f"{name}-groups", wanted, network.vpc_id, mine)
        roles = Iam(f"{name}-iam", wanted, subnet, mine)
        mounts = pulumi.Output.from_input(Mounts())
        if groups.storage_id is not None:
            mounts = Storage(f"{name}-storage", wanted, network, groups.storage_id, mine).mounts
        for_head = Parts(subnet_id=network.public_subnet_id, group_id=groups.head_id, profile=roles.head_profile, mounts=mounts)
        head = Head(f"{name}-head", wanted, measure, for_head, mine)
        for_nodes = Parts(subnet_id=subnet, group_id=groups.nodes_id, profile=roles.node_profile, mounts=mounts)
        pools = {
            key: Pool(f"{name}-pool-{index}", wanted, key, for_nodes, head.public_key, mine)
            for index, (_, key, _) in enumerate(wanted.located)
        }
        key, measured = wanted.measured(measure) or next((key, one) for _, key, one in wanted.located)
        members = pools[key].members
        self.shape, self.size = measured.row, measured.static
        # Where no source names the rails, the machines themselves do.
        self.contact = Contact(ask=self.shape is None or self.shape.rdma is None)
        self.nodes = members.apply(_nodes)
        known = pulumi.Output.all(address=head.address, host_key=head.host_key)
        self.access = known.apply(lambda its: _access(wanted, its["address"], its["host_key"]))
        self.identity = members.apply(lambda its: _identity(wanted, measured, its))
        self.templates = pulumi.Output.all(**{key: pool.template_id for key, pool in pools.items()})
        self.register_outputs({"identity": self.identity, "head": head.address, "templates": self.templates})


def _nodes(members: tuple[Member, ...]) -> tuple[Node, ...]:
    """Return nodes by the names that the VPC's own DNS has for them."""
    return tuple(Node("ip-" + member.address.replace(".", "-"), member.address) for member in members)


def _access(wanted: Aws, head: str, host_key: str) -> Access:
    return Access(
        user=wanted.family.login,
        through=head,
        through_user=wanted.login.family.login,
        through_host_key=host_key,
        network=wanted.network.private_subnets[0],
    )


def _identity(wanted: Aws, machines: Machines, members: tuple[Member, ...]) -> str:
    parts = [machines.type, wanted.image, *sorted(member.id for member in members)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
