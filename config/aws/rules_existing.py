"""Rules about an existing VPC: what it must already provide, because the stack never changes it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from catalogue.aws.ports import LUSTRE_PORTS, OPENZFS_PORTS
from catalogue.aws.regions import needs_second_zone
from catalogue.package_ports import PORTS
from config import slurm_rules
from config.aws.facts import Facts, SecurityGroup, Subnet
from config.aws.model import Aws, ExistingNetwork, OwnGroups
from config.model import key_of
from config.networks import WORLD
from config.rule import ERROR, Breach, known, rule

_AT = "aws.network.existing"
_GROUPS = f"{_AT}.groups"
_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_WORLD = "0.0.0.0/0"
_SSH = 22
_Breaches = Iterator[Breach]


@rule("existing-instead", ERROR, "a stack creates its network, or uses an existing one", guard=True)
def existing_instead(wanted: Aws, _facts: Facts) -> _Breaches:
    """An existing network with keys of a new network, with a home file system in two zones, or without a storage group."""
    own = wanted.network.existing
    if own is None:
        return
    for key in sorted({"public", "private"} & wanted.network.model_fields_set):
        yield Breach(f"aws.network.{key}", f"is {getattr(wanted.network, key)}, and {_AT} names subnets; set only one of them")
    home = wanted.storage.home
    if home and not home.existing and needs_second_zone(wanted.home_deployment):
        yield Breach(
            "aws.storage.home.deployment",
            f"is {wanted.home_deployment}, which writes routes into the subnets' route tables, but {_AT} is never changed; use "
            "a type in a single zone",
        )
    if own.groups and wanted.storage.systems and not own.groups.storage:
        yield Breach(
            f"{_GROUPS}.storage",
            "is not set, but machines mount file systems; name the group of the file systems, or set aws.storage to lustre: "
            "null and home: null",
        )


#: Keys that apply to new and existing file systems, because they concern the machines that mount them.
_OF_MACHINES = {"existing", "mount", "efa", "client_key", "efa_setup_sha256", "share_login_user"}


@rule("existing-system", ERROR, "FSx user guides: a file system's VPC and groups decide which machines reach it", guard=True)
def existing_system(wanted: Aws, _facts: Facts) -> _Breaches:
    """An existing file system with keys of a new file system, or an existing file system that the machines cannot reach."""
    for key, system in wanted.storage.systems.items():
        if system.existing is None:
            continue
        path = f"aws.storage.{key}"
        for name in sorted(system.model_fields_set - _OF_MACHINES):
            yield Breach(
                f"{path}.{key_of(name)}",
                f"is set, but {path}.existing is {system.existing}, which has its own value; set only one of the two",
            )
        if wanted.network.groups is None:
            yield Breach(
                f"{path}.existing",
                f"is {system.existing}, which only machines in existing groups can reach; set {_AT} to subnets of its VPC, "
                "with groups",
            )


@rule("existing-there", ERROR, f"{_CLUSTER} SubnetsValidator, SecurityGroupsValidator", guard=True)
def existing_there(wanted: Aws, facts: Facts) -> _Breaches:
    """A subnet or group that does not exist, or is in another VPC than the nodes' subnet."""
    own = wanted.network.existing
    if own is None:
        return
    nodes = known(facts.subnets, own.private_subnet, "subnet")
    parts: list[tuple[str, str, Subnet | SecurityGroup | None]] = [
        (f"{_AT}.{key}", name, known(facts.subnets, name, "subnet")) for key, name in _subnets(own).items()
    ]
    parts += [(path, name, known(facts.security_groups, name, "security group")) for path, name in _named(own.groups)]
    for path, name, found in parts:
        if found is None:
            yield Breach(path, f"is {name}, which is not in {wanted.region}, or this account may not see it")
        elif nodes is not None and found.vpc != nodes.vpc:
            there = f"{_AT}.privateSubnet, {own.private_subnet}, is in {nodes.vpc}"
            yield Breach(path, f"is {name}, which is in {found.vpc}, and {there}; all must be in one VPC")


@rule("existing-zone", ERROR, "EC2 API, DescribeSubnets: AvailabilityZone")
def existing_zone(wanted: Aws, facts: Facts) -> _Breaches:
    """A subnet in another zone than the machines."""
    own = wanted.network.existing
    for key, name in _subnets(own).items():
        found = known(facts.subnets, name, "subnet")
        if found is not None and found.zone != wanted.zone:
            yield Breach(
                f"{_AT}.{key}", f"is {name}, which is in {found.zone}, and aws.zone is {wanted.zone}; they must be in one zone"
            )


