"""Boots and stops rehearsed hosts: namespaces, image, cloud-init's seed; decides nothing about networks and cables."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from rehearsal.aws import efa_software, metadata_service
from rehearsal.host import cables, images, rdma_devices
from rehearsal.host.spec import HostSpec, Rail, alive, keep, namespace
from rehearsal.net import network, wires
from rehearsal.world.faults import HostFaults
from rehearsal.world.world import World, write_whole

__all__ = ["HostSpec", "Rail", "alive", "boot", "console", "enter", "namespace", "stop"]

BOOT_SECONDS = 60
DISK_BYTES = 2 << 30
"""A host's root disk: what it writes lies in memory, so this is a bound and no reservation."""

PCI_BUSES = ("0f", "15", "51", "54", "8d", "92", "d6", "da")
"""Where BM.GPU4.8 shows its GPUs (seed 000's transcript); other shapes are given the same places."""


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
    # The record goes first: what a crash leaves half made is then found by it.
    keep(world, spec)
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
    cables.front_end(spec, router, faults, world.scale, name)
    cables.plug_rails(world, spec, name)
    cables.refault(world, spec)
    if spec.metadata:
        _serve_metadata(world, spec.id, name)
    # A time namespace lets the host's uptime be its own.
    uptime = int(float(Path("/proc/uptime").read_text().split()[0]))
    start = ["unshare", "-m", "-p", "-u", "-i", "-T", "--boottime", f"-{uptime}", "-f", "--kill-child"]
    script = 'exec "$@" </dev/null >>"$0" 2>&1'
    program = ["/usr/bin/python3", "-IS", str(Path(__file__).with_name("host_init.py")), str(folder)]
    cut_off = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "sh", "-c", script, str(folder / "log")]
    wires.call(["setsid", "--fork", *wires.inside(name), *cut_off, *start, *program], seconds=BOOT_SECONDS)
    _await_start(world, spec.id, folder)


def _serve_metadata(world: World, host_id: str, name: str) -> None:
    """Start the host's metadata service; it ends with the namespace."""
    wires.call([*wires.inside(name), "nft", "-f", "-"], metadata_service.REDIRECT)
    argv = ["/usr/bin/python3", "-IS", str(Path(metadata_service.__file__)), str(world.path), host_id]
    quiet = ["env", "-i", "sh", "-c", 'exec "$@" </dev/null >/dev/null 2>&1', "sh", *argv]
    wires.call(["setsid", "--fork", *wires.inside(name), *quiet])


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
    """Compile what hosts need, once for a world: the first process, the counting one, the images' NCCL and its plugin."""
    with wires.locked(world, "build"):
        built = world.folder("build")
        sources = Path(__file__).parent
        gcc = ["gcc", "-O2", "-Wall", "-Werror", "-s"]
        made = {name: ["-static", str(sources / f"{name}.c")] for name in ("init", "counters")}
        shared = ["-shared", "-fPIC"]
        versions = [f'-D{name}="{value}"' for name, value in efa_software.VERSIONS.items()]
        made["libnccl-net.so"] = [*shared, *versions, str(images.IMAGE_FOLDER / "system/ofi.c")]
        for version in (images.NCCL, efa_software.NCCL):
            folder = world.folder("build", f"nccl-{version}")
            write_whole(folder / "nccl.h", images.nccl_header(version))
            library = [*shared, "-Wl,-soname,libnccl.so.2", f"-I{folder}", str(images.IMAGE_FOLDER / "system/nccl.c")]
            made[f"{folder.name}/libnccl.so.2"] = library
        for name, words in made.items():
            if not (built / name).exists():
                wires.call([*gcc, "-o", str(built / f"{name}.new"), *words])
                (built / f"{name}.new").rename(built / name)
        return built


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
        "sys_class": rdma_devices.folders(cables.ports(spec, faults)) | _firmware(spec, one),
        "counted": _counted(spec, faults),
        "hidden": [rail.name for rail in spec.rails if rail.driver == "efa"],
        "hostname": spec.hostname,
        "console": str(world.folder("console") / f"{spec.id}.log"),
        "calls": str(world.folder("calls") / f"{spec.id}.log"),
        "disk_bytes": DISK_BYTES,
        "free_bytes": faults.free_bytes,
        "environment": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
    }


