"""The server of one shared file system: listens on its ports, and mounts the data in clients that request a mount.

`storage_server.py WORLD ID` is started in the file system's network namespace and in a mount namespace that receives the
machine's later mounts. When the server ends, its mounts disappear, except the mounts in hosts.
"""

from __future__ import annotations

import contextlib
import ctypes
import ipaddress
import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from rehearsal.host.spec import alive, load
from rehearsal.world.world import World

#: The port at which clients request a mount. The server also listens on the file system's other ports, but never answers there.
ASKED_ON = {"lustre": 988, "nfs": 2049}
PATIENCE_S = 5
LONGEST_BYTES = 65_536

# The constants are from linux/mount.h. The numbers of the system calls are from the table that all architectures share since
# Linux 5.2.
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442
AT_FDCWD, AT_EMPTY_PATH, OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, MOVE_MOUNT_F_EMPTY_PATH = -100, 0x1000, 1, os.O_CLOEXEC, 4
ATTRIBUTES = {"ro": 0x1, "nosuid": 0x2, "nodev": 0x4, "noexec": 0x8, "noatime": 0x10}
ATTRIBUTE_ATIME = 0x70
CLONE_NEWNS = 0x20000


class Refused(Exception):  # noqa: N818 - an answer to a client, not an error
    """A refusal of a mount, with the message that the client's real mount program would print."""


def call(number: int, *arguments: Any) -> int:
    """Make one system call; return its result.

    Raises:
        OSError: the kernel refused.
    """
    kernel = ctypes.CDLL(None, use_errno=True)
    result = int(kernel.syscall(number, *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def client(world: World, vcn_id: str, address: str) -> str:
    """Return the pid of the host at `address` in the VPC `vcn_id`.

    Raises:
        Refused: no host has this address.
    """
    for record in world.path.glob("hosts/*/spec.json"):
        with contextlib.suppress(OSError, ValueError):  # the host is starting or terminating right now
            spec = load(world, record.parent.name)
            # The pid may have been reused meanwhile.
            if spec.vcn_id == vcn_id and spec.address == address and alive(world, spec.id):
                return (record.parent / "pid").read_text()
    raise Refused("access denied by server while mounting")


def check(record: dict[str, Any], peer: str, asked: dict[str, Any]) -> None:
    """Check a client's request.

    Raises:
        Refused: the export does not exist, the export does not admit this client, or the options are invalid.
    """
    if not any(ipaddress.ip_address(peer) in ipaddress.ip_network(one) for one in record["clients"]):
        raise Refused("access denied by server while mounting")
    if asked["export"].strip("/") != record["export"].strip("/"):
        raise Refused("No such file or directory")
    if not asked["at"].startswith("/") or not set(asked["flags"]) <= set(ATTRIBUTES):
        raise Refused("Invalid argument")


def show(data: Path, pid: str, at: str, flags: list[str]) -> None:
    """Mount the data in another process's mount namespace.

    A child process enters that namespace and mounts, because a process that enters the namespace cannot leave it again.

    Raises:
        Refused: the mount point cannot be used.
    """
    tree = call(OPEN_TREE, AT_FDCWD, os.fsencode(data), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    try:
        wanted = sum(ATTRIBUTES[flag] for flag in flags)
        if wanted:
            # struct mount_attr: set, clear, propagation, user namespace. Setting an atime mode requires clearing the old mode.
            clear = ATTRIBUTE_ATIME if "noatime" in flags else 0
            words = (ctypes.c_uint64 * 4)(wanted, clear, 0, 0)
            call(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(words), ctypes.c_size_t(32))
        child = os.fork()
        if child == 0:
            os._exit(_show(tree, pid, at))
        _, status = os.waitpid(child, 0)
    finally:
        os.close(tree)
    if status:
        raise Refused("No such file or directory")


def _show(tree: int, pid: str, at: str) -> int:
    try:
        view = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY)
        # If this machine is itself in a chroot, the root of the mount namespace is not the host's root.
        root = os.open(f"/proc/{pid}/root", os.O_RDONLY | os.O_DIRECTORY)
        if ctypes.CDLL(None).setns(view, CLONE_NEWNS):
            return 1
        os.fchdir(root)
        os.chroot(".")
        call(MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(at), MOVE_MOUNT_F_EMPTY_PATH)
    except OSError:
        return 1
    return 0


class Server:
    """One file system's server."""

    def __init__(self, world: World, system_id: str) -> None:
        self._world, self._folder = world, world.path / "storage" / system_id

    def record(self) -> dict[str, Any]:
        """Return the file system's current record; the admitted clients can change while the server runs."""
        found: dict[str, Any] = json.loads((self._folder / "record.json").read_text())
        return found

    def prepare(self) -> list[socket.socket]:
        """Mount a tmpfs for the data, and listen; return the sockets. Clients send their requests to the first socket.

        In the folder of the file system's record, the link `data` leads to the tmpfs.
        """
        record = self.record()
        kind, size, address = record["kind"], record["most_bytes"], record["address"]
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=755,size={size}", record["source"], "/mnt"], check=True)
        os.chdir("/mnt")
        asked = socket.create_server((address, ASKED_ON[kind]), backlog=128)
        others = [socket.create_server((address, port)) for port in record["ports"]["tcp"] if port != ASKED_ON[kind]]
        for port in record["ports"]["udp"]:
            silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            silent.bind((address, port))
            others.append(silent)
        (self._folder / "data").symlink_to(f"/proc/{os.getpid()}/cwd")
        return [asked, *others]

    def answer(self, peer: str, asked: dict[str, Any]) -> dict[str, str]:
        """Show the data to a client; return an empty answer, or the error if the client is refused."""
        try:
            record = self.record()
            check(record, peer, asked)
            show(Path("/mnt"), client(self._world, record["vcn_id"], peer), asked["at"], asked["flags"])
        except Refused as why:
            return {"error": str(why)}
        return {}

    def serve(self) -> None:
        """Answer clients until killed."""
        listening = self.prepare()
        while True:
            ready, _, _ = select.select(listening, [], [])
            for one in ready:
                if one.type == socket.SOCK_DGRAM:
                    one.recvfrom(LONGEST_BYTES)
                    continue
                calling, (peer, _) = one.accept()
                with calling:
                    if one is listening[0]:
                        self._turn(calling, peer)

    def _turn(self, calling: socket.socket, peer: str) -> None:
        calling.settimeout(PATIENCE_S)
        try:
            asked = json.loads(calling.makefile("rb").readline(LONGEST_BYTES))
            calling.sendall(json.dumps(self.answer(peer, asked)).encode() + b"\n")
        except (OSError, ValueError, KeyError, AttributeError, TypeError):
            return


if __name__ == "__main__":
    Server(World.at(Path(sys.argv[1])), sys.argv[2]).serve()
