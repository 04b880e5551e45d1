"""Existing machines as a cluster: what the stack file names, with the host keys that the operator already trusts.

It deliberately creates nothing: whatever the machines need is there, or first contact says what is missing.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pulumi

from catalogue import Homes, Shape
from components.inventory import Inventory, Launcher, Node, NodeSet, PlannedSet
from components.reach import Access, Reach, Ssh


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
    Outputs: `inventory` (see `components.inventory.Cluster`). What is installed on the machines is not known before they are
    contacted, so their set's identity follows their names, addresses and host keys and where their software is.
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach

    def __init__(self, name: str, args: HostsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:hosts:Cluster", name, None, opts)
        access = Access(args.user, args.jump, args.jump_user, args.jump_key, args.network)
        self.reach = Ssh(pulumi.Output.from_input(access), from_jump_host=False)
        self.planned = (
            PlannedSet(
                name="hosts",
                nodes=len(args.nodes),
                shape=args.shape,
                launcher=Launcher(args.homes),
                first_boot=False,
                ask=True,
            ),
        )
        self.inventory = pulumi.Output.from_input(Inventory((NodeSet("hosts", args.nodes, _identity(args)),)))
        self.register_outputs({})


def _identity(args: HostsArgs) -> str:
    machines = [f"{node.name} {node.address} {node.host_key}" for node in args.nodes]
    return hashlib.sha256("\n".join([args.user, repr(args.homes), *machines]).encode()).hexdigest()
