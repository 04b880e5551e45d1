"""Existing machines as a cluster: what the stack file names, with the host keys that the operator already trusts.

It deliberately creates nothing: whatever the machines need is there, or first contact says what is missing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pulumi

from catalogue import Homes, Shape
from components.cluster import Access, Contact, Node


@dataclass(frozen=True, kw_only=True)
class HostsArgs:
    """Which machines, all known before anything is contacted.

    Attributes:
        nodes: the machines, head first, each with its host key.
        user: login user on all of them.
        shape: their row of the catalogue, None where they are asked.
        homes: where MPI, CUDA and NCCL lie on them.
        network: CIDR of their front-end network, None where they are asked.
        jump: address of the host that is passed on the way, None where they are reached directly.
        jump_user: login user there.
        jump_key: its host key.
    """

    nodes: tuple[Node, ...]
    user: str
    shape: Shape | None
    homes: Homes
    network: str | None = None
    jump: str | None = None
    jump_user: str | None = None
    jump_key: str | None = None

    def __post_init__(self) -> None:
        """Refuse machines whose key nobody pinned: nothing is trusted on first use."""
        unknown = [node.name for node in self.nodes if node.host_key is None]
        if unknown or not self.nodes or (self.jump is not None and self.jump_key is None):
            msg = f"every host and the jump host need a pinned key, and {', '.join(unknown) or 'the jump host'} has none"
            raise ValueError(msg)


class HostsCluster(pulumi.ComponentResource):
    """Machines that already exist.

    Creates: nothing.
    Outputs: `nodes`, `access`, `identity` (see `components.cluster.Cluster`). What is installed on the machines is not known
    before they are contacted, so `identity` follows their names, addresses and host keys and where their software lies.
    """

    nodes: pulumi.Output[tuple[Node, ...]]
    access: pulumi.Output[Access]
    shape: Shape | None
    size: int
    contact: Contact
    identity: pulumi.Output[str]

    def __init__(self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:hosts:Cluster", name, None, opts)
        access = Access(args.user, args.jump, args.jump_user, args.jump_key, args.network)
        self.nodes = pulumi.Output.from_input(args.nodes)
        self.access = pulumi.Output.from_input(access)
        self.shape, self.size = args.shape, len(args.nodes)
        self.contact = Contact(on_bastion=False, first_boot=False, ask=True, mpi=args.homes.mpi)
        self.identity = pulumi.Output.from_input(_identity(args))
        self.register_outputs({"identity": self.identity})


def _identity(args: HostsArgs) -> str:
    machines = [f"{node.name} {node.address} {node.host_key}" for node in args.nodes]
    return hashlib.sha256("\n".join([args.user, repr(args.homes), *machines]).encode()).hexdigest()