def _counted(spec: HostSpec, faults: HostFaults) -> list[tuple[str, str, str]]:
    """Interface, folder of counters below /sys/class and kind of each port that counters.c keeps true."""
    rails = {rail.hca for rail in spec.rails}
    ports = [port for port in cables.ports(spec, faults) if port.hca in rails]
    moved = efa_software.protocol(spec.shape)
    return [(port.netdev, port.counters, moved if port.driver == "efa" else port.driver) for port in ports]


def _firmware(spec: HostSpec, one: images.Image) -> dict[str, str]:
    return efa_software.firmware(spec.shape, spec.instance_id or spec.id) if one.vendor == "amazon" else {}


def _own_texts(world: World, spec: HostSpec, one: images.Image, faults: HostFaults) -> dict[str, tuple[str, int]]:
    """Files of this host alone: its facts, its resolver and cloud-init's seed."""
    plan = network.load_vcn(world, spec.vcn_id)
    routes = {way.target for subnet in plan.subnets if subnet.cidr == spec.subnet_cidr for way in subnet.routes}
    gpus = "".join(f"{at} 0000:{PCI_BUSES[at % 8]}:00 {name}\n" for at, name in enumerate(spec.gpus))
    names = f"127.0.0.1 localhost localhost.localdomain\n{spec.address} {spec.hostname}.{spec.search_domain} {spec.hostname}\n"
    # OCI's DHCP options name the VCN's domain before the subnet's; AWS has one for a whole region.
    domains = [spec.search_domain] if one.vendor == "amazon" else [spec.search_domain.partition(".")[2], spec.search_domain]
    meta = {
        "instance-id": spec.instance_id or spec.id,
        "local-hostname": spec.hostname,
        "public-keys": list(spec.ssh_authorized_keys),
    }
    made = {
        "etc/hostname": (f"{spec.hostname}\n", 0o644),
        "etc/hosts": (names, 0o644),
        "etc/resolv.conf": (
            f"search {' '.join(domains)}\nnameserver {plan.resolver}\noptions timeout:2 attempts:2\n",
            0o644,
        ),
        "etc/rehearsal/scale": (f"{world.scale}\n", 0o644),
        "etc/rehearsal/shape": (f"{spec.shape}\n", 0o644),
        "etc/rehearsal/gpus": (gpus, 0o644),
        "etc/rehearsal/nvme": ("".join(f"{size}\n" for size in spec.nvme), 0o644),
        "etc/rehearsal/front": (f"{spec.front_name}\n", 0o644),
        "etc/rehearsal/rails": ("".join(f"{rail.name} {rail.hca}\n" for rail in spec.rails), 0o644),
        # A NAT gateway, or an address of the Internet, reaches the vendor's services as well as a service gateway does.
        "etc/rehearsal/services": (
            "yes\n" if routes & {"service", "nat"} or (spec.address in plan.public_ips and "internet" in routes) else "no\n",
            0o644,
        ),
        "var/lib/cloud/seed/nocloud/meta-data": (json.dumps(meta), 0o644),
    }
    if any(rail.driver == "efa" for rail in spec.rails):
        made["etc/rehearsal/efa"] = (f"{efa_software.protocol(spec.shape)}\n", 0o644)
    if one.agent and spec.rails:
        made["etc/rehearsal/agent"] = ("".join(f"{plugin}\n" for plugin in spec.agent_plugins), 0o644)
    if faults.boot_fails:
        # Vendor data is the platform's own part of first boot; its script fails in the final stage.
        script = "#!/bin/sh\necho 'rehearsed fault boot_fails: the platform script of this image fails' >&2\nexit 1\n"
        made["var/lib/cloud/seed/nocloud/vendor-data"] = (script, 0o600)
    user_data = base64.b64encode(spec.user_data).decode()
    made["var/lib/cloud/seed/nocloud/user-data"] = (f"base64:{user_data}", 0o600)
    return made


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
