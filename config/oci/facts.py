"""Facts that the OCI account reported; there are none if the account was not queried."""

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
        out: whether the rule lets traffic out; otherwise it lets traffic in.
        protocol: `all`, `6` (TCP), `17` (UDP) ...
        ports: first and last destination port; None for all ports.
        peer: the network that the traffic goes to or comes from; empty if the peer is a service of the vendor.
    """

    out: bool
    protocol: str
    ports: tuple[int, int] | None
    peer: str


@dataclass(frozen=True)
class Subnet:
    """An existing subnet.

    Attributes:
        vcn: OCID of the subnet's VCN.
        domain: the subnet's availability domain; empty if the subnet is regional.
        cidr: the subnet's address range.
        free: how many of the subnet's addresses are free.
        dns: the subnet's DNS domain; empty if the subnet has none.
        takes_public: whether machines in the subnet may have public addresses.
        way_out: OCID of the target to which the subnet's route table sends 0.0.0.0/0; empty if there is no such route, None if
            the table is not in the subnet's compartment.
        rules: rules of the subnet's security lists, except those in `unread`.
        unread: OCIDs of security lists of the subnet that could not be read, because the lists are in another compartment.
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
        """Tell whether the rules allow traffic to the network `peer` (if `out` is true) or from this network (if it is false).

        The traffic is TCP to `port`, or all traffic if `port` is None.

        Raises:
            NotAskedError: the known rules block this traffic, but a security list that could not be read might allow it.
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
    """All facts that were looked up. An absent key was not looked up; if absence means something else, the attribute says so.

    Attributes:
        domains: the region's availability domains; empty if they were not looked up.
        shapes: shapes that an availability domain offers, by domain and name; the domain does not offer an absent shape.
        images: images by OCID; None if there is no such image.
        available: how much of a limit is left, by the limit's name; None if the service does not report the limit.
        login_image: OCID of the newest platform image for the login node; None if there is no such image, or if it was
            not looked up (the stack file names an image).
        made: the text of `Oci.machines` with which a pool's machines were created, by pool name. A tag of the cluster network
            or of the single instance records this text; a pool without machines or tag is absent.
        strays: cluster networks and single instances of this stack that belong to no pool any more, because the pool is gone
            or `oci.name` changed: the number of their nodes, by display name.
        running: size of a pool's cluster network, or 1 for its single instance, by pool name; 0 if the pool has neither.
        subnets: subnets that the stack file names, by OCID.
        oldest: for a pool that shrinks but keeps nodes, the names of its nodes, oldest first, by pool name.
        region: the stack's region; empty if it is not known.
        home_region: the tenancy's home region; None if it was not looked up.
        placed: the availability domain in which a pool's machines run, by pool name; a pool without machines is absent.
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
    region: str = ""
    home_region: str | None = None

    def domain(self, named: str | None, shapes: frozenset[str]) -> str:
        """Return a stack's availability domain: `named`, or the first domain that offers all `shapes`; empty if none does."""
        return named or next(iter(self.offering(shapes)), "")

    def offering(self, shapes: frozenset[str]) -> tuple[str, ...]:
        """Return the availability domains that offer all of `shapes`."""
        return tuple(domain for domain in self.domains if shapes <= set(self.shapes.get(domain, {})))
