"""A host's cables: plugs the front-end NIC and the rails in, and applies faults to their rates, links and packets."""

from __future__ import annotations

import ipaddress
import json
import shutil
import time
from pathlib import Path

from rehearsal.host import rdma_devices
from rehearsal.host.spec import HostSpec, alive, load, namespace
from rehearsal.net import network, wires
from rehearsal.world.faults import HostFaults
from rehearsal.world.world import World

#: Type of service (TOS) that the rehearsed NCCL sets on its front-end sockets. Only these sockets are shaped to the NIC's
#: scaled rate, because logins and copies at that rate would take minutes.
NCCL_SOCKET_SERVICE = 0x28

#: Of the packets that are longer than 1000 bytes, the fault `wrong_values` alters on average one in `CORRUPTED`.
CORRUPTED = 8

GIGABITS_MAX = 1_000_000
#: Number of attempts to set the rates. An attempt fails if a booting host renames a rail after the rail's name was read.
RENAMED_TRIES = 3


def front_end(spec: HostSpec, router: str, faults: HostFaults, scale: int, name: str) -> None:
    """Plug the front-end NIC into the router.

    The router forwards packets to this host, and answers this host's ARP requests for all other hosts.
    """
    port, width = f"h{spec.id}", ipaddress.ip_network(spec.subnet_cidr).prefixlen
    wires.ip([f"link add {port} netns {router} mtu {wires.MTU} type veth peer name {spec.front_name} netns {name}"])
    wires.ip(
        [f"link set {port} mtu {wires.MTU} up", f"route replace {spec.address}/32 dev {port}", wires.neighbours(port)], router
    )
    wires.ip(
        [
            f"link set {spec.front_name} mtu {wires.MTU} group {wires.CABLES} up",
            f"addr add {spec.address}/{width} broadcast + dev {spec.front_name}",
            f"route add default via {spec.gateway}",
            wires.neighbours(spec.front_name),
        ],
        name,
    )
    if spec.rails:
        rate = max(1, spec.front_rate_bits_per_s // scale)
        wires.tc(wires.shaper_of_marked(spec.front_name, rate, NCCL_SOCKET_SERVICE), name)
    if faults.never_answers:
        # The host drops every packet that arrives: seen from outside, the host is up but silent.
        hook = f"type filter hook ingress device {spec.front_name} priority 0; policy drop;"
        wires.call([*wires.inside(name), "nft", "-f", "-"], f"table netdev dead {{\nchain in {{\n{hook}\n}}\n}}\n")


def efa_address(front: str, rail: int) -> str:
    """Return the address that carries an EFA device's bytes: in the rail's own network, with the last two bytes of `front`.

    Real EFA devices have no IP address. These addresses are in 100.64.0.0/10 (RFC 6598), which no rehearsed VPC should use.
    """
    return f"100.{64 + rail}.{'.'.join(front.split('.')[2:])}/16"


def plug_rails(world: World, spec: HostSpec, name: str) -> None:
    """Plug each rail into its bridge in the fabric; `refault` sets the rails' rates later.

    This function also gives each EFA rail an address and brings the rail's interface up; the image configures all other rails.

    Raises:
        ValueError: the host has rails but no fabric.
    """
    if not spec.rails:
        return
    if spec.fabric_id is None:
        raise ValueError(
            f"host {spec.id} has {len(spec.rails)} rails but no fabric; apply_fabric makes a fabric to plug rails into."
        )
    fabric, ends = network.fabric_namespace(world, spec.fabric_id), [f"h{spec.id}r{at}" for at in range(len(spec.rails))]
    add, join = [], []
    for at, (rail, end) in enumerate(zip(spec.rails, ends, strict=True)):
        add += [f"link add {end} netns {fabric} mtu {wires.MTU} type veth peer name {rail.name} netns {name}"]
        join += [f"link set {end} mtu {wires.MTU} master rail{at} up"]
    wires.ip(add)
    wires.ip(join, fabric)
    own = [(f"link set {rail.name} mtu {wires.MTU} group {wires.CABLES}", wires.neighbours(rail.name)) for rail in spec.rails]
    wires.ip([line for lines in own for line in lines], name)
    efa = [(at, rail.name) for at, rail in enumerate(spec.rails) if rail.driver == "efa"]
    lines = [f"addr add {efa_address(spec.address, at)} dev {rail}\nlink set {rail} up" for at, rail in efa]
    if lines:
        wires.ip(lines, name)


def refault(world: World, spec: HostSpec) -> None:
    """Apply the current faults.json to the rates and links of a host's rails; on a running host, also to its ports and GPUs.

    A slow link is shaped at both ends, so the rails of a running host at the far end are shaped again, too.
    """
    if not spec.rails or spec.fabric_id is None:
        return
    faults = HostFaults.of(world, spec.index, len(spec.rails))
    with wires.locked(world, f"cables-{spec.fabric_id}"):
        partners = _partners(world, spec, faults)
        _shape(world, spec, faults, partners)
        for partner in partners:
            theirs = HostFaults.of(world, partner.index, len(partner.rails))
            _shape(world, partner, theirs, _partners(world, partner, theirs))
    if alive(world, spec.id):
        pid = (world.path / "hosts" / spec.id / "pid").read_text()
        computing = Path("/proc", pid, "root", "etc", "rehearsal", "compute-apps")
        computing.write_text("".join(f"{line}\n" for line in faults.computing))
        root, shown = Path("/proc", pid, "root", "sys", "class"), ports(spec, faults)
        for path, text in rdma_devices.state(shown).items():
            (root / path).write_text(text)
        for path, text in rdma_devices.verbs(shown).items():
            if text:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            else:
                shutil.rmtree((root / path).parent, ignore_errors=True)


def _partners(world: World, spec: HostSpec, faults: HostFaults) -> list[HostSpec]:
    """Return the hosts at the far ends of a host's slow links in the fabric; hosts that are not plugged in are left out."""
    if not faults.slow_links:
        return []
    there = wires.namespaces(world)
    others = [load(world, one.parent.name) for one in sorted(world.path.glob("hosts/*/spec.json"))]
    near = [one for one in others if one.id != spec.id and one.fabric_id == spec.fabric_id and one.index in faults.slow_links]
    return [one for one in near if f"h{one.id}" in there and _ends(world, one)]


def _ends(world: World, spec: HostSpec) -> list[tuple[str, str]]:
    """Return name and hardware address of each rail's interface; an empty list while some cables are missing.

    The vendor's agent in the image may have renamed the interfaces, so each interface is found by the far end of its cable.
    """
    fabric = network.fabric_namespace(world, str(spec.fabric_id))
    shown = json.loads(wires.call(["ip", "-n", namespace(world, spec.id), "-json", "link", "show"]))
    at_index = {one["ifindex"]: (one["ifname"], one["address"]) for one in shown}
    far = json.loads(wires.call(["ip", "-n", fabric, "-json", "link", "show", "type", "veth"]))
    own = {one["ifname"]: at_index.get(one["link_index"]) for one in far if one["ifname"].startswith(f"h{spec.id}r")}
    found = [own.get(f"h{spec.id}r{at}") for at in range(len(spec.rails))]
    return [one for one in found if one is not None] if None not in found else []


def _shape(world: World, spec: HostSpec, faults: HostFaults, partners: list[HostSpec]) -> None:
    for left in reversed(range(RENAMED_TRIES)):
        try:
            return _shape_once(world, spec, faults, partners)
        except RuntimeError:
            if left == 0:
                raise
            time.sleep(0.2)
    return None


def _shape_once(world: World, spec: HostSpec, faults: HostFaults, partners: list[HostSpec]) -> None:
    fabric, name = network.fabric_namespace(world, str(spec.fabric_id)), namespace(world, spec.id)
    far = {partner.index: _ends(world, partner) for partner in partners}
    host_side, fabric_side, state = [], [], []
    for at, (rail, (netdev, _)) in enumerate(zip(spec.rails, _ends(world, spec), strict=True)):
        line = min(rail.rate_bits_per_s, faults.degraded.get(at, GIGABITS_MAX) * 1_000_000_000) * faults.factors[at]
        rate = max(1, int(line / world.scale))
        slow = {ends[at][1]: max(1, int(rate * faults.slow_links[index])) for index, ends in far.items() if at < len(ends)}
        host_side += wires.shaper_by_peer(netdev, rate, slow) if slow else [wires.shaper(netdev, rate)]
        fabric_side.append(wires.shaper(f"h{spec.id}r{at}", rate))
        state.append(f"link set h{spec.id}r{at} {'down' if at in faults.dead | faults.unauthenticated else 'up'}")
    wires.tc(host_side, name)
    wires.tc(fabric_side, fabric)
    wires.ip(state, fabric)
    if faults.wrong_values or alive(world, spec.id):
        wires.call([*wires.inside(fabric), "nft", "-f", "-"], _corruption(spec, faults))


def _corruption(spec: HostSpec, faults: HostFaults) -> str:
    """Return nftables rules for the fabric's side of a host's rails. With the fault `wrong_values`, the rules alter packets.

    The rules overwrite a 32-bit word in some of the packets to the host. Headers stay as they are, and virtual cables verify no
    checksum, so the altered packets arrive.
    """
    table = f"table netdev h{spec.id}"
    if not faults.wrong_values:
        return f"{table}\ndelete {table}\n"
    devices = ", ".join(f'"h{spec.id}r{at}"' for at in range(len(spec.rails)))
    rule = f"meta length > 1000 numgen random mod {CORRUPTED} == 0 @th,640,32 set 0x3f9e0419"
    chain = f"type filter hook egress devices = {{ {devices} }} priority 0; policy accept;\n{rule}"
    return f"{table}\ndelete {table}\n{table} {{\nchain out {{\n{chain}\n}}\n}}\n"


def ports(spec: HostSpec, faults: HostFaults) -> list[rdma_devices.Port]:
    """Return the host's RDMA ports, with the effects of the faults."""
    found = []
    for at, rail in enumerate(spec.rails):
        gigabits = min(rail.rate_bits_per_s // 1_000_000_000, faults.degraded.get(at, GIGABITS_MAX))
        found.append(
            rdma_devices.Port(
                rail.hca,
                rail.name,
                gigabits,
                at not in faults.dead,
                not faults.tcp_fallback,
                rail.driver,
                authenticated=at not in faults.unauthenticated,
            )
        )
    if spec.front_hca:
        gigabits = spec.front_rate_bits_per_s // 1_000_000_000
        found.append(rdma_devices.Port(spec.front_hca, spec.front_name, gigabits, verbs=not faults.tcp_fallback))
    found += [rdma_devices.Port(name, "", 400) for name in spec.bystanders]
    return found
