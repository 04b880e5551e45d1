"""What holds for a shared file system on every cloud: where it may be mounted, and what destroying its stack may do to it.

It deliberately knows no size and no price: those are the vendors' (`catalogue.oci_storage`, `catalogue.aws`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

#: Destroying the stack fails, leaves the data where they are, or deletes them.
ON_DESTROY = ("refuse", "retain", "delete")
#: Folders that a system has for itself, whole: nothing may be mounted at them or below.
_WHOLE = tuple(f"/{name}" for name in ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys"))
#: Folders that a system has for itself, below which others may add their own (aws-parallelcluster: ReservedMountDirValidator).
_TOPS = (*(f"/{name}" for name in ("opt", "root", "tmp", "usr", "var")), "/opt/slurm", "/opt/intel", "/opt/parallelcluster")
#: A path is written into tables and scripts of the nodes, so it has no blank and no character that a shell would read.
_PATH = re.compile(r"(/[A-Za-z0-9._-]+)+")


def misplaced(mounts: Sequence[str], taken: Sequence[str] = ()) -> Iterator[str]:
    """Yield a sentence, without its full stop, for each mount point that hides something; `taken` are other folders in use."""
    paths = [PurePosixPath(text) for text in mounts]
    for text, path in zip(mounts, paths, strict=True):
        if not _PATH.fullmatch(text) or {".", ".."} & set(text.split("/")) or str(path) in _TOPS or _within(path, _WHOLE):
            yield (
                f"a file system is mounted at {text}; it must be an absolute path of plain letters that the system does not "
                "use itself, like /shared"
            )
        for other in taken:
            if overlap(text, other):
                yield f"a file system is mounted at {text}, and the nodes have {other} of their own; neither may hide the other"
    for index, path in enumerate(paths):
        for later in paths[index + 1 :]:
            if overlap(str(path), str(later)):
                yield f"file systems are mounted at {path} and {later}; neither may hide the other"


def overlap(one: str, other: str) -> bool:
    """Tell whether one of two folders is the other, or within it."""
    first, second = PurePosixPath(one), PurePosixPath(other)
    return first == second or first in second.parents or second in first.parents


def _within(path: PurePosixPath, folders: Sequence[str]) -> bool:
    return any(str(place) in folders for place in (path, *path.parents))