@rule("existing-dns", ERROR, f"{_CLUSTER} SubnetsValidator: DNS support and host names", number=26)
def existing_dns(wanted: Aws, facts: Facts) -> _Breaches:
    """A VPC whose DNS does not answer: file systems are mounted by DNS name, and machines are reached by DNS name."""
    own = wanted.network.existing
    nodes = known(facts.subnets, own.private_subnet, "subnet") if own else None
    if own is None or nodes is None:
        return
    found = known(facts.vpcs, nodes.vpc, "VPC")
    lacking = [name for name, there in (("DNS support", found.dns), ("DNS host names", found.host_names)) if not there]
    if lacking:
        yield Breach(
            f"{_AT}.privateSubnet",
            f"is {own.private_subnet}, whose VPC, {nodes.vpc}, has no {' and no '.join(lacking)}; names of file systems and "
            "machines would not resolve",
        )


@rule("existing-routes", ERROR, "EC2 user guide: an instance with several network interfaces gets no public address")
def existing_routes(wanted: Aws, facts: Facts) -> _Breaches:
    """A subnet without the route out that its machines need."""
    own = wanted.network.existing
    if own is None:
        return
    public = known(facts.subnets, own.public_subnet, "subnet")
    if public is not None and not public.way_out.startswith("igw-"):
        yield Breach(
            f"{_AT}.publicSubnet",
            f"is {own.public_subnet}, which sends {_WORLD} to {public.way_out or 'nothing'}; the login node is reached from "
            "outside, which needs an Internet gateway (igw-...)",
        )
    private = known(facts.subnets, own.private_subnet, "subnet")
    if private is not None and (not private.way_out or private.way_out.startswith("igw-")):
        yield Breach(
            f"{_AT}.privateSubnet",
            f"is {own.private_subnet}, which sends {_WORLD} to {private.way_out or 'nothing'}; nodes have no public address, "
            "but they fetch packages, so the subnet needs a NAT gateway or another way out",
        )


@rule("existing-efa", ERROR, "EC2 user guide, Get started with EFA: Prepare an EFA-enabled security group", number=5)
def existing_efa(wanted: Aws, facts: Facts) -> _Breaches:
    """A group that blocks EFA's traffic, which matches only rules that name the group by its id."""
    groups = wanted.network.groups
    if groups is None or not any(one.has_efa for _, _, one in wanted.located):
        return
    found = known(facts.security_groups, groups.nodes, "security group")
    lacking = [way for way, out in (("in from", False), ("out to", True)) if found and not found.lets([groups.nodes], out=out)]
    if lacking:
        yield Breach(
            f"{_GROUPS}.nodes",
            f"is {groups.nodes}, which does not allow all traffic {' itself and '.join(lacking)} itself by rules that "
            "name its id; EFA traffic matches no rule that names a network",
        )


@rule("existing-reach", ERROR, "what the update itself does: SSH to the login node, and from there to the nodes")
def existing_reach(wanted: Aws, facts: Facts) -> _Breaches:
    """Groups that block SSH, traffic between nodes, or the download of packages."""
    own, groups = wanted.network.existing, wanted.network.groups
    if own is None or groups is None:
        return
    login = known(facts.security_groups, groups.login, "security group")
    nodes = known(facts.security_groups, groups.nodes, "security group")
    private, public = (known(facts.subnets, name, "subnet") for name in (own.private_subnet, own.public_subnet))
    if login is None or nodes is None or private is None or public is None:
        return  # the rule existing-there reports what does not exist
    for index, source in enumerate(wanted.access.ssh_from):
        if not login.lets([source], out=False, port=_SSH):
            yield Breach(f"aws.access.sshFrom[{index}]", f"is {source}, and {groups.login} blocks SSH from there")
    if not login.lets([groups.nodes, private.cidr], out=True, port=_SSH):
        yield Breach(
            f"{_GROUPS}.login", f"is {groups.login}, which blocks outgoing SSH to {groups.nodes}; nodes are reached that way"
        )
    if not nodes.lets([groups.login, public.cidr], out=False, port=_SSH):
        yield Breach(
            f"{_GROUPS}.nodes", f"is {groups.nodes}, which blocks SSH from {groups.login}; nodes are reached only from there"
        )
    if not nodes.lets([groups.nodes, private.cidr], out=False) or not nodes.lets([groups.nodes, private.cidr], out=True):
        yield Breach(
            f"{_GROUPS}.nodes",
            f"is {groups.nodes}, which does not allow all traffic between nodes; MPI and NCCL use any port",
        )
    images = (wanted.login.family, wanted.family)
    for (key, name, group), image in zip((("login", groups.login, login), ("nodes", groups.nodes, nodes)), images, strict=True):
        ports = PORTS[image.packages]
        blocked = [ports[port] for port in ports if not group.lets([_WORLD], out=True, port=port)]
        if blocked:
            words = f"is {name}, which blocks outgoing {' and '.join(blocked)} to {_WORLD}; first boot fetches packages"
            yield Breach(f"{_GROUPS}.{key}", words)


