"""Prints, as JSON, the ranks of a program on this node, their states, and NCCL's report on ranks that lag.

The head node runs this module on every node as `python3 - NAME RAS...`. NAME is the program's file name. Each RAS is the path
or name of NCCL's client `ncclras` (NCCL 2.24 or later); the first client that exists is run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

#: A process's processor time is read twice; time between the two readings.
_INTERVAL_S = 0.5
_RAS_TIMEOUT_S = 10
#: Environment variables in which Open MPI and PMIx give a process its rank.
_RANK = re.compile(rb"(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMIX_RANK)=(\d+)")
#: Headings of the last sections of the text that `ncclras` prints. These sections name the ranks that lag; earlier sections
#: only have totals.
_HEADINGS = re.compile(r"^(?:Errors|Warnings)$")
_RAS_LINES = 8


def states(name: str) -> List[Dict[str, Any]]:
    """Return {pid, rank, state, cpu_s} of each process of program `name`; cpu_s is processor time used within half a second."""
    before = {pid: _stat(pid) for pid in _processes(name)}
    time.sleep(_INTERVAL_S)
    found = []
    for pid, then in before.items():
        now = _stat(pid)
        if then and now:
            found.append(
                {"pid": pid, "rank": _rank(pid), "state": now["state"], "cpu_s": round(now["cpu_s"] - then["cpu_s"], 2)}
            )
    return found


def _processes(name: str) -> List[int]:
    return sorted(int(entry) for entry in os.listdir("/proc") if entry.isdigit() and _is_named(entry, name))


def _is_named(pid: str, name: str) -> bool:
    words = _read(f"/proc/{pid}/cmdline")
    if words:
        return os.path.basename(words.split(b"\0")[0].decode("utf-8", "replace")) == name
    # A dead process that its parent has not reaped has no command line. Its name is still known, but the kernel keeps only 15
    # characters of the name (proc(5)).
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").rstrip("\n") == name[:15]


def _stat(pid: int) -> Optional[Dict[str, Any]]:
    fields = _read(f"/proc/{pid}/stat").decode("utf-8", "replace").rpartition(")")[2].split()
    if len(fields) < 13:  # noqa: PLR2004 - proc(5): utime and stime are the 12th and 13th fields after the name
        return None
    return {"state": fields[0], "cpu_s": (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))}


def _rank(pid: int) -> Optional[int]:
    found = _RANK.search(_read(f"/proc/{pid}/environ"))
    return int(found.group(1)) if found else None


def _ras(programs: List[str]) -> List[str]:
    """Return what NCCL's RAS service reports about ranks that lag; empty if the client or the service is missing.

    From NCCL 2.28.7 on, `ncclras` can print JSON. Older clients refuse the option for JSON, so their text is read instead.
    """
    program = next((one for one in programs if shutil.which(one)), None)
    if program is None:
        return []
    try:
        return _lagging(json.loads(_output([program, "-f", "json"])))[:_RAS_LINES]
    except (ValueError, TypeError, LookupError, AttributeError):
        lines = [line.strip() for line in _output([program, "-v"]).splitlines()]
        start = next((number for number, line in enumerate(lines) if _HEADINGS.match(line)), len(lines))
        kept = [line for line in lines[start:] if line.strip("=") and not _HEADINGS.match(line)]
        return [line[:300] for line in kept][:_RAS_LINES]


def _output(argv: List[str]) -> str:
    """Return what a program prints; empty if it cannot run or takes too long."""
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_RAS_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _lagging(report: Dict[str, Any]) -> List[str]:
    """Return a sentence for each rank that is missing, has failed, or has begun fewer operations than other ranks of its group.

    A group is a communicator. `report` has the fields that NCCL 2.28.9 writes (NVIDIA/nccl v2.28.9-1,
    src/ras/client_support.cc).
    """
    found = []
    for group in report["communicators"]:
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
                "{} has begun {} of {} {} operations".format(
                    _who(one), one["collective_counts"].get(name, 0), begun[name], name
                )
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
