"""Facts that the OCI account reported; empty if it was not queried."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field

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
        peer: the IPv4 network on the other side; empty for one of the vendor's services.
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
        rules: rules of all its security lists.
    """

    vcn: str
    domain: str
    cidr: str
    free: int
    dns: str
    takes_public: bool
    way_out: str | None
    rules: tuple[SecurityRule, ...]

    def lets(self, peer: str, *, out: bool, port: int | None = None) -> bool:
        """Tell whether the rules let traffic out to (or in from) a network: TCP to `port`, or all traffic if `port` is None."""
        serving = [rule for rule in self.rules if rule.out == out and rule.peer and _serves(rule, port)]
        open_to = ipaddress.collapse_addresses(ipaddress.IPv4Network(rule.peer) for rule in serving)
        return any(ipaddress.IPv4Network(peer).subnet_of(network) for network in open_to)


def _serves(rule: SecurityRule, port: int | None) -> bool:
    if rule.protocol == "all":
        return True
    return port is not None and rule.protocol == _TCP and (rule.ports is None or rule.ports[0] <= port <= rule.ports[1])


@dataclass(frozen=True)
class Facts:
    """All facts that were looked up; a key that is absent was not looked up.

    Attributes:
        domains: the region's availability domains; empty if they were not looked up.
        shapes: shapes that an availability domain offers, by domain and name.
        images: by OCID; None if there is no such image.
        available: how much of a limit is left, by its name; None if the service does not report it.
        login_image: OCID of the newest platform image for the login node; None if there is none, or the stack file sets it.
        made: the text of `Oci.machines` with which a pool's machines were created, as their tag records it, by pool name.
        strays: number of nodes in each cluster network (or single instance) of this stack whose pool is gone, by the network's
            display name.
        running: number of running nodes of a pool, by pool name.
        subnets: subnets that the stack file names, by OCID.
        oldest: names of the nodes of a pool that shrinks, oldest first, by pool name.
        placed: the availability domain in which a pool's machines run, by pool name.
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

    def offering(self, shapes: frozenset[str]) -> tuple[str, ...]:
        """Return the availability domains that offer all of `shapes`."""
        return tuple(domain for domain in self.domains if shapes <= set(self.shapes.get(domain, {})))
