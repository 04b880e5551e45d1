"""Shared file systems of a VPC: each file system has a server in a subnet, for the clients that reach the server's port.

The server implements neither NFS nor Lustre: a client requests a mount over TCP (image/system/mount.shared), and the server,
which runs on this machine, mounts the data in the client's mount namespace. So security rules and routes decide who can mount,
but data do not cross the network. The data are in memory, like a host's disk, and are deleted with the file system. If only the
server is stopped, the data are kept in the world's folder for the next server.
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rehearsal.net import network, wires
from rehearsal.world.world import World, write_whole

KINDS = ("lustre", "nfs")
ANYBODY = ("0.0.0.0/0",)
MOST_BYTES = 1 << 30
START_SECONDS = 30


@dataclass(frozen=True)
class Ports:
    """The TCP and UDP ports that a file system's server listens on."""

    tcp: tuple[int, ...]
    udp: tuple[int, ...] = ()


@dataclass(frozen=True)
class FileSystem:
    """One file system that a cloud requests.

    Attributes:
        id: the vendor's id, or any other id that is unique in the world.
        kind: `lustre` or `nfs`.
        vcn_id: the file system's VPC, whose router must know subnet_cidr.
        address: address of the server, in subnet_cidr.
        names: full DNS names by which hosts of the VPC find the server.
        export: the part of a client's mount source that follows the server: a Lustre mount name, or the path of an NFS export.
        ports: ports that the vendor's service listens on.
        clients: networks that the export admits.
    """

    id: str
    kind: str
    vcn_id: str
    subnet_cidr: str
    address: str
    names: tuple[str, ...]
    export: str
    ports: Ports
    clients: tuple[str, ...] = ANYBODY

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"file system {self.id} is of kind {self.kind!r}; the kind must be one of {', '.join(KINDS)}.")
        if not self.id or "/" in self.id or self.id.startswith("."):
            raise ValueError(f"file system id {self.id!r} must be a plain file name, because a folder is named after the id.")
        if ipaddress.ip_address(self.address) not in ipaddress.ip_network(self.subnet_cidr):
            raise ValueError(f"file system {self.id} is at {self.address}, which is not in its subnet {self.subnet_cidr}.")

    @property
    def source(self) -> str:
        """The file system's source in a host's list of mounts."""
        server = self.names[0] if self.names else self.address
        if self.kind == "lustre":
            return f"{server}@tcp:/{self.export.strip('/')}"
        return f"{server}:/{self.export.lstrip('/')}"


def short(system_id: str) -> str:
    """Return eight hexadecimal digits for the names of interfaces and namespaces, whose length is limited."""
    return hashlib.sha256(system_id.encode()).hexdigest()[:8]


def namespace(world: World, system_id: str) -> str:
    """Return the network namespace of a file system's server."""
    return world.netns(f"s{short(system_id)}")


def folder(world: World, system_id: str) -> Path:
    """Return a file system's folder, which contains its record and, while its server runs, the link `data`."""
    return world.path / "storage" / system_id


def alive(world: World, system_id: str) -> bool:
    """Return whether a file system's server runs and listens."""
    return (folder(world, system_id) / "data").exists() and bool(wires.pids(namespace(world, system_id)))


def start(  # noqa: PLR0913 - the fields of the record, by name
    world: World,
    *,
    id: str,  # noqa: A002 - the record's word
    kind: str,
    vcn_id: str,
    subnet_cidr: str,
    address: str,
    names: Sequence[str],
    export: str,
    ports: Ports,
    clients: Sequence[str] = ANYBODY,
) -> FileSystem:
    """Start a file system with the data that `put_away` kept, if any; if the server is running, update only the record.

    Raises:
        ValueError: the values are not valid for a file system.
        KeyError: the file system's VPC is not in this world.
        RuntimeError: a command on this machine failed, or the server does not listen within half a minute.
    """
    system = FileSystem(id, kind, vcn_id, subnet_cidr, address, tuple(names), export, ports, tuple(clients))
    record = json.dumps({**asdict(system), "source": system.source, "most_bytes": MOST_BYTES})
    if alive(world, id):
        write_whole(folder(world, id) / "record.json", record)
        return system
    router = network.ensure_vcn(world, vcn_id)
    stop(world, id)
    place = world.folder("storage", id)
    # The record is written first, so that a half-started file system can be found after a crash.
    write_whole(place / "record.json", record)
    name = namespace(world, id)
    wires.make_namespace(name)
    _plug(system, router, name)
    server = ["/usr/bin/python3", "-IS", str(Path(__file__).with_name("storage_server.py")), str(world.path), id]
    quiet = [
        "env",
        "-i",
        "PATH=/usr/sbin:/usr/bin",
        "sh",
        "-c",
        'exec "$@" </dev/null >>"$0" 2>&1',
        str(place / "log"),
        *server,
    ]
    wires.call(["setsid", "--fork", *wires.inside(name), "unshare", "-m", "--propagation", "slave", *quiet])
    _await(world, id)
    if _kept(world, id).is_dir():
        _copy(_kept(world, id), place / "data")
        forget(world, id)
    return system


