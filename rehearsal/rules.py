"""A network plan as nftables text, stateful as the vendor's security lists are; touches nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Literal

UPLINK = "net"
"""The router's interface towards the rehearsed Internet."""


@dataclass(frozen=True)
class Rule:
    """One rule of a security list; what no rule allows is dropped without an answer.

    Attributes:
        direction: seen from the hosts of the subnet.
        protocol: `all`, or the number of ICMP, TCP or UDP.
        peer: CIDR of the other side: source of ingress, destination of egress.
        ports: first and last destination port, or None for every one.
        source_ports: first and last source port, or None for every one.
        icmp: type and code (None: every code), or None for every type.
        stateless: replies need a rule of their own.
    """

    direction: Literal["ingress", "egress"]
    protocol: Literal["all", "1", "6", "17"]
    peer: str
    ports: tuple[int, int] | None = None
    source_ports: tuple[int, int] | None = None
    icmp: tuple[int, int | None] | None = None
    stateless: bool = False


@dataclass(frozen=True)
class Route:
    """One rule of a route table; `service` destinations lie in 240.0.0.0/4."""

    destination: str
    target: Literal["internet", "nat", "service"]


@dataclass(frozen=True)
class SubnetPlan:
    """A subnet: an id of [a-z0-9]{6,8}, its CIDR, the rules of all its security lists and its routes."""

    id: str
    cidr: str
    rules: tuple[Rule, ...] = ()
    routes: tuple[Route, ...] = ()


@dataclass(frozen=True)
class VcnPlan:
    """A virtual cloud network: everything that is wanted of it, as one value.

    Attributes:
        id: [a-z0-9]{6,8}.
        cidrs: its address ranges.
        subnets: its subnets.
        public_ips: public address of each private address that has one.
    """

    id: str
    cidrs: tuple[str, ...]
    subnets: tuple[SubnetPlan, ...] = ()
    public_ips: Mapping[str, str] = field(default_factory=dict)


def match(rule: Rule) -> str:
    """The nftables expression of one rule, without what it does."""
    parts = [] if ip_network(rule.peer).prefixlen == 0 else [f"ip {_peer(rule)} {rule.peer}"]
    if rule.protocol == "1":
        parts.append("ip protocol icmp")
        if rule.icmp:
            parts.append(f"icmp type {rule.icmp[0]}")
            parts += [] if rule.icmp[1] is None else [f"icmp code {rule.icmp[1]}"]
    elif rule.protocol in {"6", "17"}:
        name = "tcp" if rule.protocol == "6" else "udp"
        parts.append(f"meta l4proto {name}")
        parts += [f"{name} dport {_span(rule.ports)}"] if rule.ports else []
        parts += [f"{name} sport {_span(rule.source_ports)}"] if rule.source_ports else []
    return " ".join(parts)


def _peer(rule: Rule) -> str:
    return "saddr" if rule.direction == "ingress" else "daddr"


def _span(ports: tuple[int, int]) -> str:
    return f"{ports[0]}-{ports[1]}"


def _side(subnet: SubnetPlan, direction: str, bit: int) -> list[str]:
    """A chain that sets the packet's bit where this subnet's side allows it, and the connection's if stateful."""
    lines = [f"chain {direction}_{subnet.id} {{"]
    for rule in subnet.rules:
        if rule.direction == direction:
            expression = match(rule)
            if not rule.stateless:
                lines.append(f"  {expression} ct direction original ct mark set ct mark or {bit}")
            lines.append(f"  {expression} meta mark set meta mark or {bit} return")
    return [*lines, "}"]


def _ways_out(subnet: SubnetPlan) -> list[str]:
    """A chain that drops what this subnet's route table has no way out for; the longest prefix decides."""
    lines = [f"chain out_{subnet.id} {{"]
    for route in sorted(subnet.routes, key=lambda one: -ip_network(one.destination).prefixlen):
        to = f"ip daddr {route.destination} "
        if route.target == "internet":
            lines += [f"  {to}ip saddr @public return"]
        elif route.target == "nat":
            lines += [f"  {to}ct direction original return"]
        lines += [f"  {to}drop"]
    return [*lines, "  drop", "}"]


