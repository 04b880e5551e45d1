"""A cluster of machines with EFA behind its head: network, groups, roles, file systems, and one pool for each kind of machine.

It deliberately knows no scheduler: every kind of machine has its template, and one kind's static machines are what is measured.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import pulumi

from catalogue.aws import MACHINE_IMAGES, AwsIntent, Compute, MachineImage
from catalogue.containers import Container
from cloudinit.aws import Mounts
from components.aws import preflight
from components.aws.bastion import Head, HeadArgs, parameter_name
from components.aws.compute import Member, Pool, PoolArgs
from components.aws.groups import Groups, GroupsArgs
from components.aws.iam import Iam, IamArgs
from components.aws.network import Network, NetworkArgs
from components.aws.storage import Storage, StorageArgs
from components.inventory import Inventory, Launcher, Machine, Node, NodeSet, PlannedSet
from components.reach import Access, Reach, Ssh


@dataclass(frozen=True, kw_only=True)
class AwsArgs:
    """What cluster is wanted; every field is known before anything exists.

    Attributes:
        intent: machines, file systems, and where.
        network: the VPC.
        timezone: time zone of all machines.
        ready_timeout_s: bound on the head's first boot.
        suppress: rules that are not judged.
        preflight: ask the account first.
        container: image that ranks run in; None runs them on the machines themselves.
    """

    intent: AwsIntent
    network: NetworkArgs
    timezone: str
    ready_timeout_s: int
    suppress: tuple[str, ...] = ()
    preflight: bool = True
    container: Container | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be measured as one."""
        if sum(one.static > 0 for one in self.intent.compute) != 1:
            counts = ", ".join(f"{one.key} {one.static}" for one in self.intent.compute) or "none"
            msg = f"static machines are {counts}; one kind of machine has some, for they are measured together"
            raise ValueError(msg)

    @property
    def measured(self) -> Compute:
        """Return the kind whose static machines are measured."""
        return next(one for one in self.intent.compute if one.static)

    @property
    def family(self) -> MachineImage:
        """Return the kind of the nodes' image."""
        return MACHINE_IMAGES[self.intent.system]


