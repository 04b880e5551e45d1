"""A network plan and its nftables ruleset, stateful like the vendors' security lists and groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Literal

#: The router's interface towards the rehearsed Internet.
UPLINK = "net"


@dataclass(frozen=True)
class Rule:
    """One rule of a security list or group; packets that no rule allows are dropped silently.

    Attributes:
        direction: direction of the traffic, seen from the hosts of the subnet or group.
        protocol: `all`, or the number of ICMP, TCP or UDP.
        peer: CIDR of the other side: source of ingress, destination of egress.
        ports: first and last destination port, or None for all ports.
        source_ports: first and last source port, or None for all ports.
        icmp: type and code (a code of None means all codes), or None for all types.
        stateless: whether replies need a rule of their own.
        group: id of the security group whose members are the other side; if `group` is set, `peer` is ignored.
    """

    direction: Literal["ingress", "egress"]
    protocol: Literal["all", "1", "6", "17"]
    peer: str
    ports: tuple[int, int] | None = None
    source_ports: tuple[int, int] | None = None
    icmp: tuple[int, int | None] | None = None
    stateless: bool = False
    group: str = ""


@dataclass(frozen=True)
class Route:
    """One rule of a route table.

    If the target is `service`, the destination must be in 240.0.0.0/4. In a VCN, the NAT gateway and the service gateway have
    the same public address.
    """

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
class GroupPlan:
    """A security group: an id of [a-z0-9]{6,8}, the addresses that are in it, and its rules."""

    id: str
    members: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True)
class VcnPlan:
    """A virtual cloud network as one value.

    Attributes:
        id: [a-z0-9]{6,8}.
        cidrs: its address ranges.
        subnets: its subnets.
        public_ips: private address -> public address, for every private address that has a public address.
        groups: security groups, whose rules apply instead of the subnets' rules; None if the subnets' rules apply. With groups,
            an address that is in no group sends and receives nothing.
        resolver: address of its name service.
        nat_ip: public address of its NAT gateway; if empty, the builder picks one.
    """

    id: str
    cidrs: tuple[str, ...]
    subnets: tuple[SubnetPlan, ...] = ()
    public_ips: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[GroupPlan, ...] | None = None
    resolver: str = "169.254.169.254"
    nat_ip: str = ""


def match(rule: Rule) -> str:
    """Return the nftables match of one rule, without its verdict."""
    parts = [f"ip {_peer(rule)} @in_{rule.group}"] if rule.group else []
    if not rule.group and ip_network(rule.peer).prefixlen:
        parts.append(f"ip {_peer(rule)} {rule.peer}")
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


def _side(judge: SubnetPlan | GroupPlan, direction: str, bit: int) -> list[str]:
    """Return a chain that marks the packets that this subnet or group allows; a stateful rule also marks the connection."""
    lines = [f"chain {direction}_{judge.id} {{"]
    for rule in judge.rules:
        if rule.direction == direction:
            expression = match(rule)
            if not rule.stateless:
                lines.append(f"  {expression} ct direction original ct mark set ct mark or {bit}")
            lines.append(f"  {expression} meta mark set meta mark or {bit} return")
    return [*lines, "}"]


def _ways_out(subnet: SubnetPlan) -> list[str]:
    """Return a chain that drops packets for which the subnet has no route; the longest prefix wins.

    A route to an internet gateway carries only packets of hosts with a public address. A route to any other gateway carries
    only packets of connections that a host of the subnet opened.
    """
    lines = [f"chain out_{subnet.id} {{"]
    for route in sorted(subnet.routes, key=lambda one: -ip_network(one.destination).prefixlen):
        to = f"ip daddr {route.destination} "
        if route.target == "internet":
            lines += [f"  {to}ip saddr @public return"]
        else:
            lines += [f"  {to}ct direction original return"]
        lines += [f"  {to}drop"]
    return [*lines, "  drop", "}"]


def _of_addresses(groups: tuple[GroupPlan, ...], direction: str) -> list[str]:
    """Return one chain for each address; it jumps to the rules of all groups that contain the address."""
    lines = []
    for address in _addresses(groups):
        jumps = [f"  jump {direction}_{one.id}" for one in groups if address in one.members]
        lines += [f"chain {direction}_{_word(address)} {{", *jumps, "}"]
    return lines


def _addresses(groups: Iterable[GroupPlan]) -> list[str]:
    return sorted({address for one in groups for address in one.members})


def _word(address: str) -> str:
    return "at_" + address.replace(".", "_")


def _judged(plan: VcnPlan, which: str, direction: str) -> str:
    """Return the jump to an address's rules: the rules of its groups if the VCN has groups, else the rules of its subnet."""
    if plan.groups is None:
        return _by_subnet(plan, which, direction)
    jumps = ", ".join(f"{one} : jump {direction}_{_word(one)}" for one in _addresses(plan.groups))
    return f"  ip {which} vmap {{ {jumps} }}" if jumps else "  # no addresses yet"