@rule("existing-slurm", ERROR, "slurm.conf(5), SlurmctldPort, SlurmdPort, SrunPortRange")
def existing_slurm(wanted: Aws, facts: Facts) -> _Breaches:
    """Groups that block connections between a Slurm cluster's machines."""
    own, groups, slurm = wanted.network.existing, wanted.network.groups, wanted.slurm
    if own is None or groups is None or slurm is None:
        return
    sides = []
    for key, name, subnet in (("login", groups.login, own.public_subnet), ("nodes", groups.nodes, own.private_subnet)):
        group, network = known(facts.security_groups, name, "security group"), known(facts.subnets, subnet, "subnet")
        if group is None or network is None:
            return  # the rule existing-there reports what does not exist
        sides.append(_side(f"{_GROUPS}.{key}", name, network.cidr, group))
    yield from slurm_rules.reach("aws.slurm", slurm, *sides)


def _side(path: str, name: str, cidr: str, group: SecurityGroup) -> slurm_rules.Side:
    def lets(peers: tuple[str, ...], out: bool, port: int) -> bool:
        return group.lets(peers, out=out, port=port)

    edges = slurm_rules.edges(rule.ports for rule in group.rules)
    return slurm_rules.Side(path, f"is {name}, which blocks", (name, cidr), lets, edges)


@rule("existing-open", ERROR, "the login node is on the Internet", guard=True)
def existing_open(wanted: Aws, facts: Facts) -> _Breaches:
    """A login node's group that lets in SSH from the whole Internet although allowWorld is not set."""
    groups = wanted.network.groups
    if groups is None or wanted.access.allow_world:
        return
    login = known(facts.security_groups, groups.login, "security group")
    open_to = [world for world in WORLD if login is not None and login.lets([world], out=False, port=_SSH)]
    if open_to:
        yield Breach(
            f"{_GROUPS}.login",
            f"is {groups.login}, which allows SSH from {' and '.join(open_to)}, the whole Internet; remove that rule, or "
            "set aws.access.allowWorld: true if you want this",
        )


@rule("existing-storage", ERROR, f"{_CLUSTER} ExistingFsxNetworkingValidator", number=30)
def existing_storage(wanted: Aws, facts: Facts) -> _Breaches:
    """Groups that block the traffic between file systems and the machines that mount them."""
    own, groups = wanted.network.existing, wanted.network.groups
    if own is None or groups is None or groups.storage is None:
        return
    sides = {
        key: (name, known(facts.security_groups, name, "security group"))
        for key, name in (("storage", groups.storage), ("nodes", groups.nodes), ("login", groups.login))
    }
    network = known(facts.subnets, own.private_subnet, "subnet"), known(facts.subnets, own.public_subnet, "subnet")
    if None in network or any(found is None for _, found in sides.values()):
        return  # the rule existing-there reports what does not exist
    cidrs = {"storage": network[0], "nodes": network[0], "login": network[1]}
    for key, (name, found) in sides.items():
        closed = []
        for peer, way, port, protocol in _file_traffic(wanted, key):
            cidr = cidrs[peer]
            # A rule may name the peer's group or the peer's network. But EFA's traffic, which is the only traffic without a
            # port, matches no rule that names a network.
            able = [sides[peer][0], *([cidr.cidr] if cidr and port else [])]
            if found and not found.lets(able, out=way == "to", port=port, protocol=protocol):
                closed.append(f"{protocol if port else 'everything'} {port or ''}".strip() + f" {way} {sides[peer][0]}")
        if closed:
            yield Breach(f"{_GROUPS}.{key}", f"is {name}, which blocks {', '.join(closed)}; mounts would hang")


def _file_traffic(wanted: Aws, key: str) -> Iterator[tuple[str, str, int | None, str]]:
    """Yield the file systems' traffic that the security group `key` must allow.

    Each item has four values: the key of the other group; `from` if traffic comes from that group, `to` if it goes there; the
    port (None: all ports); and the protocol.
    """
    lustre = wanted.storage.lustre
    clients, servers = ("nodes", "login"), key == "storage"
    peers = (*clients, "storage") if servers else ("storage",)
    for peer, port in itertools.product(peers, _ends(LUSTRE_PORTS) if lustre else ()):
        yield peer, "from", port, "tcp"  # servers and clients both open connections
        yield peer, "to", port, "tcp"
    if lustre and lustre.efa and key != "login":
        for peer, way in itertools.product(("nodes", "storage") if servers else ("storage",), ("from", "to")):
            yield peer, way, None, "-1"
    if wanted.storage.home:
        for peer, port, protocol in itertools.product(
            clients if servers else ("storage",), _ends(OPENZFS_PORTS), ("tcp", "udp")
        ):
            yield peer, "from" if servers else "to", port, protocol


def _subnets(own: ExistingNetwork | None) -> dict[str, str]:
    return {"publicSubnet": own.public_subnet, "privateSubnet": own.private_subnet} if own else {}


def _named(groups: OwnGroups | None) -> Iterator[tuple[str, str]]:
    """Yield path and id of each security group that the stack file names."""
    for key, name in groups.model_dump().items() if groups else ():
        if name:
            yield f"{_GROUPS}.{key}", name


def _ends(ports: tuple[tuple[int, int], ...]) -> list[int]:
    return sorted({port for first, last in ports for port in (first, last)})
