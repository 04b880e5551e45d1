"""Existing machines as a cluster: what the stack file names, with the host keys that the operator already trusts."""

from __future__ import annotations

import hashlib

import pulumi

from catalogue import Shape
from components.cluster import Access, Contact, Node
from config.hosts.model import Hosts
from config.measure import Measure


class HostsCluster(pulumi.ComponentResource):
    """Machines that already exist.

    Creates: nothing.
    Outputs: `nodes`, `access`, `identity` (see `components.cluster.Cluster`). What is installed on the machines is not known
    before they are contacted, so `identity` follows their names, addresses and host keys and where their software is.
    """

    nodes: pulumi.Output[tuple[Node, ...]]
    access: pulumi.Output[Access]
    shape: Shape | None
    size: int
    contact: Contact
    identity: pulumi.Output[str]

    def __init__(self, name: str, wanted: Hosts, _measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:hosts:Cluster", name, None, opts)
        nodes = tuple(
            Node(machine.name, machine.address, host_key=wanted.host_key(machine.address)) for machine in wanted.machines
        )
        jump = wanted.jump_address
        jump_key = wanted.host_key(jump) if jump else None
        self.nodes = pulumi.Output.from_input(nodes)
        self.access = pulumi.Output.from_input(Access(wanted.user, jump, wanted.jump_user, jump_key, wanted.network))
        self.shape, self.size = wanted.row, len(nodes)
        self.contact = Contact(on_bastion=False, first_boot=False, ask=True, mpi=wanted.homes.mpi)
        self.identity = pulumi.Output.from_input(_identity(wanted, nodes))
        self.register_outputs({"identity": self.identity})


def _identity(wanted: Hosts, nodes: tuple[Node, ...]) -> str:
    machines = [f"{node.name} {node.address} {node.host_key}" for node in nodes]
    return hashlib.sha256("\n".join([wanted.user, repr(wanted.homes), *machines]).encode()).hexdigest()
