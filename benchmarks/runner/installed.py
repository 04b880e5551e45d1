"""Finds the folders of MPI, CUDA and NCCL on this node or in a container.

For each folder, globs are tried in order; of the folders that match the first successful glob, the newest version counts. A
folder matches only if it contains a file that proves that the installation is complete.
"""

import glob
import os
import re
from typing import Any, Dict, List, Sequence

from benchmarks.runner.refusal import Refusal

#: The file that a folder must contain. MPI's folder on the node must contain mpirun, which starts the ranks there (for Debian's
#: Open MPI, see _holds). MPI's folder in a container must contain a header, with which nccl-tests is compiled.
_PROOFS = {"MPI_HOME": "bin/mpirun", "CUDA_HOME": "bin/nvcc", "NCCL_HOME": "include/nccl.h"}
_PROOFS_INSIDE = dict(_PROOFS, MPI_HOME="include/mpi.h")
_MARK = "busbar home"


def on_node(patterns: Dict[str, List[str]], keys: Sequence[str] = tuple(_PROOFS)) -> Dict[str, str]:
    """Return, for each key such as MPI_HOME, its folder on this node.

    Raises:
        Refusal: one of the folders does not exist.
    """
    homes = {}
    for key in keys:
        for pattern in patterns[key]:
            found = [path for path in glob.glob(pattern) if _holds(path, _PROOFS[key])]
            if found:
                homes[key] = newest(found)
                break
        else:
            raise Refusal(
                "the head node has no {}: no folder like {} contains {}; install it on the head node, or set its folder".format(
                    key, " or ".join(patterns[key]), _PROOFS[key]
                )
            )
    return homes


def script(patterns: Dict[str, List[str]]) -> str:
    """Return a shell script that prints, inside a container, every folder from which `inside` chooses."""
    lines = [
        f'for p in {pattern}; do [ -e "$p/{proof}" ] && echo "{_MARK} {key} {place} $p"; done'
        for key, proof in _PROOFS_INSIDE.items()
        for place, pattern in enumerate(patterns[key])
    ]
    return "\n".join([*lines, "true"])


def inside(patterns: Dict[str, List[str]], printed: str) -> Dict[str, str]:
    """Return the folders inside a container; `printed` is what the script from `script` printed in that container.

    Raises:
        Refusal: one of the folders does not exist.
    """
    found = {}  # type: Dict[str, Dict[int, List[str]]]
    for line in printed.splitlines():
        if line.startswith(_MARK + " "):
            key, place, path = line[len(_MARK) + 1 :].split(" ", 2)
            found.setdefault(key, {}).setdefault(int(place), []).append(path)
    for key, proof in _PROOFS_INSIDE.items():
        if key not in found:
            raise Refusal(
                "the image has no {}: no folder of the image like {} contains {}; nccl-tests are built in the image, so the "
                "image needs headers and a compiler (devel images have both)".format(key, " or ".join(patterns[key]), proof)
            )
    return {key: newest(places[min(places)]) for key, places in found.items()}


def newest(paths: Sequence[str]) -> str:
    """Return the last path in order, with numbers compared as numbers: the newest of paths that differ only in numbers."""
    return max(paths, key=_version_key)


def with_mpirun(home: str) -> str:
    """Return `home` if its bin contains mpirun, otherwise /usr. On other nodes, MPI's daemon must be in the same folder."""
    return home if os.path.exists(os.path.join(home, "bin", "mpirun")) else "/usr"


def _holds(path: str, proof: str) -> bool:
    """Tell whether a folder is complete; for Debian's Open MPI, a header is enough, because its programs are in /usr/bin."""
    debian = proof == "bin/mpirun" and path.startswith("/usr/lib/") and os.path.exists("/usr/bin/mpirun")
    return os.path.exists(os.path.join(path, "include/mpi.h" if debian else proof))


def _version_key(path: str) -> List[Any]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", path) if part]
