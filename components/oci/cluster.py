"""A cluster on OCI: network, login node, file systems, and a cluster network or one instance for each pool of GPU nodes."""

from __future__ import annotations

from dataclasses import replace

import pulumi

from components.inventory import Inventory, PlannedSet
from components.oci import existing
from components.oci.controller import Starts, started
from components.oci.images import Images
from components.oci.launch import LaunchInputs
from components.oci.login_node import LoginNode
from components.oci.network import Network
from components.oci.pool import Pool, planned
from components.oci.preflight import judge
from components.oci.single import Single
from components.oci.storage import Storage
from components.reach import Access, Machine, Reach, Ssh
from components.slurm.controller import Controller
from config.measure import Measure
from config.oci.model import Oci


class OciCluster(pulumi.ComponentResource):
    """Pools of GPU nodes behind a login node.

    Creates: Network, LoginNode (several if configured), Images, Storage and Slurm's Controller (each if configured), one Pool
    or Single for each pool.
    Outputs: `inventory` (see `components.inventory.Cluster`).
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach

    def __init__(self, name: str, wanted: Oci, measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        found = existing.looked_up(wanted)
        wanted = found.wanted
        place = replace(judge(wanted), search_domain=found.domain, vcn=found.vcn)
        super().__init__("busbar:oci:Cluster", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        network = Network(f"{name}-network", wanted, mine)
        subnet, mounts = network.private_subnet_id, None
        if wanted.storage.systems:
            mounts = Storage(f"{name}-storage", wanted, place, subnet, mine).mounts
        login = LoginNode(f"{name}-login", wanted, place, measure, network.public_subnet_id, mounts, mine)
        controller = Controller(f"{name}-slurm", login.machine, login.instance_id, "oci", mine) if wanted.slurm else None
        joins = controller.public_key if controller else None
        people = [
            LoginNode(f"{name}-login-{number}", wanted, place, measure, network.public_subnet_id, mounts, mine, number, joins)
            for number in range(1, wanted.people + 1)
        ]
        images = Images(f"{name}-images", wanted, mine).ocids if wanted.named_images else {}
        parts = LaunchInputs(subnet_id=subnet, mounts=mounts, images=images, controller_key=joins)
        # Resource names contain the pool's name, so that a change to the list does not replace the machines of other pools.
        pools = [
            (Pool if pool.cluster_network else Single)(f"{name}-pool-{pool.name}", wanted, pool, place, parts, mine)
            for pool in wanted.pools
        ]
        self.planned = tuple(planned(wanted, pool) for pool in wanted.pools)
        scheduling: pulumi.Output[Machine | None] = pulumi.Output.from_input(None)
        if controller and wanted.slurm:
            startable = [
                Starts(pool, made)
                for pool, made in zip(wanted.pools, pools, strict=True)
                if pool.dynamic and isinstance(made, Pool)
            ]
            scheduling = started(
                f"{name}-slurm",
                controller,
                wanted,
                wanted.slurm,
                startable,
                login=login,
                people=people,
                place=place,
                subnet_id=subnet,
                needed=[network],
                opts=mine,
            )
        measured = wanted.measured_pool(measure)
        private, key = wanted.network.private, wanted.access.public_key
        if wanted.job_nodes(measured):  # then the test job is submitted on the login node
            way = login.machine.apply(lambda machine: Access(machine.user, None, private, key))
        else:
            way = login.machine.apply(lambda machine: Access(measured.family.login, machine, private, key))
        self.reach = Ssh(way)
        sets = pulumi.Output.all(*(pool.made for pool in pools))
        beside = pulumi.Output.all(*(one.machine for one in people))
        self.inventory = pulumi.Output.all(sets=sets, login=login.machine, controller=scheduling, beside=beside).apply(
            lambda its: Inventory(tuple(its["sets"]), its["login"], its["controller"], tuple(its["beside"]))
        )
        self.register_outputs({"login": login.machine.apply(lambda login: login.address)})
