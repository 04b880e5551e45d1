"""A cluster on OCI: network, bastion, file systems, and a cluster network for each pool of bare-metal GPU nodes."""

from __future__ import annotations

import hashlib

import pulumi

from catalogue import Shape
from components.cluster import Access, Contact, Node
from components.oci.bastion import Bastion
from components.oci.iam import Iam
from components.oci.launch import Parts
from components.oci.network import Network
from components.oci.pool import Member, Pool
from components.oci.preflight import judge
from components.oci.storage import Storage
from config.measure import Measure
from config.oci.model import Oci
from config.oci.model import Pool as WantedPool


class OciCluster(pulumi.ComponentResource):
    """Pools of GPU nodes behind a bastion.

    Creates: Network, Bastion, Iam and Storage (where wanted), one Pool for each pool.
    Outputs: `nodes`, `access`, `identity` (see `components.cluster.Cluster`), of the pool that is measured.
    """

    nodes: pulumi.Output[tuple[Node, ...]]
    access: pulumi.Output[Access]
    shape: Shape | None
    size: int
    contact: Contact
    identity: pulumi.Output[str]

    def __init__(self, name: str, wanted: Oci, measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        place = judge(wanted)
        super().__init__("busbar:oci:Cluster", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        network = Network(f"{name}-network", wanted, mine)
        bastion = Bastion(f"{name}-bastion", wanted, place, measure, network.public_subnet_id, mine)
        if wanted.iam:
            Iam(f"{name}-iam", wanted, place, bastion.instance_id, mine)
        subnet, mounts = network.private_subnet_id, None
        if wanted.storage.systems:
            mounts = Storage(f"{name}-storage", wanted, place, subnet, mine).mounts
        parts = Parts(subnet_id=subnet, bastion_key=bastion.public_key, mounts=mounts)
        pools = {
            pool.name: Pool(f"{name}-pool-{index}", wanted, pool, place, parts, mine) for index, pool in enumerate(wanted.pools)
        }
        measured = wanted.measured(measure) or wanted.pools[0]
        made = pools[measured.name]
        self.shape, self.size, self.contact = measured.row, measured.nodes, Contact()
        self.nodes = made.nodes
        known = pulumi.Output.all(address=bastion.address, host_key=bastion.host_key)
        self.access = known.apply(lambda its: _access(wanted, measured, its["address"], its["host_key"]))
        self.identity = made.members.apply(lambda members: _identity(measured, members))
        self.register_outputs({"identity": self.identity, "bastion": bastion.address})


def _access(wanted: Oci, pool: WantedPool, bastion: str, host_key: str) -> Access:
    return Access(
        user=pool.family.login,
        through=bastion,
        through_user=wanted.login.family.login,
        through_host_key=host_key,
        network=wanted.network.private,
    )


def _identity(pool: WantedPool, members: tuple[Member, ...]) -> str:
    parts = [pool.shape, pool.image, *sorted(member.ocid for member in members)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
