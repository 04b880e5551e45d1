"""Subnets, gateways and fabrics as namespaces: `apply_*` creates the namespaces of a plan, and `delete_*` removes them.

A VCN is one router namespace. Each host has its own cable to the router, so that all traffic between two hosts, even in one
subnet, passes the router's rules. A fabric is one namespace with a bridge for every rail. This module boots no host.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rehearsal.net import wires
from rehearsal.net.rules import UPLINK, GroupPlan, Route, Rule, SubnetPlan, VcnPlan, render, render_fabric
from rehearsal.world.world import OPERATOR_ADDRESS, World, write_whole

__all__ = [
    "OPERATOR",
    "RESOLVER",
    "GroupPlan",
    "Route",
    "Rule",
    "SubnetPlan",
    "VcnPlan",
    "apply_fabric",
    "apply_vcn",
    "delete_fabric",
    "delete_vcn",
    "ensure_operator",
    "ensure_vcn",
    "fabric_namespace",
    "gateway",
    "guard_fabric",
    "load_vcn",
    "router_namespace",
]

#: Default address of a VCN's name service.
RESOLVER = "169.254.169.254"

#: The operator's namespace, which is the whole rehearsed Internet.
OPERATOR = "op"

#: Prefix of the public address of a VCN's NAT gateway, if the plan sets no address (TEST-NET-1, RFC 5737).
NAT_RANGE = "192.0.2."


def router_namespace(world: World, vcn_id: str) -> str:
    """Return the namespace of a VCN's router."""
    return world.netns(f"v{vcn_id}")


def fabric_namespace(world: World, fabric_id: str) -> str:
    """Return the namespace of a fabric's bridges."""
    return world.netns(f"f{fabric_id}")


def gateway(cidr: str) -> str:
    """Return the router's address in a subnet: the subnet's first usable address, as in the vendors' networks."""
    first, _, _ = cidr.partition("/")
    head, _, last = first.rpartition(".")
    return f"{head}.{int(last) + 1}"


def ensure_operator(world: World) -> None:
    """Create the operator's namespace, with loopback and the operator's address, but with no route out of the namespace."""
    name = world.netns(OPERATOR)
    wires.make_namespace(name)
    wires.ip([f"addr replace {OPERATOR_ADDRESS}/32 dev lo"], name)


def apply_vcn(world: World, plan: VcnPlan) -> None:
    """Make a VCN match its plan, whatever state the VCN was in before; hosts stay connected.

    Raises:
        RuntimeError: iproute2 or nft refused; the error has the program's message.
    """
    with wires.locked(world, "network"):
        number = _number(world, plan.id)
        record = world.folder("vcns") / f"{plan.id}.json"
        # The record is written first, so that a half-created VCN can be found after a crash.
        write_whole(record, json.dumps({"number": number, **asdict(replace(plan, public_ips=dict(plan.public_ips)))}))
        ensure_operator(world)
        router = router_namespace(world, plan.id)
        wires.make_namespace(
            router,
            {
                "net/ipv4/ip_forward": "1",
                "net/ipv4/conf/all/proxy_arp": "1",
                "net/ipv4/conf/default/proxy_arp": "1",
                "net/ipv4/conf/all/rp_filter": "0",
                "net/ipv4/conf/default/rp_filter": "0",
                "net/ipv4/conf/all/send_redirects": "0",
                "net/ipv4/conf/default/send_redirects": "0",
            },
        )
        nat_address = plan.nat_ip or f"{NAT_RANGE}{number}"
        _uplink(world, plan, router, nat_address)
        wires.call([*wires.inside(router), "nft", "-f", "-"], render(plan, nat_address))
        _name_service(world, plan, router)


def _number(world: World, vcn_id: str) -> int:
    """Return the VCN's number in this world, 1 to 254; the number stays the same as long as the VCN's record exists."""
    taken = {one.stem: int(json.loads(one.read_text())["number"]) for one in world.folder("vcns").glob("*.json")}
    if vcn_id in taken:
        return taken[vcn_id]
    free = set(range(1, 255)) - set(taken.values())
    if not free:
        raise RuntimeError("this world has 254 VCNs already, and each needs its own address in 192.0.2.0/24.")
    return min(free)


def _uplink(world: World, plan: VcnPlan, router: str, nat_address: str) -> None:
    """Connect the router to the Internet; set the router's own addresses and the operator's routes to the router."""
    operator, far = world.netns(OPERATOR), f"v{plan.id}"
    if f"{far}@" not in wires.call(["ip", "-n", operator, "-o", "link", "show"]):
        wires.ip([f"link add {UPLINK} netns {router} mtu {wires.MTU} type veth peer name {far} netns {operator}"])
    publics = set(plan.public_ips.values()) | {nat_address}
    answered = publics | _gateways(plan.subnets) | {plan.resolver}
    # Addresses and routes are set every time, because a crash may have left the cable without settings.
    wires.ip(
        [
            f"link set {UPLINK} mtu {wires.MTU} group {wires.CABLES} up",
            *(f"addr replace {one}/32 dev lo" for one in sorted(answered)),
            f"route replace default dev {UPLINK} src {nat_address}",
        ],
        router,
    )
    wires.ip(
        [
            f"link set {far} mtu {wires.MTU} up",
            *(f"route replace {one}/32 dev {far} src {OPERATOR_ADDRESS}" for one in sorted(publics)),
        ],
        operator,
    )
    # The router has a default route. With proxy ARP on the uplink, the router would therefore answer the operator's ARP queries
    # for every address. So proxy ARP is off on the uplink.
    wires.call([*wires.inside(router), "sh", "-c", f"echo 0 > /proc/sys/net/ipv4/conf/{UPLINK}/proxy_arp"])
    listed = wires.call(["ip", "-n", router, "-o", "-4", "addr", "show", "dev", "lo"]).splitlines()
    had = {line.split()[3] for line in listed} - {"127.0.0.1/8"}
    wires.ip((f"addr del {one} dev lo" for one in sorted(had - {f"{one}/32" for one in answered})), router)
    routes = wires.call(["ip", "-n", operator, "-o", "-4", "route", "show", "dev", far]).splitlines()
    old = {line.split()[0] for line in routes} - publics
    wires.ip((f"route del {one} dev {far}" for one in sorted(old)), operator)


