"""Remove what a crashed run left in a rehearsed world, and remove the world itself once the world is empty."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from rehearsal.host import hosts, storage
from rehearsal.net import network, services, wires
from rehearsal.world.world import World

#: Folders of the world that `clear` removes with their contents. `clear` removes `clouds`, the folder of the stand-in clouds'
#: databases, only if it is empty.
OWN = (
    *("hosts", "storage", "vcns", "fabrics", "console", "calls", "operator", "build", "ssm", "kubernetes", "services"),
    *("authority", "engine", "identities", "locks"),
)


def ids(world: World, folder: str, letter: str) -> set[str]:
    """Return the ids that have a record in `folder`, or a namespace whose name begins with `letter`."""
    recorded = {one.name.removesuffix(".json") for one in (world.path / folder).glob("*")}
    return recorded | {one[1:] for one in wires.namespaces(world) if one.startswith(letter) and one != network.OPERATOR}


def orphans(world: World) -> set[str]:
    """Return the names (without the world's prefix) of all namespaces whose file system has no record."""
    recorded = {f"s{storage.short(one['id'])}" for one in storage.records(world)}
    return {one for one in wires.namespaces(world) if one.startswith("s")} - recorded


def sweep(world: World) -> None:
    """Remove dead hosts, and file systems and networks without a record; no other run may be in the world meanwhile."""
    for host_id in ids(world, "hosts", "h"):
        if not hosts.alive(world, host_id):
            hosts.stop(world, host_id)
    for name in orphans(world):
        wires.remove_namespace(world.netns(name))
    for vcn_id in ids(world, "vcns", "v"):
        if not (world.path / "vcns" / f"{vcn_id}.json").exists():
            network.delete_vcn(world, vcn_id)
    for fabric_id in ids(world, "fabrics", "f"):
        if not (world.path / "fabrics" / f"{fabric_id}.json").exists():
            network.delete_fabric(world, fabric_id)


def empty(world: World) -> bool:
    """Return whether no host, file system, VCN or fabric is left."""
    there = ids(world, "hosts", "h") | ids(world, "vcns", "v") | ids(world, "fabrics", "f")
    return not (there or storage.records(world) or orphans(world))


def stop_agent(world: World) -> None:
    """Terminate the operator's SSH agent, if the process with the recorded pid has the agent's socket in its command line."""
    record, socket = world.path / "operator" / "agent.pid", world.agent_socket
    with contextlib.suppress(OSError, ValueError):
        pid = int(record.read_text())
        if str(socket).encode() in Path("/proc", str(pid), "cmdline").read_bytes():
            os.kill(pid, signal.SIGTERM)
    record.unlink(missing_ok=True)
    socket.unlink(missing_ok=True)


def clear(world: World) -> None:
    """Remove the operator's namespace and the rehearsal's files; the world must be empty."""
    stop_agent(world)
    wires.remove_namespace(world.netns(network.OPERATOR))
    for name in OWN:
        shutil.rmtree(world.path / name, ignore_errors=True)
    with contextlib.suppress(OSError):  # `rmdir` fails if the folder still has a stand-in cloud's database
        (world.path / "clouds").rmdir()
    with contextlib.suppress(OSError):
        world.path.rmdir()


def demolish(world: World) -> None:
    """Stop every host and file system of a world, then remove its networks and the world itself; for tests and `make clear`."""
    services.stop(world)  # services stop before the hosts, because a cloud's service may be booting further hosts
    for host_id in ids(world, "hosts", "h"):
        hosts.stop(world, host_id)
    for one in storage.records(world):
        storage.stop(world, one["id"])
    for name in orphans(world):
        wires.remove_namespace(world.netns(name))
    for vcn_id in ids(world, "vcns", "v"):
        network.delete_vcn(world, vcn_id)
    for fabric_id in ids(world, "fabrics", "f"):
        network.delete_fabric(world, fabric_id)
    clear(world)


def agent_answers(world: World) -> bool:
    """Return whether the operator's SSH agent runs and has a key."""
    environment = {**os.environ, "SSH_AUTH_SOCK": str(world.agent_socket)}
    listed = subprocess.run(["ssh-add", "-l"], env=environment, capture_output=True, check=False, timeout=10)
    return listed.returncode == 0
