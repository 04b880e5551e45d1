"""Facts that the AWS account reported; there are none if the account was not queried."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from config.networks import covers


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation.

    Attributes:
        id: `cr-...`.
        block: whether the reservation is a Capacity Block; otherwise it is an on-demand reservation (ODCR).
        state: in the vendor's words: `active`, `scheduled`, `expired` ...
        instance_type: the reserved instance type.
        zone: the reservation's availability zone.
        instances: how many machines are reserved.
        placement_group: name of the placement group that the reservation was created in; empty if there is none.
        start: start of a Capacity Block, RFC 3339; empty for an on-demand reservation.
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
    """The vendor's current data on an instance type: its purchase options and placement strategies, and its hardware.

    `efa` is the number of EFA devices, and `cards` the maximum number of interfaces of each network card.
    """

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
    """An existing VPC: whether it has DNS support, and whether its machines get DNS host names."""

    dns: bool
    host_names: bool


@dataclass(frozen=True)
class Subnet:
    """An existing subnet.

    Attributes:
        vpc: id of the subnet's VPC.
        zone: the subnet's availability zone.
        cidr: the subnet's address range.
        free: how many of the subnet's addresses are free.
        way_out: id of the target to which the subnet's route table sends 0.0.0.0/0; empty if there is no such route.
    """

    vpc: str
    zone: str
    cidr: str
    free: int
    way_out: str


@dataclass(frozen=True)
class Profile:
    """An existing instance profile: the name of its role, which is empty if the profile has no role."""

    role: str


@dataclass(frozen=True)
class ElasticIps:
    """The account's Elastic IP addresses in one region.

    Attributes:
        quota: how many such addresses the account may have.
        held: how many the account has.
        ours: how many of these belong to clusters with the name in `aws.name`.
    """

    quota: int
    held: int
    ours: int


@dataclass(frozen=True)
class GroupRule:
    """A rule of a security group.

    Attributes:
        out: whether the rule lets traffic out; otherwise it lets traffic in.
        protocol: `tcp`, `udp` ..., `-1` for all protocols.
        ports: first and last port; meaningless if the protocol is `-1`.
        peer: where the traffic goes to or comes from: id of a security group, or a network in CIDR notation; empty for peers
            that are not judged (prefix lists, groups of other accounts).
    """

    out: bool
    protocol: str
    ports: tuple[int, int]
    peer: str


@dataclass(frozen=True)
class SecurityGroup:
    """An existing security group: its VPC's id, and its rules."""

    vpc: str
    rules: tuple[GroupRule, ...]

    def lets(self, peers: Collection[str], *, out: bool, port: int | None = None, protocol: str = "tcp") -> bool:
        """Tell whether the group allows traffic to one of `peers` (from one of `peers` if `out` is false).

        Each peer is the id of a group, or a network. If `port` is None, the group must allow all traffic of all protocols.
        """
        serving = [rule for rule in self.rules if rule.out == out and _serves(rule, protocol, port)]
        open_to = [rule.peer for rule in serving if "/" in rule.peer]
        if any(covers(open_to, peer) for peer in peers if "/" in peer):
            return True
        return any(rule.peer in peers for rule in serving if rule.peer)


def _serves(rule: GroupRule, protocol: str, port: int | None) -> bool:
    if rule.protocol == "-1":
        return True
    return port is not None and rule.protocol == protocol and rule.ports[0] <= port <= rule.ports[1]


@dataclass(frozen=True)
class Facts:
    """All facts that were looked up; a key that is absent was not looked up.

    Attributes:
        region: the provider's region; None if it was not looked up.
        reservations: by id; None if there is no such reservation.
        groups: reservations in a resource group, by the group's ARN; None if the group is not a pool of capacity reservations.
        zones: availability zones that offer an instance type, by type.
        machines: instance types, by name.
        images: by id; None if there is no such image.
        placement_groups: strategy of a placement group, by the group's name; None if there is no such group.
        quota_vcpus: vCPUs that the account may run, by the quota's name; None if the service does not report the quota.
        quota_used: lower bound of the quota's vCPUs that are in use, by the quota's name.
        running: how many machines of an entry run, by the entry's key. Machines of all clusters with the name in `aws.name`
            count.
        subnets, security_groups: subnets and groups that the stack file names, by id; None if there is no such subnet or group.
        vpcs: VPCs of the subnets in `subnets`, by id.
        elastic_ips: numbers of Elastic IP addresses, by region name; None if the service does not report the quota.
        profiles: instance profiles that the stack file names, by name; None if there is no such profile.
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
    running: Mapping[str, int] = field(default_factory=dict)
    vpcs: Mapping[str, Vpc] = field(default_factory=dict)
    subnets: Mapping[str, Subnet | None] = field(default_factory=dict)
    security_groups: Mapping[str, SecurityGroup | None] = field(default_factory=dict)
    elastic_ips: Mapping[str, ElasticIps | None] = field(default_factory=dict)
    profiles: Mapping[str, Profile | None] = field(default_factory=dict)
