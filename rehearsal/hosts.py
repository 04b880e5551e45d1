"""Boots and stops rehearsed hosts: namespaces, cables, image, cloud-init's seed; decides nothing about networks."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import shutil
import subprocess
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rehearsal import images, network, wires
from rehearsal.faults import HostFaults
from rehearsal.world import World, write_whole

BOOT_SECONDS = 60
DISK_BYTES = 2 << 30
"""A host's root disk: what it writes lies in memory, so this is a bound and no reservation."""

PCI_BUSES = ("0f", "15", "51", "54", "8d", "92", "d6", "da")
"""Where BM.GPU4.8 shows its GPUs (seed 000's transcript); other shapes are given the same places."""

WIDTHS = {25: "1X EDR", 50: "1X HDR", 100: "4X EDR", 200: "4X HDR", 400: "4X NDR", 800: "4X XDR"}


@dataclass(frozen=True)
class Rail:
    """One RDMA rail: its interface, its device (mlx5_N) and the shape's full line rate."""

    name: str
    hca: str
    rate_bits_per_s: int


@dataclass(frozen=True)
class HostSpec:
    """A host as it is asked for.

    Attributes:
        id: [a-z0-9]{6,8}, its name everywhere in the world.
        index: its launch index in its pool, from 0; faults go by it. -1 for an instance outside every pool.
        hostname: short name; with search_domain it is what the name service answers to.
        image: see images.image.
        user_data: given to cloud-init as it is.
        address: in subnet_cidr; the router of vcn_id must know that subnet.
        front_hca: RDMA device of the front-end NIC, if it is one.
        nvme: bytes of each local disk.
        agent_plugins: names of the vendor's agent plugins that are enabled.
    """

    id: str
    index: int
    hostname: str
    image: str
    shape: str
    user_data: bytes
    ssh_authorized_keys: tuple[str, ...]
    vcn_id: str
    subnet_cidr: str
    address: str
    gateway: str
    search_domain: str
    front_name: str
    front_hca: str | None = None
    fabric_id: str | None = None
    rails: tuple[Rail, ...] = ()
    gpus: tuple[str, ...] = ()
    nvme: tuple[int, ...] = ()
    agent_plugins: tuple[str, ...] = ()
    front_rate_bits_per_s: int = 100_000_000_000

    def __post_init__(self) -> None:
        if not (self.id.isalnum() and self.id.islower() and len(self.id) <= 8):  # noqa: PLR2004 - see below
            raise ValueError(f"host id {self.id!r} must be up to 8 of [a-z0-9], as interface names are made from it.")
        images.image(self.image)


def namespace(world: World, host_id: str) -> str:
    """The network namespace of a host."""
    return world.netns(f"h{host_id}")


def boot(world: World, spec: HostSpec) -> None:
    """Start a host; returns once its first process runs and cloud-init was started, as the vendor says RUNNING.

    A running host of that id is left alone.

    Raises:
        RuntimeError: something of the machine refused, or the host did not start within a minute.
        KeyError: its VCN is not in this world.
    """
    if alive(world, spec.id):
        return
    stop(world, spec.id)
    faults = HostFaults.of(world, spec.index, len(spec.rails))
    folder = world.folder("hosts", spec.id)
    kept = {key: value for key, value in asdict(spec).items() if key != "user_data"}
    # The record goes first: what a crash leaves half made is then found by it.
    write_whole(folder / "spec.json", json.dumps(kept))
    (folder / "root").mkdir()
    os.mkfifo(folder / "console.fifo")
    built = _build(world)
    calls = world.folder("calls") / f"{spec.id}.log"
    calls.touch()
    calls.chmod(0o666)
    write_whole(folder / "plan.json", json.dumps(_plan(world, spec, faults, built)))
    router = network.ensure_vcn(world, spec.vcn_id)
    name = namespace(world, spec.id)
    wires.make_namespace(name)
    _front(spec, name, router, faults)
    _rails(world, spec, name)
    refault(world, spec)
    # A time namespace lets the host's uptime be its own.
    uptime = int(float(Path("/proc/uptime").read_text().split()[0]))
    start = ["unshare", "-m", "-p", "-u", "-i", "-T", "--boottime", f"-{uptime}", "-f", "--kill-child"]
    script = 'exec "$@" </dev/null >>"$0" 2>&1'
    program = ["/usr/bin/python3", "-IS", str(Path(__file__).with_name("host_init.py")), str(folder)]
    cut_off = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", script, str(folder / "log")]
    wires.call(["setsid", "--fork", *wires.inside(name), *cut_off, *start, *program], seconds=BOOT_SECONDS)
    _await_start(world, spec.id, folder)


