"""Where a shared file system may be mounted, on any cloud."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

#: Folders that the system uses entirely: nothing may be mounted at or below them.
_WHOLE = (
    *(f"/{name}" for name in ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root/.ssh", "run", "sbin", "sys")),
    *(f"/usr/{name}" for name in ("bin", "include", "lib", "lib64", "libexec", "sbin", "share")),
)
#: Folders of the system at which nothing may be mounted. New folders inside them may be mount points (aws-parallelcluster:
#: ReservedMountDirValidator).
_TOPS = (
    *(f"/{name}" for name in ("opt", "root", "tmp", "usr", "usr/local", "var")),
    *(f"/opt/{name}" for name in ("slurm", "intel", "parallelcluster")),
    *(f"/var/{name}" for name in ("cache", "lib", "log", "run", "spool", "tmp")),
)
#: A path is written into tables and scripts of the nodes, so it must have no blank and no character that is special in the
#: shell.
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")


def misplaced(mounts: Mapping[str, str], taken: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the key of each mount point where nothing may be mounted, and the reason: a sentence without its subject.

    Nothing may be mounted at a path that is not absolute or has special characters, nor at a path that overlaps a folder of the
    system, a folder in `taken` or another mount point.
    `mounts` are mount points by key; `taken` are folders that the machines use themselves.
    """
    seen: dict[str, str] = {}
    for key, mount in mounts.items():
        path = PurePosixPath(mount)
        if not _PATH.fullmatch(mount) or {".", ".."} & set(mount.split("/")) or str(path) in _TOPS or _within(path, _WHOLE):
            valid = "an absolute path of letters, digits and ._-, such as /shared, that the system does not use"
            yield key, f"is {mount}; it must be {valid}"
        for other in taken:
            if overlap(mount, other):
                yield key, f"is {mount}, but the nodes have their own folder {other}; neither folder may hide the other"
        for earlier, its in seen.items():
            if overlap(mount, its):
                yield key, f"is {mount}, and {earlier} is {its}; neither folder may hide the other"
        seen[key] = mount


def over_login_homes(mounts: Mapping[str, str], logins: Iterable[str], homes: str) -> Iterator[tuple[str, str]]:
    """Yield the key of each mount point that overlaps the home folder of a user in `logins`, and the reason.

    The reason is a sentence without its subject.

    The mount with the key `homes` may be at /home and so share all home folders, because first boot keeps the login user's keys
    on the machine's own disk.
    """
    for login in logins:
        own = f"/home/{login}"
        for key, mount in mounts.items():
            if overlap(mount, own) and not (mount == "/home" and key == homes):
                what = f"is {mount}, which overlaps {own}, the folder with the keys for logging in to nodes"
                yield key, f"{what}; mount this file system {'at /home, or ' if key == homes else ''}elsewhere"


def overlap(one: str, other: str) -> bool:
    """Tell whether two folders are the same, or one is within the other."""
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first == second or first in second.parents or second in first.parents


def _within(path: PurePosixPath, folders: Sequence[str]) -> bool:
    return any(str(place) in folders for place in (path, *path.parents))
