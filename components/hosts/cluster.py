"""A cluster of existing machines: the stack file names them, and the operator's known_hosts file has their host keys."""

from __future__ import annotations

import hashlib

import pulumi

from components.inventory import Inventory, Launcher, Node, NodeSet, PlannedSet
from components.reach import Access, Machine, Reach, Ssh
from config.hosts.model import SET, Hosts
from config.measure import Measure


class HostsCluster(pulumi.ComponentResource):
    """Machines that already exist.

    Creates: nothing.
    Outputs: `inventory` (see `components.inventory.Cluster`). The versions of the machines' software are not known before first
    contact. So the node set's identity is a hash of the login user, the software's folders, and the names, addresses and host
    keys of the machines.
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach

    def __init__(self, name: str, wanted: Hosts, _measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:hosts:Cluster", name, None, opts)
        nodes = tuple(
            Node(machine.name, machine.address, host_key=wanted.host_key(machine.address)) for machine in wanted.machines
        )
        access = Access(wanted.user, _jump(wanted), wanted.network)
        self.reach = Ssh(pulumi.Output.from_input(access))
        slurm = wanted.slurm
        launcher = Launcher(wanted.homes, queue=slurm.queue, set_up=not slurm.existing) if slurm else Launcher(wanted.homes)
        self.planned = (
            PlannedSet(
                name=SET,
                nodes=len(nodes),
                shape=wanted.row,
                launcher=launcher,
                first_boot=False,
                ask=True,
                rails=wanted.rails,
            ),
        )
        head = nodes[0]
        controller = Machine(head.name, head.address, wanted.user, wanted.host_key(head.address)) if launcher.set_up else None
        node_set = NodeSet(SET, nodes, _identity(wanted, nodes))
        self.inventory = pulumi.Output.from_input(Inventory((node_set,), controller=controller))
        self.register_outputs({})


def _jump(wanted: Hosts) -> Machine | None:
    if not wanted.jump_address or not wanted.jump_user:
        return None
    return Machine("jump", wanted.jump_address, wanted.jump_user, wanted.host_key(wanted.jump_address))


def _identity(wanted: Hosts, nodes: tuple[Node, ...]) -> str:
    machines = [f"{node.name} {node.address} {node.host_key}" for node in nodes]
    return hashlib.sha256("\n".join([wanted.user, repr(wanted.homes), *machines]).encode()).hexdigest()