def _await_start(world: World, host_id: str, folder: Path) -> None:
    end = time.monotonic() + BOOT_SECONDS
    while not alive(world, host_id):
        log = folder / "log"
        said = log.read_text().strip() if log.exists() else ""
        if (said and not wires.pids(namespace(world, host_id))) or time.monotonic() > end:
            stop(world, host_id)
            raise RuntimeError(f"host {host_id} did not start; it said: {said.splitlines()[-1] if said else 'nothing'}")
        time.sleep(0.02)


def _build(world: World) -> Path:
    """Compile what hosts need, once for a world: the first process and the image's libnccl."""
    with wires.locked(world, "build"):
        built = world.folder("build")
        sources = Path(__file__).parent
        if not (built / "libnccl.so.2").exists():
            gcc = ["gcc", "-O2", "-Wall", "-Werror"]
            wires.call([*gcc, "-static", "-s", "-o", str(built / "init"), str(sources / "init.c")])
            nccl = ["-shared", "-fPIC", "-s", "-Wl,-soname,libnccl.so.2", "-o", str(built / "libnccl.new")]
            wires.call([*gcc, *nccl, str(sources / "image/system/nccl.c")])
            (built / "libnccl.new").rename(built / "libnccl.so.2")
        return built


def _front(spec: HostSpec, name: str, router: str, faults: HostFaults) -> None:
    """The front-end NIC: one cable to the router, which knows this host and answers for all others."""
    port, width = f"h{spec.id}", ipaddress.ip_network(spec.subnet_cidr).prefixlen
    wires.ip([f"link add {port} netns {router} mtu {wires.MTU} type veth peer name {spec.front_name} netns {name}"])
    wires.ip([f"link set {port} mtu {wires.MTU} up", f"route replace {spec.address}/32 dev {port}"], router)
    wires.ip(
        [
            f"link set {spec.front_name} mtu {wires.MTU} group {wires.CABLES} up",
            f"addr add {spec.address}/{width} broadcast + dev {spec.front_name}",
            f"route add default via {spec.gateway}",
        ],
        name,
    )
    if faults.never_answers:
        # The host's own side drops: seen from outside it is there and silent.
        hook = f"type filter hook ingress device {spec.front_name} priority 0; policy drop;"
        wires.call([*wires.inside(name), "nft", "-f", "-"], f"table netdev dead {{\nchain in {{\n{hook}\n}}\n}}\n")


def _rails(world: World, spec: HostSpec, name: str) -> None:
    if not spec.rails:
        return
    if spec.fabric_id is None:
        raise ValueError(f"host {spec.id} has {len(spec.rails)} rails and no fabric; apply_fabric makes one to plug them into.")
    fabric, ends = network.fabric_namespace(world, spec.fabric_id), [f"h{spec.id}r{at}" for at in range(len(spec.rails))]
    add, join = [], []
    for at, (rail, end) in enumerate(zip(spec.rails, ends, strict=True)):
        add += [f"link add {end} netns {fabric} mtu {wires.MTU} type veth peer name {rail.name} netns {name}"]
        join += [f"link set {end} mtu {wires.MTU} master rail{at} up"]
    wires.ip(add)
    wires.ip(join, fabric)
    wires.ip([f"link set {rail.name} mtu {wires.MTU} group {wires.CABLES}" for rail in spec.rails], name)


