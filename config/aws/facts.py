"""What the AWS account answered; empty if it was not asked."""

from __future__ import annotations

from collections.abc import Mapping
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
        quota_unsaid: types whose quota the service does not know.
    """

    region: str | None = None
    reservations: Mapping[str, Reservation | None] = field(default_factory=dict)
    groups: Mapping[str, tuple[Reservation, ...] | None] = field(default_factory=dict)
    zones: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)
    images: Mapping[str, Image | None] = field(default_factory=dict)
    placement_groups: Mapping[str, str | None] = field(default_factory=dict)
    quota_vcpus: Mapping[str, float | None] = field(default_factory=dict)
    quota_unsaid: frozenset[str] = frozenset()
