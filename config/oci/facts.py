"""Facts that the OCI account reported; empty if it was not queried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from config.networks import covers
from config.rule import NotAskedError

_TCP = "6"


@dataclass(frozen=True)
class OfferedShape:
    """A shape as an availability domain offers it: its GPUs, and the names of the limits that it counts against."""

    gpus: int
    limits: tuple[str, ...]


@dataclass(frozen=True)
class Image:
    """An image: its operating system and version, and the shapes that it supports."""

    system: str
    version: str
    shapes: frozenset[str]


@dataclass(frozen=True)
class SecurityRule:
    """A rule of a subnet's security lists.

    Attributes:
        out: whether it lets traffic out; otherwise in.
        protocol: `all`, `6` (TCP), `17` (UDP) ...
        ports: first and last destination port; None for all.
        peer: the network on the other side; empty for one of the vendor's services.
    """

    out: bool
    protocol: str
    ports: tuple[int, int] | None
    peer: str


@dataclass(frozen=True)
class Subnet:
    """An existing subnet.

    Attributes:
        vcn: OCID of its VCN.
        domain: its availability domain; empty if it is regional.
        cidr: its address range.
        free: how many of its addresses are free.
        dns: its DNS domain; empty if it has none.
        takes_public: whether its machines may have public addresses.
        way_out: OCID of its route table's target for 0.0.0.0/0; empty if there is none, None if the table cannot be read.
        rules: rules of its security lists.
        unread: OCIDs of its security lists that could not be read, because they are in another compartment.
    """

    vcn: str
    domain: str
    cidr: str
    free: int
    dns: str
    takes_public: bool
    way_out: str | None
    rules: tuple[SecurityRule, ...]
    unread: tuple[str, ...] = ()

    def lets(self, peer: str, *, out: bool, port: int | None = None) -> bool:
        """Tell whether the rules let traffic out to (or in from) a network: TCP to `port`, or all traffic if `port` is None.

        Raises:
            NotAskedError: the known rules do not let it, but a security list that could not be read might.
        """
        serving = [rule for rule in self.rules if rule.out == out and rule.peer and _serves(rule, port)]
        if covers((rule.peer for rule in serving), peer):
            return True
        if self.unread:
            raise NotAskedError(f"the rules of {', '.join(self.unread)}, which are not in the compartment of their subnet")
        return False


def _serves(rule: SecurityRule, port: int | None) -> bool:
    if rule.protocol == "all":
        return True
    return port is not None and rule.protocol == _TCP and (rule.ports is None or rule.ports[0] <= port <= rule.ports[1])


@dataclass(frozen=True)
class Facts:
    """All facts that were looked up. A key that is absent was not looked up, unless the attribute says what it means.

    Attributes:
        domains: the region's availability domains; empty if they were not looked up.
        shapes: shapes that an availability domain offers, by domain and name; it does not offer others.
        images: by OCID; None if there is no such image.
        available: how much of a limit is left, by its name; None if the service does not report it.
        login_image: OCID of the newest platform image for the login node; None if there is none, or the stack file sets it.
        made: the text of `Oci.machines` with which a pool's machines were created, as their tag records it, by pool name;
            absent without machines or tag.
        strays: number of nodes in each cluster network (or single instance) of this stack that no pool has any more, because
            the pool is gone or `oci.name` changed, by the network's display name.
        running: size of a pool's cluster network, or 1 for its single instance, by pool name; 0 if it has neither.
        subnets: subnets that the stack file names, by OCID.
        oldest: names of the nodes of a pool that shrinks but keeps nodes, oldest first, by pool name.
        placed: the availability domain in which a pool's machines run, by pool name; absent without machines.
    """

    domains: tuple[str, ...] = ()
    shapes: Mapping[str, Mapping[str, OfferedShape]] = field(default_factory=dict)
    images: Mapping[str, Image | None] = field(default_factory=dict)
    available: Mapping[str, int | None] = field(default_factory=dict)
    subnets: Mapping[str, Subnet] = field(default_factory=dict)
    login_image: str | None = None
    made: Mapping[str, str] = field(default_factory=dict)
    strays: Mapping[str, int] = field(default_factory=dict)
    running: Mapping[str, int] = field(default_factory=dict)
    oldest: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    placed: Mapping[str, str] = field(default_factory=dict)

    def domain(self, named: str | None, shapes: frozenset[str]) -> str:
        """Return a stack's availability domain: the `named` one, else the first that offers `shapes`; empty if none does."""
        return named or next(iter(self.offering(shapes)), "")

    def offering(self, shapes: frozenset[str]) -> tuple[str, ...]:
        """Return the availability domains that offer all of `shapes`."""
        return tuple(domain for domain in self.domains if shapes <= set(self.shapes.get(domain, {})))