def refault(world: World, spec: HostSpec) -> None:
    """Give every rail of a host, running or not, the rate and link that faults.json says now.

    Rails may have been renamed by the agent: they are found by the far end of their cable.
    """
    if not spec.rails or spec.fabric_id is None:
        return
    faults = HostFaults.of(world, spec.index, len(spec.rails))
    fabric, name = network.fabric_namespace(world, spec.fabric_id), namespace(world, spec.id)
    shown = json.loads(wires.call(["ip", "-n", name, "-json", "link", "show"]))
    at_index = {one["ifindex"]: one["ifname"] for one in shown}
    far = json.loads(wires.call(["ip", "-n", fabric, "-json", "link", "show", "type", "veth"]))
    own = {one["ifname"]: at_index[one["link_index"]] for one in far if one["ifname"].startswith(f"h{spec.id}r")}
    host_side, fabric_side, state = [], [], []
    for at, rail in enumerate(spec.rails):
        rate = max(1, int(rail.rate_bits_per_s * faults.factors[at] / world.scale))
        host_side.append(wires.shaper(own[f"h{spec.id}r{at}"], rate))
        fabric_side.append(wires.shaper(f"h{spec.id}r{at}", rate))
        state.append(f"link set h{spec.id}r{at} {'down' if at in faults.dead else 'up'}")
    wires.tc(host_side, name)
    wires.tc(fabric_side, fabric)
    wires.ip(state, fabric)


def _plan(world: World, spec: HostSpec, faults: HostFaults, built: Path) -> dict[str, Any]:
    """All that host_init needs, as plain data."""
    one = images.image(spec.image)
    nodes = {f"nvme{at}n1": "block" for at in range(len(spec.nvme))}
    nodes |= {f"nvidia{at}": "char" for at in range(len(spec.gpus))} | ({"nvidiactl": "char"} if spec.gpus else {})
    return {
        "image": str(images.IMAGE_FOLDER),
        "commands": one.commands,
        "absent": images.absent(one),
        "copies": images.copies(one, built),
        "texts": images.texts(one) | _own_texts(world, spec, one, faults),
        "links": images.links(one),
        "nodes": nodes,
        "infiniband": _infiniband(spec, faults),
        "hostname": spec.hostname,
        "console": str(world.folder("console") / f"{spec.id}.log"),
        "calls": str(world.folder("calls") / f"{spec.id}.log"),
        "disk_bytes": DISK_BYTES,
        "free_bytes": faults.free_bytes,
        "environment": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
    }