class AwsCluster(pulumi.ComponentResource):
    """A head and its machines.

    Creates: Network, Groups, Iam, Storage (where wanted), Head, one Pool for each kind of machine.
    Outputs: `inventory` (see `components.inventory.Cluster`); `templates`, ids of launch templates by kind of machine, for a
    scheduler.
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach
    templates: pulumi.Output[dict[str, str]]

    def __init__(self, name: str, args: AwsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        preflight.judge(args.intent, args.suppress, ask=args.preflight)
        super().__init__("busbar:aws:Cluster", name, None, opts)
        intent, measured = args.intent, args.measured
        mine = pulumi.ResourceOptions(parent=self)
        network = Network(f"{name}-network", args.network, mine)
        groups = Groups(f"{name}-groups", _groups(args, network), mine)
        roles = Iam(f"{name}-iam", _roles(args, network), mine)
        mounts = pulumi.Output.from_input(Mounts())
        if groups.storage_id is not None:
            mounts = Storage(f"{name}-storage", _storage(args, network, groups.storage_id), mine).mounts
        head = Head(f"{name}-head", _head(args, network, groups, roles, mounts), mine)
        pools = {
            one.key: Pool(f"{name}-pool-{index}", _pool(args, one, network, groups, roles, mounts, head), mine)
            for index, one in enumerate(intent.compute)
        }
        members = pools[measured.key].members
        login = pulumi.Output.all(address=head.address, host_key=head.host_key).apply(
            lambda known: Machine(
                "head", str(known["address"]), MACHINE_IMAGES[intent.head_system].login, str(known["host_key"])
            )
        )
        self.reach = Ssh(login.apply(lambda machine: _access(args, machine)))
        self.planned = (_planned(args),)
        self.inventory = pulumi.Output.all(members=members, login=login).apply(
            lambda known: Inventory(
                (NodeSet(measured.key, _nodes(known["members"]), _identity(args, known["members"])),), login=known["login"]
            )
        )
        self.templates = pulumi.Output.all(**{key: pool.template_id for key, pool in pools.items()})
        self.register_outputs({"head": head.address, "templates": self.templates})


def _planned(args: AwsArgs) -> PlannedSet:
    one, instance = args.measured, args.measured.instance
    shape = instance.shape(efa=one.has_efa) if instance else None
    return PlannedSet(
        name=one.key,
        nodes=one.static,
        dynamic=one.dynamic,
        shape=shape,
        launcher=Launcher(args.family.homes, args.container),
        ask=shape is None or shape.rdma is None,  # where no source names the rails, the machines themselves do
    )


def _groups(args: AwsArgs, network: Network) -> GroupsArgs:
    lustre = args.intent.lustre
    return GroupsArgs(
        network=args.network,
        vpc_id=network.vpc_id,
        lustre=lustre is not None,
        openzfs=args.intent.home is not None,
        lustre_efa=lustre is not None and lustre.efa,
    )


def _roles(args: AwsArgs, network: Network) -> IamArgs:
    compute = args.intent.compute
    return IamArgs(
        label=args.network.label,
        region=args.network.region,
        parameter=parameter_name(args.network.label),
        elastic=any(one.dynamic for one in compute),
        subnet_id=network.private_subnet_id,
        reservations=tuple(dict.fromkeys(one.reservation for one in compute if one.reservation)),
        tags=args.network.named("role"),
    )


def _storage(args: AwsArgs, network: Network, group: pulumi.Input[str]) -> StorageArgs:
    return StorageArgs(
        network=args.network,
        lustre=args.intent.lustre,
        home=args.intent.home,
        deployment=args.intent.home_deployment,
        group_id=group,
        subnet_id=network.private_subnet_id,
        second_subnet_id=network.second_subnet_id,
        route_table_ids=network.route_table_ids,
    )


def _head(args: AwsArgs, network: Network, groups: Groups, roles: Iam, mounts: pulumi.Output[Mounts]) -> HeadArgs:
    intent = args.intent
    return HeadArgs(
        network=args.network,
        instance_type=intent.head_type,
        image=intent.head_image,
        family=MACHINE_IMAGES[intent.head_system],
        root=intent.head_root,
        timezone=args.timezone,
        operator_key=intent.operator_key,
        timeout_s=args.ready_timeout_s,
        subnet_id=network.public_subnet_id,
        group_id=groups.head_id,
        profile=roles.head_profile,
        mounts=mounts,
    )


def _pool(  # noqa: PLR0913, PLR0917 - one private place where all parts of a cluster meet
    args: AwsArgs,
    compute: Compute,
    network: Network,
    groups: Groups,
    roles: Iam,
    mounts: pulumi.Output[Mounts],
    head: Head,
) -> PoolArgs:
    return PoolArgs(
        network=args.network,
        compute=compute,
        image=args.intent.image,
        family=args.family,
        root=args.intent.root,
        timezone=args.timezone,
        operator_key=args.intent.operator_key,
        head_key=head.public_key,
        subnet_id=network.private_subnet_id,
        group_id=groups.nodes_id,
        profile=roles.node_profile,
        mounts=mounts,
        container=args.intent.container is not None,
    )


def _nodes(members: tuple[Member, ...]) -> tuple[Node, ...]:
    """Return nodes by the names that the VPC's own DNS has for them."""
    return tuple(Node("ip-" + member.address.replace(".", "-"), member.address) for member in members)


def _access(args: AwsArgs, login: Machine) -> Access:
    return Access(
        user=args.family.login,
        through=login.address,
        through_user=login.user,
        through_host_key=login.host_key,
        network=args.network.private_subnets[0],
    )


def _identity(args: AwsArgs, members: tuple[Member, ...]) -> str:
    parts = [args.measured.instance_type, args.intent.image, *sorted(member.id for member in members)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
