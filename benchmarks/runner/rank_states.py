"""Prints the ranks of a program on this node and their states as JSON; other nodes run it through `python3 - NAME RAS...`.

NAME is the program's file name. Each RAS may be NCCL's `ncclras` (2.24 or later), a path or a name; the first that exists is
queried.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

_APART_S = 0.5
_RAS_TIMEOUT_S = 10
#: Variables in which launchers number ranks: Open MPI's and PMIx's.
_RANK = re.compile(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)")
#: The last sections of NCCL's text, which say which ranks lag; other lines only count.
_PARTS = re.compile(r"^(?:Errors|Warnings)$")
_RAS_LINES = 8


def states(name: str) -> List[Dict[str, Any]]:
    """Return {pid, rank, state, cpu_s} of each process of program `name`; cpu_s is its processor time in half a second."""
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


def _ras(programs: List[str]) -> List[str]:
    """Return what NCCL's own service reports about lagging ranks; empty if no client or no service is there.

    `ncclras` prints JSON from NCCL 2.28.7 on; older versions refuse the option, so their text is read instead.
    """
    program = next((one for one in programs if shutil.which(one)), None)
    if program is None:
        return []
    try:
        return _lagging(json.loads(_said([program, "-f", "json"])))[:_RAS_LINES]
    except (ValueError, TypeError, LookupError, AttributeError):
        lines = [line.strip() for line in _said([program, "-v"]).splitlines()]
        start = next((number for number, line in enumerate(lines) if _PARTS.match(line)), len(lines))
        told = [line for line in lines[start:] if line.strip("=") and not _PARTS.match(line)]
        return [line[:300] for line in told][:_RAS_LINES]


def _said(argv: List[str]) -> str:
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_RAS_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _lagging(said: Dict[str, Any]) -> List[str]:
    """Return a sentence for each rank that is missing, failed, or has begun fewer operations than the rest of its communicator.

    The fields are those that NCCL 2.28.9 writes (NVIDIA/nccl v2.28.9-1, src/ras/client_support.cc).
    """
    found = []
    for group in said["communicators"]:
        for one in group["missing_ranks"]:
            status = one["status"]
            how = "dead" if status["considered_dead"] else "unresponsive" if status["unresponsive"] else "missing"
            found.append(f"{_who(one)} is {how}")
        begun = {}  # type: Dict[str, int]
        for one in group["ranks"]:
            if one["status"]["async_error"]:
                found.append("{} failed with NCCL error {}".format(_who(one), one["status"]["async_error"]))
            for name, count in one["collective_counts"].items():
                begun[name] = max(begun.get(name, 0), count)
        for one in group["ranks"]:
            behind = [name for name in sorted(begun) if one["collective_counts"].get(name, 0) < begun[name]]
            found.extend(
                "{} has begun {} of {} {}".format(_who(one), one["collective_counts"].get(name, 0), begun[name], name)
                for name in behind
            )
    return found


def _who(one: Dict[str, Any]) -> str:
    return "rank {} on {} (process {})".format(one["rank"], one["host"], one["pid"])


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as source:
            return source.read()
    except OSError:
        return b""


if __name__ == "__main__":
    print(json.dumps({"ranks": states(sys.argv[1]), "ras": _ras(sys.argv[2:])}))