def _own_texts(world: World, spec: HostSpec, one: images.Image, faults: HostFaults) -> dict[str, tuple[str, int]]:
    """Files of this host alone: its facts, its resolver and cloud-init's seed."""
    plan = network.load_vcn(world, spec.vcn_id)
    routes = {way.target for subnet in plan.subnets if subnet.cidr == spec.subnet_cidr for way in subnet.routes}
    gpus = "".join(f"{at} 0000:{PCI_BUSES[at % 8]}:00 {name}\n" for at, name in enumerate(spec.gpus))
    names = f"127.0.0.1 localhost localhost.localdomain\n{spec.address} {spec.hostname}.{spec.search_domain} {spec.hostname}\n"
    vcn_domain = spec.search_domain.partition(".")[2]
    meta = {"instance-id": spec.id, "local-hostname": spec.hostname, "public-keys": list(spec.ssh_authorized_keys)}
    made = {
        "etc/hostname": (f"{spec.hostname}\n", 0o644),
        "etc/hosts": (names, 0o644),
        "etc/resolv.conf": (
            f"search {vcn_domain} {spec.search_domain}\nnameserver {network.RESOLVER}\noptions timeout:2 attempts:2\n",
            0o644,
        ),
        "etc/rehearsal/scale": (f"{world.scale}\n", 0o644),
        "etc/rehearsal/shape": (f"{spec.shape}\n", 0o644),
        "etc/rehearsal/gpus": (gpus, 0o644),
        "etc/rehearsal/nvme": ("".join(f"{size}\n" for size in spec.nvme), 0o644),
        "etc/rehearsal/front": (f"{spec.front_name}\n", 0o644),
        "etc/rehearsal/rails": ("".join(f"{rail.name} {rail.hca}\n" for rail in spec.rails), 0o644),
        # A NAT gateway reaches the vendor's services as well as a service gateway does.
        "etc/rehearsal/services": ("yes\n" if routes & {"service", "nat"} else "no\n", 0o644),
        "var/lib/cloud/seed/nocloud/meta-data": (json.dumps(meta), 0o644),
    }
    if one.agent and spec.rails:
        made["etc/rehearsal/agent"] = ("".join(f"{plugin}\n" for plugin in spec.agent_plugins), 0o644)
    if faults.boot_fails:
        # Vendor data is the platform's own part of first boot; its script fails in the final stage.
        script = "#!/bin/sh\necho 'rehearsed fault boot_fails: the platform script of this image fails' >&2\nexit 1\n"
        made["var/lib/cloud/seed/nocloud/vendor-data"] = (script, 0o600)
    user_data = base64.b64encode(spec.user_data).decode()
    made["var/lib/cloud/seed/nocloud/user-data"] = (f"base64:{user_data}", 0o600)
    return made


def _infiniband(spec: HostSpec, faults: HostFaults) -> dict[str, str]:
    """What /sys/class/infiniband shows: a text for each file, `->` and a target for each link."""
    devices = [(rail.hca, rail.name, rail.rate_bits_per_s, at in faults.dead) for at, rail in enumerate(spec.rails)]
    if spec.front_hca:
        devices.append((spec.front_hca, spec.front_name, spec.front_rate_bits_per_s, False))
    made = {}
    for hca, name, rate, dead in devices:
        gigabits = rate // 1_000_000_000
        made[f"{hca}/ports/1/state"] = "1: DOWN\n" if dead else "4: ACTIVE\n"
        made[f"{hca}/ports/1/phys_state"] = "3: Disabled\n" if dead else "5: LinkUp\n"
        made[f"{hca}/ports/1/rate"] = f"{gigabits} Gb/sec ({WIDTHS.get(gigabits, '4X')})\n"
        made[f"{hca}/ports/1/link_layer"] = "Ethernet\n"
        made[f"{hca}/device/net/{name}"] = f"->../../../../net/{name}"
    return made


def alive(world: World, host_id: str) -> bool:
    """Whether the host's first process runs, known by its network namespace and not by its number alone."""
    try:
        pid = (world.path / "hosts" / host_id / "pid").read_text()
        own = Path("/run/netns", namespace(world, host_id)).stat().st_ino
        return bool(pid) and Path("/proc", pid, "ns/net").stat().st_ino == own
    except OSError:
        return False


def stop(world: World, host_id: str) -> None:
    """End a host and leave nothing of it but its console and its record of calls; idempotent."""
    wires.remove_namespace(namespace(world, host_id))
    # Its mounts went with its processes.
    shutil.rmtree(world.path / "hosts" / host_id, ignore_errors=True)


def console(world: World, host_id: str) -> str:
    """All that the host wrote to its console since its boot; "" if it never did."""
    log = world.path / "console" / f"{host_id}.log"
    return log.read_text(errors="replace") if log.exists() else ""


def enter(world: World, host_id: str, argv: list[str], seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command as root in a host, as its console would; for tests and for looking, not for programs.

    Raises:
        subprocess.TimeoutExpired: it did not end in time.
        OSError: the host does not run.
    """
    pid = (world.path / "hosts" / host_id / "pid").read_text()
    into = ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-T", "-r", "--wdns=/"]
    clean = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=/root", "LANG=C.UTF-8"]
    return subprocess.run([*into, *clean, *argv], capture_output=True, text=True, timeout=seconds, check=False)
