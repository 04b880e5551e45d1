"""Run a command in a container: its own namespaces, the image's files over the machine's /usr, and the requested mounts.

This module makes the same system calls as the helpers of enroot and runc. An image here has no operating system, so /usr is the
host's.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from rehearsal.image.standin import fail

_NEW_MOUNTS, _NEW_USER, _NEW_PROCESSES = 0x20000, 0x10000000, 0x20000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
#: Mount flags: statvfs(3) returns the values that mount(2) takes, except for relatime.
_KEPT, _STAT_RELATIME, _RELATIME = 2 | 4 | 8 | 1024 | 2048, 4096, 1 << 21
_FROM_HOST = ("hosts", "hostname", "resolv.conf")
_FACTS = "etc/rehearsal"

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source: str, target: Path, kind: str, flags: int, options: str = "") -> None:
    if _libc.mount(source.encode(), str(target).encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()) != 0:
        fail(f"enroot-mount: failed to mount: {source} at {target}: {os.strerror(ctypes.get_errno())}")


def _bind(source: Path, target: Path, *, read_only: bool = False) -> None:
    """Bind-mount a folder or file at another path, which is created."""
    if not source.exists():
        fail(f"enroot-mount: failed to mount: {source} at {target}: No such file or directory")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    elif not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(str(source), target, "", _BIND | _RECURSIVE)
    if read_only:
        said = os.statvfs(target).f_flag
        kept = said & _KEPT | (_RELATIME if said & _STAT_RELATIME else 0)
        _mount("", target, "", _REMOUNT | _BIND | _READ_ONLY | kept)


def new_processes() -> None:
    """Make the next child the first process of a new pid namespace; when that child exits, the namespace's processes exit."""
    if _libc.unshare(_NEW_PROCESSES) != 0:
        fail(f"runc: failed to create process namespace: {os.strerror(ctypes.get_errno())}")


def show_processes(root: Path) -> None:
    """Show only the processes of the container's pid namespace, not the host's."""
    _mount("proc", root / "proc", "proc", _NO_SUID | _NO_DEVICES)


def enter(*, as_root: bool = False) -> None:
    """Enter a new mount namespace and, unless `as_root`, a new user namespace, in which the user stays the same."""
    if as_root:
        if _libc.unshare(_NEW_MOUNTS) != 0:
            fail(f"runc: failed to create mount namespace: {os.strerror(ctypes.get_errno())}")
        _mount("", Path("/"), "", _RECURSIVE | _SLAVE)
        return
    uid, gid = os.getuid(), os.getgid()
    if _libc.unshare(_NEW_USER | _NEW_MOUNTS) != 0:
        fail(f"enroot-nsenter: failed to create user namespace: {os.strerror(ctypes.get_errno())}")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    _mount("", Path("/"), "", _RECURSIVE | _SLAVE)


def build(rootfs: Path, runtime: Path, mounts: Sequence[tuple[Path, Path]], *, writable: bool, gpus: bool) -> Path:
    """Mount the container's root below the runtime folder; return the root's path."""
    root = runtime / "root"
    root.mkdir(exist_ok=True)
    _mount("tmpfs", root, "tmpfs", _NO_SUID | _NO_DEVICES, "mode=755")
    _system(root, rootfs, writable=writable)
    for name in ("proc", "sys", "dev"):
        _bind(Path("/", name), root / name)
    for name, mode in (("tmp", "1777"), ("run", "755")):
        (root / name).mkdir()
        _mount("tmpfs", root / name, "tmpfs", _NO_SUID | _NO_DEVICES, f"mode={mode}")
    (root / "var").mkdir(exist_ok=True)
    (root / "var/run").symlink_to("/run")
    _from_host(root, gpus=gpus)
    for source, target in mounts:
        _bind(source, root / target.relative_to("/"))
    if not writable:
        _mount("", root, "", _REMOUNT | _BIND | _READ_ONLY | _NO_SUID | _NO_DEVICES)
    return root


def _system(root: Path, rootfs: Path, *, writable: bool) -> None:
    """Mount the machine's programs, and over them the image's own files; copy the image's /etc."""
    for entry in Path("/").iterdir():
        if entry.is_symlink():
            (root / entry.name).symlink_to(entry.readlink())
    _bind(Path("/usr"), root / "usr", read_only=True)
    shutil.copytree(rootfs / "etc", root / "etc", symlinks=True)
    _bind(rootfs / "usr/local", root / "usr/local", read_only=not writable)
    for entry in sorted(rootfs.iterdir()):
        if entry.is_dir() and entry.name not in {"usr", "etc"}:
            _bind(entry, root / entry.name, read_only=not writable)


def _from_host(root: Path, *, gpus: bool) -> None:
    """Mount the parts that every container gets from its host."""
    for name in _FROM_HOST:
        if Path("/etc", name).exists():
            _bind(Path("/etc", name).resolve(), root / "etc" / name)
    _bind(Path("/etc/alternatives"), root / "etc/alternatives")  # some programs in /usr are links into this folder
    # In the rehearsal, the facts about hardware and driver are files in /etc/rehearsal, so every container needs these files.
    _bind(Path("/", _FACTS), root / _FACTS)
    if not gpus and Path("/", _FACTS, "gpus").exists():
        _bind(Path("/dev/null"), root / _FACTS / "gpus")
    _accounts(root)


def _accounts(root: Path) -> None:
    """Write the container's accounts: root, and the user who runs the container."""
    me = pwd.getpwuid(os.getuid())
    rows = {"root": "root:x:0:0:root:/root:/bin/sh", me.pw_name: ":".join([me.pw_name, "x", *map(str, me[2:4]), "", *me[5:]])}
    (root / "etc/passwd").write_text("".join(f"{row}\n" for row in rows.values()))
    (root / "etc/group").write_text(f"root:x:0:\n{me.pw_name}:x:{me.pw_gid}:\n")


def run(root: Path, command: Sequence[str], environment: Mapping[str, str], user: tuple[int, int] | None = None) -> NoReturn:
    """Replace this process with the command, with `root` as its root directory, and as `user` (uid and gid) if given."""
    os.chroot(root)
    os.chdir("/")
    if user is not None:
        os.setgroups([])
        os.setgid(user[1])
        os.setuid(user[0])
    try:
        os.execvpe(command[0], list(command), dict(environment))  # noqa: S606 - a container runs the command that it is given
    except OSError as error:
        fail(f"enroot-switchroot: failed to execute: {command[0]}: {error.strerror}")
