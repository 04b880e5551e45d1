"""Saves Slurm's requests: each program that Slurm calls writes one file, in a folder that survives a reboot.

The programs that Slurm calls must return at once and may overlap, and the reader of the folder may be killed. So files are
written atomically and read in the order of the calls, and each file is removed only after its content is in the state.
"""

import json
import os
import time
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from scheduler import durable, hostlist

RESUME, SUSPEND, FAILED = "resume", "suspend", "resume-failed"


class Group(NamedTuple):
    """Nodes that start together or not at all: the nodes of one job. `job` is empty for nodes that no job asked for."""

    job: str
    nodes: Tuple[str, ...]


class Wish(NamedTuple):
    """One request, written by one program that Slurm called: `kind` is resume, suspend or resume-failed."""

    path: str
    kind: str
    groups: Tuple[Group, ...]


def groups_of(nodes: str, resume_file: str) -> List[Group]:
    """Return the nodes by job; `resume_file` is the text of SLURM_RESUME_FILE, empty before Slurm 22.05."""
    left = dict.fromkeys(hostlist.names(nodes))
    found = []
    try:
        jobs = json.loads(resume_file)["jobs"] if resume_file else []
        # Slurm 22.05 lists all nodes of a job in `nodes`. Later versions list the nodes that do not run yet in `nodes_resume`.
        wanted = [(str(job["job_id"]), hostlist.names(job.get("nodes_resume", job.get("nodes")) or "")) for job in jobs]
    except (KeyError, TypeError, ValueError):
        wanted = []
    for job, names in wanted:
        own = tuple(name for name in names if name in left)
        for name in own:
            del left[name]
        if own:
            found.append(Group(job, own))
    # Nodes that a person or `reconcile` powers up belong to no job, and need not start together.
    return found + [Group("", (name,)) for name in left]


def write(folder: str, kind: str, groups: Sequence[Group]) -> None:
    """Write one request; when this function returns, the request survives a power failure."""
    name = f"{time.time_ns() if hasattr(time, 'time_ns') else int(time.time() * 1e9):020}-{os.getpid()}.json"
    wish = {"kind": kind, "groups": [[group.job, list(group.nodes)] for group in groups]}
    durable.replace(os.path.join(folder, name), json.dumps(wish).encode())


def read(folder: str) -> List[Wish]:
    """Return all requests, oldest first."""
    found = []
    for name in sorted(os.listdir(folder)):
        if name.startswith("."):
            continue
        path = os.path.join(folder, name)
        try:
            with open(path, encoding="utf-8") as source:
                given: Dict[str, Any] = json.load(source)
            wish = Wish(path, given["kind"], tuple(Group(job, tuple(nodes)) for job, nodes in given["groups"]))
        except (KeyError, TypeError, ValueError):
            # This file is not ours. It is renamed, so that it does not block the other requests.
            os.rename(path, os.path.join(folder, f".refused-{name}"))
        else:
            found.append(wish)
    return found


def remove(wishes: Sequence[Wish]) -> None:
    """Remove requests whose content is in the state."""
    for wish in wishes:
        os.unlink(wish.path)
