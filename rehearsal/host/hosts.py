"""Boot and stop rehearsed hosts: namespaces, image and cloud-init's seed."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from rehearsal.host import authority, cables, cgroups, images, metadata, programs, rdma_devices, sites
from rehearsal.host.spec import HostSpec, Rail, alive, keep, namespace
from rehearsal.net import network, wires
from rehearsal.world.faults import HostFaults
from rehearsal.world.world import World, write_whole

__all__ = ["HostSpec", "Rail", "alive", "boot", "console", "enter", "namespace", "stop"]

BOOT_SECONDS = 60
#: Size of a host's root disk. The disk takes memory only for data that are written, so the size is a limit, not a reservation.
DISK_BYTES = 2 << 30


def boot(world: World, spec: HostSpec) -> None:
    """Start a host; return once the host's first process runs. At that point, the vendor reports RUNNING.

    A host that is running already is not touched.

    Raises:
        RuntimeError: a command on this machine failed, or the host did not start within a minute.
        KeyError: the host's VCN is not in this world.
    """
    if alive(world, spec.id):
        return
    stop(world, spec.id)
    faults = HostFaults.of(world, spec.index, len(spec.rails))
    folder = world.folder("hosts", spec.id)
    # The record is written first, so that a half-started host can be found after a crash.
    keep(world, spec)
    (folder / "root").mkdir()
    os.mkfifo(folder / "console.fifo")
    built = programs.built(world, spec.image)
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
    sites.start(world)
    if spec.metadata:
        metadata.start(world, spec.id, name, spec.metadata_program)
    # A time namespace gives the host its own uptime.
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
            raise RuntimeError(f"host {host_id} did not start; last log line: {said.splitlines()[-1] if said else 'none'}")
        time.sleep(0.02)


def _plan(world: World, spec: HostSpec, faults: HostFaults, built: Path) -> dict[str, Any]:
    """Return everything that host_init needs, as plain data."""
    one = spec.image
    nodes = {f"nvme{at}n1": "block" for at in range(len(spec.nvme))}
    nodes |= {f"nvidia{at}": "char" for at in range(len(spec.gpus))} | ({"nvidiactl": "char"} if spec.gpus else {})
    return {
        "image": str(images.IMAGE_FOLDER),
        "commands": one.commands,
        "absent": images.absent(one),
        "copies": images.copies(one, built),
        "texts": images.texts(one) | _own_texts(world, spec, faults),
        "links": images.links(one),
        "nodes": nodes,
        "sys_class": rdma_devices.folders(cables.ports(spec, faults))
        | {f"nvme/nvme{at}/model": f"{spec.nvme_model:40}\n" for at in range(len(spec.nvme))}
        | {f"dmi/id/{name}": f"{text}\n" for name, text in spec.firmware.items()},
        "counted": _counted(spec, faults),
        "programs": dict(spec.programs),
        "hidden": [rail.name for rail in spec.rails if rail.driver == "efa"],
        "hostname": spec.hostname,
        "console": str(world.folder("console") / f"{spec.id}.log"),
        "calls": str(world.folder("calls") / f"{spec.id}.log"),
        "disk_bytes": DISK_BYTES,
        "free_bytes": faults.free_bytes,
        "environment": {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
    }


def _counted(spec: HostSpec, faults: HostFaults) -> list[tuple[str, str, str]]:
    """Return three words for each port that counters.c watches: the interface, the counters' folder, the kind of the counters.

    The folder is a path below /sys/class.
    """
    protocols = {rail.hca: rail.protocol for rail in spec.rails}
    ports = [port for port in cables.ports(spec, faults) if port.hca in protocols]
    moved = {port.hca: protocols[port.hca] if port.driver == "efa" else port.driver for port in ports}
    return [(port.netdev, port.counters, moved[port.hca]) for port in ports]


def _own_texts(world: World, spec: HostSpec, faults: HostFaults) -> dict[str, tuple[str, int]]:
    """Return the host's own files: the host's properties in /etc/rehearsal, the resolver's settings and cloud-init's seed."""
    plan = network.load_vcn(world, spec.vcn_id)
    routes = {way.target for subnet in plan.subnets if subnet.cidr == spec.subnet_cidr for way in subnet.routes}
    buses = spec.gpu_buses or tuple(f"{at + 1:02x}" for at in range(len(spec.gpus)))
    gpus = "".join(f"{at} 0000:{bus}:00 {name}\n" for at, (bus, name) in enumerate(zip(buses, spec.gpus, strict=True)))
    names = f"127.0.0.1 localhost localhost.localdomain\n{spec.address} {spec.hostname}.{spec.search_domain} {spec.hostname}\n"
    domains = [spec.search_domain.partition(".")[2]] if spec.image.parent_domain else []
    meta = {
        "instance-id": spec.instance_id or spec.id,
        "local-hostname": spec.hostname,
        "public-keys": list(spec.ssh_authorized_keys),
    }
    made = {
        "etc/hostname": (f"{spec.hostname}\n", 0o644),
        "etc/hosts": (names, 0o644),
        "etc/resolv.conf": (
            f"search {' '.join([*domains, spec.search_domain])}\nnameserver {plan.resolver}\noptions timeout:2 attempts:2\n",
            0o644,
        ),
        "etc/rehearsal/scale": (f"{world.scale}\n", 0o644),
        "etc/rehearsal/shape": (f"{spec.shape}\n", 0o644),
        "etc/rehearsal/gpus": (gpus, 0o644),
        "etc/rehearsal/nvme": ("".join(f"{size}\n" for size in spec.nvme), 0o644),
        "etc/rehearsal/front": (f"{spec.front_name}\n", 0o644),
        "etc/rehearsal/rails": ("".join(f"{rail.name} {rail.hca}\n" for rail in spec.rails), 0o644),
        # A host reaches the vendor's services by a service gateway, by a NAT gateway, or by a public address with an internet
        # gateway.
        "etc/rehearsal/services": (
            "yes\n" if routes & {"service", "nat"} or (spec.address in plan.public_ips and "internet" in routes) else "no\n",
            0o644,
        ),
        "var/lib/cloud/seed/nocloud/meta-data": (json.dumps(meta), 0o644),
    }
    if spec.metadata:
        made |= authority.texts(world)  # machines of a cloud call the cloud's services over TLS
    if spec.processors:
        made["etc/rehearsal/processors"] = (f"{' '.join(map(str, spec.processors))} {spec.memory_mib}\n", 0o644)
        made["etc/ld.so.preload"] = ("/usr/lib/rehearsal/libshape.so\n", 0o644)
    protocols = {rail.protocol for rail in spec.rails if rail.driver == "efa"}
    if protocols:
        made["etc/rehearsal/efa"] = (f"{protocols.pop()}\n", 0o644)
    if spec.image.agent and spec.rails:
        made["etc/rehearsal/agent"] = ("".join(f"{plugin}\n" for plugin in spec.agent_plugins), 0o644)
    if any(one["kind"] == "lustre_not_for_this_kernel" for one in world.faults()):
        made["etc/rehearsal/no-lustre"] = ("yes\n", 0o644)
    if faults.boot_fails:
        # Vendor data is the platform's part of first boot. This fault is a script there that fails in cloud-init's final stage.
        script = "#!/bin/sh\necho 'rehearsed fault boot_fails: the platform script of this image fails' >&2\nexit 1\n"
        made["var/lib/cloud/seed/nocloud/vendor-data"] = (script, 0o600)
    for command in faults.failing:
        script = f"#!/bin/sh\necho 'rehearsed fault command_fails: {command} of this image is broken' >&2\nexit 1\n"
        made[f"usr/local/sbin/{command}"] = (script, 0o755)  # this folder is first on the PATH of first boot and of sudo
    user_data = base64.b64encode(spec.user_data).decode()
    made["var/lib/cloud/seed/nocloud/user-data"] = (f"base64:{user_data}", 0o600)
    return made


def stop(world: World, host_id: str) -> None:
    """Stop a host; idempotent. Of the host's files, only the console output and the log of calls are kept."""
    wires.remove_namespace(namespace(world, host_id))
    cgroups.remove(world, host_id)
    # The host's mounts disappeared with its processes.
    shutil.rmtree(world.path / "hosts" / host_id, ignore_errors=True)


def console(world: World, host_id: str) -> str:
    """Return the host's console output since boot."""
    log = world.path / "console" / f"{host_id}.log"
    return log.read_text(errors="replace") if log.exists() else ""


def enter(world: World, host_id: str, argv: list[str], seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command as root in a host, as on the host's console; for tests and for debugging.

    Raises:
        subprocess.TimeoutExpired: the command did not finish in time.
        OSError: the host does not run.
    """
    pid = (world.path / "hosts" / host_id / "pid").read_text()
    into = ["nsenter", "-t", pid, "-m", "-u", "-i", "-n", "-p", "-T", "-r", "--wdns=/"]
    clean = ["env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "HOME=/root", "LANG=C.UTF-8"]
    return subprocess.run([*into, *clean, *argv], capture_output=True, text=True, timeout=seconds, check=False)