def _gateways(subnets: Iterable[SubnetPlan]) -> set[str]:
    return {gateway(one.cidr) for one in subnets}


def _name_service(world: World, plan: VcnPlan, router: str) -> None:
    """Start the VCN's name service unless it is running. It is the only program that runs in the router's namespace."""
    if wires.pids(router):
        return
    server = Path(__file__).with_name("name_service.py")
    argv = ["/usr/bin/python3", "-IS", str(server), plan.resolver, str(world.folder("hosts")), plan.id]
    wires.call(["setsid", "--fork", *wires.inside(router), "env", "-i", *_quietly(argv)])


def _quietly(argv: list[str]) -> list[str]:
    """Return a command that runs `argv` without this process's output.

    If `argv` kept this output open, a program that reads the output would wait until `argv` exits.
    """
    return ["sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "sh", *argv]


def load_vcn(world: World, vcn_id: str) -> VcnPlan:
    """Return the plan that was last applied under this id.

    Raises:
        KeyError: there is no such VCN.
    """
    record = world.path / "vcns" / f"{vcn_id}.json"
    if not record.exists():
        raise KeyError(f"VCN {vcn_id!r} is not in this world; apply_vcn makes it.")
    found = json.loads(record.read_text())
    groups = found["groups"]
    return VcnPlan(
        id=found["id"],
        cidrs=tuple(found["cidrs"]),
        subnets=tuple(_subnet(one) for one in found["subnets"]),
        public_ips=found["public_ips"],
        groups=None if groups is None else tuple(_group(one) for one in groups),
        resolver=found["resolver"],
        nat_ip=found["nat_ip"],
    )


def _subnet(found: dict[str, Any]) -> SubnetPlan:
    routes = tuple(Route(**one) for one in found["routes"])
    return SubnetPlan(found["id"], found["cidr"], _rules(found), routes)


def _group(found: dict[str, Any]) -> GroupPlan:
    return GroupPlan(found["id"], tuple(found["members"]), _rules(found))


def _rules(found: dict[str, Any]) -> tuple[Rule, ...]:
    # JSON turned the tuples into lists. Plans are compared by value, so the lists must become tuples again.
    rules: Iterable[dict[str, Any]] = (
        {key: tuple(value) if isinstance(value, list) else value for key, value in one.items()} for one in found["rules"]
    )
    return tuple(Rule(**one) for one in rules)


def ensure_vcn(world: World, vcn_id: str) -> str:
    """Return the namespace of a VCN's router.

    If a restart of the machine removed the namespace, the VCN is built again from the VCN's record.
    """
    router = router_namespace(world, vcn_id)
    plan = load_vcn(world, vcn_id)
    if router.removeprefix(world.netns("")) not in wires.namespaces(world) or not wires.pids(router):
        apply_vcn(world, plan)
    return router


def delete_vcn(world: World, vcn_id: str) -> None:
    """Delete a VCN's router with its cable, rules and name service, after the VCN's hosts have been stopped; idempotent."""
    with wires.locked(world, "network"):
        wires.remove_namespace(router_namespace(world, vcn_id))
        (world.path / "vcns" / f"{vcn_id}.json").unlink(missing_ok=True)


def apply_fabric(world: World, fabric_id: str, rails: int) -> None:
    """Create a fabric with at least `rails` rails: one bridge for each rail, so that the rails are separate; idempotent."""
    with wires.locked(world, "network"):
        record = world.folder("fabrics") / f"{fabric_id}.json"
        write_whole(record, json.dumps({"id": fabric_id, "rails": rails}))
        name = fabric_namespace(world, fabric_id)
        wires.make_namespace(name)
        have = wires.call(["ip", "-n", name, "-o", "link", "show", "type", "bridge"])
        lines = []
        for rail in range(rails):
            if f" rail{rail}:" not in have:
                lines += [f"link add rail{rail} mtu {wires.MTU} type bridge", f"link set rail{rail} up"]
        if lines:
            wires.ip(lines, name)


def guard_fabric(world: World, fabric_id: str, pairs: Iterable[tuple[str, str]] | None) -> None:
    """Allow traffic on a fabric only from the first to the second host of each pair; None allows all traffic."""
    with wires.locked(world, "network"):
        wires.call([*wires.inside(fabric_namespace(world, fabric_id)), "nft", "-f", "-"], render_fabric(pairs))


def delete_fabric(world: World, fabric_id: str) -> None:
    """Delete a fabric and every cable in it; idempotent."""
    with wires.locked(world, "network"):
        wires.remove_namespace(fabric_namespace(world, fabric_id))
        (world.path / "fabrics" / f"{fabric_id}.json").unlink(missing_ok=True)