def _plug(system: FileSystem, router: str, name: str) -> None:
    """Connect the server to the router in the same way as a host."""
    port, width = f"s{short(system.id)}", ipaddress.ip_network(system.subnet_cidr).prefixlen
    wires.ip([f"link add {port} netns {router} mtu {wires.MTU} type veth peer name eth0 netns {name}"])
    wires.ip([f"link set {port} mtu {wires.MTU} up", f"route replace {system.address}/32 dev {port}"], router)
    lines = [f"link set eth0 mtu {wires.MTU} group {wires.CABLES} up", f"addr add {system.address}/{width} dev eth0"]
    wires.ip([*lines, f"route add default via {network.gateway(system.subnet_cidr)}"], name)


def _await(world: World, system_id: str) -> None:
    end = time.monotonic() + START_SECONDS
    while not alive(world, system_id):
        log = folder(world, system_id) / "log"
        said = log.read_text().strip().splitlines() if log.exists() else []
        if (said and not wires.pids(namespace(world, system_id))) or time.monotonic() > end:
            stop(world, system_id)
            raise RuntimeError(f"file system {system_id} did not start; last log line: {said[-1] if said else 'none'}")
        time.sleep(0.02)


def stop(world: World, system_id: str) -> None:
    """Unmount a file system in all hosts, stop its server and delete its data; idempotent."""
    for record in world.path.glob("hosts/*/spec.json"):
        _detach(world, record.parent, system_id)
    wires.remove_namespace(namespace(world, system_id))
    shutil.rmtree(folder(world, system_id), ignore_errors=True)


def put_away(world: World, system_id: str) -> None:
    """Stop a file system's server and keep the data for the next server; idempotent."""
    if alive(world, system_id):
        fresh = world.folder("kept", f"{system_id}.new")
        _copy(folder(world, system_id) / "data", fresh)
        forget(world, system_id)
        fresh.rename(_kept(world, system_id))
    stop(world, system_id)


def forget(world: World, system_id: str) -> None:
    """Delete the kept data of a file system; idempotent."""
    shutil.rmtree(_kept(world, system_id), ignore_errors=True)
    with contextlib.suppress(OSError):
        _kept(world, system_id).parent.rmdir()


def _kept(world: World, system_id: str) -> Path:
    return world.path / "kept" / system_id


def _copy(source: Path, target: Path) -> None:
    """Copy a complete tree with owners and modes."""
    wires.call(["cp", "-a", f"{source}/.", str(target)])


def _detach(world: World, host: Path, system_id: str) -> None:
    """Unmount the file system everywhere in a host; do nothing if the host has been deleted."""
    try:
        source = json.loads((folder(world, system_id) / "record.json").read_text())["source"]
        pid = (host / "pid").read_text()
        rows = [line.split() for line in Path("/proc", pid, "mounts").read_text().splitlines()]
    except (OSError, ValueError):
        return
    for row in reversed(rows):
        if row[0] == source:
            # nsenter enters the host's pid namespace, too, because umount looks itself up in /proc.
            into = ["nsenter", "-t", pid, "-m", "-p", "-r", "--wdns=/", "umount", "-l", row[1]]
            subprocess.run(into, capture_output=True, check=False, timeout=30)


def records(world: World) -> list[dict[str, Any]]:
    """Return the records of all file systems of this world."""
    return [json.loads(one.read_text()) for one in sorted(world.path.glob("storage/*/record.json"))]