def _by_subnet(plan: VcnPlan, which: str, prefix: str) -> str:
    jumps = ", ".join(f"{one.cidr} : jump {prefix}_{one.id}" for one in plan.subnets)
    return f"  ip {which} vmap {{ {jumps} }}" if jumps else "  # no subnets yet"


def _set(name: str, members: Iterable[str], flags: str = "") -> str:
    listed = ", ".join(sorted(members))
    elements = f" elements = {{ {listed} }};" if listed else ""
    return f"set {name} {{ type ipv4_addr;{flags}{elements} }}"


def render(plan: VcnPlan, nat_address: str) -> str:
    """Return the whole ruleset of a VCN's router; loading the ruleset replaces the previous ruleset in one step.

    A connection's mark records which stateful rules allowed the connection: the source's egress rules set bit 1, the
    destination's ingress rules set bit 2. A packet's mark has the same two bits; the packet passes only if both bits are set.
    """
    nat = [
        f"  ip saddr {one.cidr} ip daddr {route.destination} snat to {nat_address}"
        for one in plan.subnets
        for route in sorted(one.routes, key=lambda way: -ip_network(way.destination).prefixlen)
        if route.target != "internet"
    ]
    groups = plan.groups or ()
    judges = plan.subnets if plan.groups is None else groups
    return "\n".join(
        [
            "table ip vcn",
            "delete table ip vcn",
            "table ip vcn {",
            _set("public", plan.public_ips),
            *(_set(f"in_{one.id}", one.members) for one in groups),
            *(line for one in judges for line in _side(one, "egress", 1)),
            *(line for one in judges for line in _side(one, "ingress", 2)),
            *_of_addresses(groups, "egress"),
            *_of_addresses(groups, "ingress"),
            *(line for one in plan.subnets for line in _ways_out(one)),
            "chain egress {",
            "  ct direction original ct mark & 1 == 1 meta mark set meta mark or 1 return",
            "  ct direction reply ct mark & 2 == 2 meta mark set meta mark or 1 return",
            _judged(plan, "saddr", "egress"),
            "}",
            "chain ingress {",
            "  ct direction original ct mark & 2 == 2 meta mark set meta mark or 2 return",
            "  ct direction reply ct mark & 1 == 1 meta mark set meta mark or 2 return",
            _judged(plan, "daddr", "ingress"),
            "}",
            "chain forward {",
            "  type filter hook forward priority 0; policy drop;",
            "  ct state related accept",
            "  meta mark set 0",
            # No rule applies to a host on the Internet. So if the source of a packet is such a host, bit 1 is set without a
            # check, and if the destination is such a host, bit 2 is.
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
            f"  ip daddr {plan.resolver} udp dport 53 accept",
            f"  ip daddr {plan.resolver} tcp dport 53 accept",
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


def render_fabric(pairs: Iterable[tuple[str, str]] | None) -> str:
    """Return the ruleset of a fabric's bridges: traffic passes from the first host of each pair to the second.

    If `pairs` is None, all traffic passes. The ruleset is stateless: each direction of EFA traffic needs its own pair.
    """
    head = ["table bridge fabric", "delete table bridge fabric"]
    if pairs is None:
        return "\n".join([*head, ""])
    allowed = [f'  iifname "h{sender}r*" oifname "h{receiver}r*" accept' for sender, receiver in sorted(set(pairs))]
    opening = ["table bridge fabric {", "chain forward {", "  type filter hook forward priority 0; policy drop;"]
    return "\n".join([*head, *opening, *allowed, "}", "}", ""])
