"""What the AWS account answered; empty if it was not asked."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation.

    Attributes:
        id: `cr-...`.
        block: it is a Capacity Block; else an on-demand reservation (ODCR).
        state: as the vendor says: `active`, `scheduled`, `expired` ...
        instance_type: what is reserved.
        zone: its availability zone.
        instances: how many machines it holds in all.
        placement_group: name of the placement group that it was created in; empty if there is none.
        start: when a Capacity Block begins, RFC 3339; empty for others.
    """

    id: str
    block: bool
    state: str
    instance_type: str
    zone: str
    instances: int
    placement_group: str = ""
    start: str = ""


@dataclass(frozen=True)
class Machine:
    """What the vendor says of an instance type today: ways to buy it, placement strategies, EFA devices, and network cards."""

    usage: frozenset[str]
    strategies: frozenset[str]
    efa: int
    cards: tuple[int, ...]


@dataclass(frozen=True)
class Image:
    """A machine image: its architecture, its name, and the size of the snapshot of its root volume in GiB."""

    architecture: str
    name: str
    root_gib: int


@dataclass(frozen=True)
class Vpc:
    """A VPC that exists: whether its DNS answers, and whether machines have names in it."""

    dns: bool
    host_names: bool


@dataclass(frozen=True)
class Subnet:
    """A subnet that exists.

    Attributes:
        vpc: id of its VPC.
        zone: its availability zone.
        cidr: its addresses.
        free: how many of them are free.
        way_out: id of what its route table sends 0.0.0.0/0 to; empty if nothing.
    """

    vpc: str
    zone: str
    cidr: str
    free: int
    way_out: str


@dataclass(frozen=True)
class Profile:
    """An instance profile that exists, and the name of its role; empty if it has none."""

    role: str


@dataclass(frozen=True)
class ElasticIps:
    """Elastic IP addresses: how many the account may have in the region, has, and has of this cluster."""

    quota: int
    held: int
    ours: int


@dataclass(frozen=True)
class GroupRule:
    """A rule of a security group.

    Attributes:
        out: it lets traffic out; else in.
        protocol: `tcp`, `udp` ..., `-1` for all.
        ports: first and last; of all protocols they mean nothing.
        peer: id of the group, or the IPv4 network, on the other side; empty for what is not judged here (prefix lists, IPv6).
    """

    out: bool
    protocol: str
    ports: tuple[int, int]
    peer: str


@dataclass(frozen=True)
class SecurityGroup:
    """A security group that exists: its VPC's id, and its rules."""

    vpc: str
    rules: tuple[GroupRule, ...]

    def lets(self, peers: Collection[str], *, out: bool, port: int | None = None, protocol: str = "tcp") -> bool:
        """Tell whether it lets traffic out (else in) to one of `peers`, ids of groups or networks.

        `port` None asks for all traffic of all protocols.
        """
        serving = [rule for rule in self.rules if rule.out == out and _serves(rule, protocol, port)]
        open_to = list(ipaddress.collapse_addresses(ipaddress.IPv4Network(one.peer) for one in serving if "/" in one.peer))
        for peer in peers:
            if "/" in peer and any(ipaddress.IPv4Network(peer).subnet_of(network) for network in open_to):
                return True
        return any(rule.peer in peers for rule in serving if rule.peer)


def _serves(rule: GroupRule, protocol: str, port: int | None) -> bool:
    if rule.protocol == "-1":
        return True
    return port is not None and rule.protocol == protocol and rule.ports[0] <= port <= rule.ports[1]


@dataclass(frozen=True)
class Facts:
    """Everything that was asked; what is absent was not.

    Attributes:
        region: of the provider; None if it was not asked.
        reservations: by id; None if there is none.
        groups: reservations in a resource group, by the group's ARN; None if it is no pool of capacity reservations.
        zones: availability zones that offer an instance type, by type.
        machines: what types are, by name.
        images: by id; None if there is none.
        placement_groups: strategy by name; None if there is no such group.
        quota_vcpus: vCPUs that the account may run of a type, by type; None if that kind is not counted.
        quota_used: vCPUs that are surely in use of that quota, by type.
        quota_unsaid: types whose quota the service does not know.
        running: machines that run already for an entry of machines, by its key.
        subnets, security_groups: those that the stack file names, by id; None if there is none.
        vpcs: those of the subnets, by id.
        elastic_ips: of the region, by its name; None where the service does not say the quota.
        profiles: instance profiles that the stack file names, by name; None if there is none.
    """

    region: str | None = None
    reservations: Mapping[str, Reservation | None] = field(default_factory=dict)
    groups: Mapping[str, tuple[Reservation, ...] | None] = field(default_factory=dict)
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    images: Mapping[str, Image | None] = field(default_factory=dict)
    placement_groups: Mapping[str, str | None] = field(default_factory=dict)
    quota_vcpus: Mapping[str, float | None] = field(default_factory=dict)
    quota_used: Mapping[str, int] = field(default_factory=dict)
    quota_unsaid: frozenset[str] = frozenset()
    running: Mapping[str, int] = field(default_factory=dict)
    vpcs: Mapping[str, Vpc] = field(default_factory=dict)
    subnets: Mapping[str, Subnet | None] = field(default_factory=dict)
    security_groups: Mapping[str, SecurityGroup | None] = field(default_factory=dict)
    elastic_ips: Mapping[str, ElasticIps | None] = field(default_factory=dict)
    profiles: Mapping[str, Profile | None] = field(default_factory=dict)