def _by_subnet(plan: VcnPlan, which: str, prefix: str) -> str:
    jumps = ", ".join(f"{one.cidr} : jump {prefix}_{one.id}" for one in plan.subnets)
    return f"  ip {which} vmap {{ {jumps} }}" if jumps else "  # no subnets yet"


def _set(name: str, members: Iterable[str], flags: str = "") -> str:
    listed = ", ".join(sorted(members))
    elements = f" elements = {{ {listed} }};" if listed else ""
    return f"set {name} {{ type ipv4_addr;{flags}{elements} }}"


def render(plan: VcnPlan, nat_address: str, resolver: str) -> str:
    """The whole ruleset of a VCN's router, replacing the one before in one step.

    A connection's mark remembers which sides allowed it statefully: 1 the source's egress, 2 the destination's
    ingress. A packet's mark collects what its two sides say; only both together let it pass.
    """
    nat = [
        f"  ip saddr {one.cidr} ip daddr {route.destination} snat to {nat_address}"
        for one in plan.subnets
        for route in sorted(one.routes, key=lambda way: -ip_network(way.destination).prefixlen)
        if route.target == "nat"
    ]
    return "\n".join(
        [
            "table ip vcn",
            "delete table ip vcn",
            "table ip vcn {",
            _set("public", plan.public_ips),
            *(line for one in plan.subnets for line in _side(one, "egress", 1)),
            *(line for one in plan.subnets for line in _side(one, "ingress", 2)),
            *(line for one in plan.subnets for line in _ways_out(one)),
            "chain egress {",
            "  ct direction original ct mark & 1 == 1 meta mark set meta mark or 1 return",
            "  ct direction reply ct mark & 2 == 2 meta mark set meta mark or 1 return",
            _by_subnet(plan, "saddr", "egress"),
            "}",
            "chain ingress {",
            "  ct direction original ct mark & 2 == 2 meta mark set meta mark or 2 return",
            "  ct direction reply ct mark & 1 == 1 meta mark set meta mark or 2 return",
            _by_subnet(plan, "daddr", "ingress"),
            "}",
            "chain forward {",
            "  type filter hook forward priority 0; policy drop;",
            "  ct state related accept",
            "  meta mark set 0",
            # The Internet's own side of a connection has no list here; for a conntracked one both bits are its own.
            f'  iifname "{UPLINK}" ct direction original ct mark set ct mark or 1',
            f'  oifname "{UPLINK}" ct direction original ct mark set ct mark or 2',
            f'  iifname "{UPLINK}" meta mark set meta mark or 1',
            f'  oifname "{UPLINK}" meta mark set meta mark or 2',
            f'  oifname "{UPLINK}" {_by_subnet(plan, "saddr", "out").strip()}' if plan.subnets else "",
            f'  iifname != "{UPLINK}" jump egress',
            f'  oifname != "{UPLINK}" jump ingress',
            "  meta mark & 3 == 3 accept",
            "}",
            "chain input {",
            "  type filter hook input priority 0; policy drop;",
            f"  ip daddr {resolver} udp dport 53 accept",
            f"  ip daddr {resolver} tcp dport 53 accept",
            "  ip protocol icmp accept",
            "  ct state established,related accept",
            "}",
            "chain prerouting {",
            "  type nat hook prerouting priority -100;",
            *(f'  iifname "{UPLINK}" ip daddr {public} dnat to {private}' for private, public in plan.public_ips.items()),
            "}",
            "chain postrouting {",
            "  type nat hook postrouting priority 100;",
            *(f'  oifname "{UPLINK}" ip saddr {private} snat to {public}' for private, public in plan.public_ips.items()),
            *(f'  oifname "{UPLINK}"{line[1:]}' for line in nat),
            "}",
            "}",
            "",
        ]
    )
