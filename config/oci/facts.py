"""What the OCI account answered; empty if it was not asked."""

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
    """An image: its operating system and version, and the shapes that it fits."""

    system: str
    version: str
    shapes: frozenset[str]


@dataclass(frozen=True)
class SecurityRule:
    """A rule of a subnet's security lists.

    Attributes:
        out: it lets traffic out; else in.
        protocol: `all`, `6` (TCP), `17` (UDP) ...
        ports: first and last destination port; None for all.
        peer: the IPv4 network on the other side; empty for a service of the vendor's.
    """

    out: bool
    protocol: str
    ports: tuple[int, int] | None
    peer: str


@dataclass(frozen=True)
class Subnet:
    """A subnet that exists.

    Attributes:
        vcn: OCID of its VCN.
        domain: its availability domain; empty if it is regional.
        cidr: its addresses.
        free: how many of them are free.
        dns: its DNS domain; empty if it has none.
        takes_public: its machines may have public addresses.
        way_out: OCID of what its route table sends 0.0.0.0/0 to; empty if nothing, None if the table cannot be seen.
        rules: of all its security lists.
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
        """Tell whether it lets traffic out (else in) to a network: TCP to `port`, or everything if that is None."""
        serving = [rule for rule in self.rules if rule.out == out and rule.peer and _serves(rule, port)]
        open_to = ipaddress.collapse_addresses(ipaddress.IPv4Network(rule.peer) for rule in serving)
        return any(ipaddress.IPv4Network(peer).subnet_of(network) for network in open_to)


def _serves(rule: SecurityRule, port: int | None) -> bool:
    if rule.protocol == "all":
        return True
    return port is not None and rule.protocol == _TCP and (rule.ports is None or rule.ports[0] <= port <= rule.ports[1])


@dataclass(frozen=True)
class Facts:
    """Everything that was asked; what is absent was not.

    Attributes:
        domains: the region's availability domains; empty if it was not asked.
        shapes: shapes that an availability domain offers, by domain and name.
        images: by OCID; None if there is none.
        available: what is left of a limit, by its name; None where the service does not say.
        login_image: OCID of the newest platform image for the login node; None if there is none, or it is given.
        made: what the machines of a pool were made for (`Oci.machines`), by the pool's name, where they say.
        strays: nodes of this stack's cluster networks for which it has no pool any more, by display name.
        running: nodes that a pool has already, by the pool's name.
        subnets: those that the stack file names, by OCID.
        oldest: names of the nodes of a pool that shrinks, oldest first, by the pool's name.
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

    def offering(self, shapes: frozenset[str]) -> tuple[str, ...]:
        """Return the availability domains that offer all of `shapes`."""
        return tuple(domain for domain in self.domains if shapes <= set(self.shapes.get(domain, {})))
