"""A cluster on AWS: network, groups, roles, file systems, login node, and one pool for each entry of machines."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import partial

import pulumi

from cloudinit.aws import Mounts
from components import left_behind
from components.aws import images, preflight, running, zone
from components.aws.compute import Member, Pool
from components.aws.controller import started
from components.aws.groups import Groups
from components.aws.iam import Iam
from components.aws.launch_inputs import LaunchInputs
from components.aws.login_node import LoginNode
from components.aws.network import Network
from components.aws.storage import Storage
from components.engine_state import folder_name
from components.inventory import Inventory, Launcher, Node, NodeSet, PlannedSet
from components.reach import Access, Machine, Reach, Ssh
from components.slurm.controller import Controller
from config.aws.model import Aws, Machines
from config.measure import Measure
from config.slurm import in_jobs, job_folder


class AwsCluster(pulumi.ComponentResource):
    """A cluster: one or more login nodes, and pools of machines.

    Creates: Network, Groups, Iam, LoginNode (several if configured), Storage and Slurm's Controller (each if configured), one
    Pool for each entry of machines.
    Outputs: `inventory` (see `components.inventory.Cluster`); `templates`, for a scheduler: the id of each pool's launch
    template, by the pool's key (queue and name of the entry).
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach
    templates: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, wanted: Aws, measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        wanted = zone.chosen(wanted)
        found = images.looked_up(wanted)
        preflight.judge(found)
        super().__init__("busbar:aws:Cluster", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        network = Network(f"{name}-network", wanted, mine)
        subnet = network.private_subnet_id
        groups = Groups(f"{name}-groups", wanted, network.vpc_id, mine)
        roles = Iam(f"{name}-iam", wanted, subnet, mine)
        mounts = pulumi.Output.from_input(Mounts())
        if groups.storage_id is not None:
            mounts = Storage(f"{name}-storage", wanted, network, groups.storage_id, mine).mounts
        for_login = LaunchInputs(
            subnet_id=network.public_subnet_id,
            group_id=groups.login_id,
            profile=roles.login_profile,
            mounts=mounts,
            parameter=roles.parameter,
            image=found.login.image or "",
        )
        login = LoginNode(f"{name}-login", wanted, measure, for_login, mine)
        controller = Controller(f"{name}-slurm", login.machine, login.instance_id, "aws", mine) if wanted.slurm else None
        for_nodes = LaunchInputs(
            subnet_id=subnet,
            group_id=groups.nodes_id,
            profile=roles.node_profile,
            mounts=mounts,
            image=found.image or "",
            controller_key=controller.public_key if controller else None,
        )
        people = _people(name, wanted, measure, for_login, roles, controller, mine) if controller else []
        ran = running.found(wanted, roles.node_profile_arn)
        may_go_on = running.judged(wanted, ran)
        # A pool's key is queue and name: a pool's machines stay when other pools are added, removed or reordered.
        pools = {key: Pool(f"{name}-pool-{key}", wanted, key, for_nodes, may_go_on, mine) for _, key, _ in wanted.located}
        # A preview by tools/take_in.py skips this check: machines that a killed update left behind are not in the state, so
        # they would look as if the engine replaced them.
        if pulumi.runtime.is_dry_run() and not left_behind.looked_for():
            running.judge_replaced(wanted, ran, {key: pool.kept for key, pool in pools.items()})
        scheduling: pulumi.Output[Machine | None] = pulumi.Output.from_input(None)
        if controller and wanted.slurm:
            scheduling = started(controller, wanted, wanted.slurm, pools, login, people, [network, groups, roles])
        # Whether Slurm starts the measured nodes for the test job; this job is submitted on the login node.
        on_login = wanted.measured(measure) in wanted.startable
        user, key = wanted.family.login, wanted.access.public_key
        self.reach = Ssh(
            pulumi.Output.all(login=login.machine, network=network.private_cidr).apply(
                lambda its: (
                    Access(its["login"].user, None, its["network"], key)
                    if on_login
                    else Access(user, its["login"], its["network"], key)
                )
            )
        )
        self.planned = tuple(_planned(wanted, key, one) for _, key, one in wanted.located)
        sets = pulumi.Output.all(*(pools[key].members.apply(partial(_made, key, one)) for _, key, one in wanted.located))
        beside = pulumi.Output.all(*(one.machine for one in people))
        self.inventory = pulumi.Output.all(sets=sets, login=login.machine, controller=scheduling, beside=beside).apply(
            lambda its: Inventory(tuple(its["sets"]), its["login"], its["controller"], tuple(its["beside"]))
        )
        self.templates = pulumi.Output.all(**{key: pool.template_id for key, pool in pools.items()})
        self.register_outputs({"login": login.machine.apply(lambda login: login.address), "templates": self.templates})


def _people(  # noqa: PLR0913, PLR0917 - what is wanted, and what other parts made
    name: str,
    wanted: Aws,
    measure: Measure,
    parts: LaunchInputs,
    roles: Iam,
    controller: Controller,
    opts: pulumi.ResourceOptions,
) -> list[LoginNode]:
    """Register the additional login nodes; the controller sets them up over SSH with the controller's key."""
    made = []
    for number, (profile, parameter) in enumerate(roles.people, 1):
        own = replace(parts, profile=profile, parameter=parameter, controller_key=controller.public_key)
        made.append(LoginNode(f"{name}-login-{number}", wanted, measure, own, opts, number))
    return made


def _planned(wanted: Aws, key: str, machines: Machines) -> PlannedSet:
    shape = machines.row
    queue = wanted.queue_of(key)
    folder = job_folder(wanted.storage.home_mount, folder_name())
    image, starts = wanted.ranks_run_in, wanted.slurm and machines.dynamic
    return PlannedSet(
        name=key,
        nodes=len(machines.numbers),
        dynamic=machines.dynamic,
        shape=shape,
        job_nodes=wanted.startable.get(key, 0),
        # An update does not wait for nodes of a Capacity Block: the block may begin weeks later.
        start_limit_s=wanted.slurm.start_limit_s(machines.always_on) if wanted.slurm and not machines.in_block else 0,
        entry_timeout_s=wanted.slurm.entry_limit_s if wanted.slurm and machines.dynamic else 0,
        made_of=wanted.made_of(machines),
        job_folder=folder,
        launcher=Launcher(
            wanted.homes, in_jobs(image, wanted.storage.home_mount) if starts else image, queue=queue if starts else ""
        ),
        ask=shape is None or shape.rdma is None,  # if the catalogue has no rails, ask the machines
    )


def _made(key: str, machines: Machines, members: tuple[Member, ...]) -> NodeSet:
    """Return the node set; each node has the name that the VPC's DNS gives to its address."""
    nodes = tuple(Node("ip-" + member.address.replace(".", "-"), member.address) for member in members)
    parts = [machines.type, *sorted({member.image for member in members}), *sorted(member.id for member in members)]
    return NodeSet(key, nodes, hashlib.sha256("\n".join(parts).encode()).hexdigest())
