"""Prints which ranks of a program are on this node, and what they do, as JSON; other nodes run it through `python3 - NAME RAS`.

NAME is the program's file name. RAS is the path of NCCL's `ncclras` (2.24 or later), which is asked where it is there.
"""

import json
import os
import re
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

_APART_S = 0.5
_RAS_TIMEOUT_S = 10
#: Variables of launchers that number ranks: Open MPI's, and PMIx's.
_RANK = re.compile(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)")
#: Lines of NCCL's answer that say who lags.
_TELLING = re.compile(r"incomplete|mismatch|missing|unresponsive|dead|timed out|lag", re.IGNORECASE)
_RAS_LINES = 6


def states(name: str) -> List[Dict[str, Any]]:
    """Return {pid, rank, state, cpu_s} of each process of program `name`; cpu_s is what it used of half a second."""
    before = {pid: _stat(pid) for pid in _processes(name)}
    time.sleep(_APART_S)
    found = []
    for pid, then in before.items():
        now = _stat(pid)
        if then and now:
            found.append(
                {"pid": pid, "rank": _rank(pid), "state": now["state"], "cpu_s": round(now["cpu_s"] - then["cpu_s"], 2)}
            )
    return found


def _processes(name: str) -> List[int]:
    return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _name(entry) == name)


def _name(pid: str) -> str:
    return os.path.basename(_read(f"/proc/{pid}/cmdline").split(b"\0")[0].decode("utf-8", "replace"))


def _stat(pid: int) -> Optional[Dict[str, Any]]:
    fields = _read(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()
    if len(fields) < 13:  # noqa: PLR2004 - proc(5): utime and stime are the 12th and 13th after the name
        return None
    return {"state": fields[0], "cpu_s": (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))}


def _rank(pid: int) -> Optional[int]:
    found = _RANK.search(_read(f"/proc/{pid}/environ"))
    return int(found.group(1)) if found else None


def _ras(program: str) -> List[str]:
    """Return what NCCL's own service says of ranks that lag; nothing where it is not there."""
    try:
        done = subprocess.run(
            [program, "-v"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_RAS_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = [line.strip() for line in done.stdout.decode("utf-8", "replace").splitlines()]
    return [line[:300] for line in lines if _TELLING.search(line)][:_RAS_LINES]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as source:
            return source.read()
    except OSError:
        return b""


if __name__ == "__main__":
    print(json.dumps({"ranks": states(sys.argv[1]), "ras": _ras(sys.argv[2]) if len(sys.argv) > 2 else []}))  # noqa: PLR2004
