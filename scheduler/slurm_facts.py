"""Prints a node's facts for Slurm as JSON: names, processors, GPU device files, control groups, and missing requirements.

Nodes run this program through `python3 -`; the controller of a cluster with dynamic nodes imports this
program. The program changes nothing.
"""

import json
import os
import pwd
import re
import shutil
import socket
import subprocess
from typing import Any, Dict, List, Optional

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONF = "/etc/slurm/slurm.conf"
_UNITS = "/etc/systemd/system"
_TIMEOUT_S = 20
#: Slurm 22.05 is the first version that supports version 2 of control groups.
_CGROUPS_2 = (22, 5)


def facts() -> Dict[str, Any]:
    """Return the facts; if the node lacks a program that Slurm needs, return only the names of the missing programs."""
    lacks = [name for name in ("slurmd", "srun", "munged", "systemctl") if not shutil.which(name, path=_PATH)]
    if lacks:
        return {"lacks": lacks}
    counted = dict(re.findall(r"(\w+)=(\S+)", _said(["slurmd", "-C"])))
    its_version = version()
    if not its_version:
        return {"lacks": ["slurmd that reports its version (slurmd -V)"]}
    return {
        "lacks": [],
        "controls": shutil.which("slurmctld", path=_PATH) is not None,
        "version": its_version,
        "hostname": socket.gethostname().split(".")[0],
        "uid": os.getuid(),
        "slurm_uid": _number_of("slurm"),
        "root": os.getuid() == 0 or _status(["sudo", "-n", "true"]) == 0,
        "cores": [int(counted.get(name, 0)) for name in ("SocketsPerBoard", "CoresPerSocket", "ThreadsPerCore")],
        "memory_mib": int(counted.get("RealMemory", 0)),
        "devices": sorted(int(name[6:]) for name in os.listdir("/dev") if re.match(r"nvidia\d+$", name)),
        "cgroups": _cgroups(),
        "first_line": _first_line(_CONF),
        "running": _running(),
    }


def version() -> str:
    """Return the version of this machine's Slurm, such as 22.05.8; empty if slurmd does not report it."""
    return next(iter(re.findall(r"\d+\.\d+\.\d+", _said(["slurmd", "-V"]))), "")


def uses_cgroups(found: List[Dict[str, Any]]) -> bool:
    """Return whether control groups can restrict jobs on machines with these facts."""
    versions = {its["cgroups"] for its in found}
    release = tuple(int(part) for part in found[0]["version"].split(".")[:2])
    return versions == {1} or (versions == {2} and release >= _CGROUPS_2)


def _number_of(user: str) -> Optional[int]:
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _cgroups() -> int:
    """Return the version of this node's control groups; 0 for none."""
    if os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
        return 2
    return 1 if all(os.path.exists(f"/sys/fs/cgroup/{name}/tasks") for name in ("freezer", "devices", "cpuset")) else 0


def _running() -> Dict[str, Optional[str]]:
    """Return the running daemons of Slurm, and for each the first line of its unit file in /etc; None if there is no such file.

    A node that gets its configuration from its controller (configless Slurm) runs slurmd without a slurm.conf.
    """
    found = [name for name in ("slurmctld", "slurmd") if _status(["systemctl", "is-active", "--quiet", name]) == 0]
    return {name: _first_line(f"{_UNITS}/{name}.service") for name in found}


def _first_line(path: str) -> Optional[str]:
    """Return the first line of a file; None if the file does not exist."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.readline().rstrip("\n")
    except OSError:
        return None


def _said(argv: List[str]) -> str:
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode("utf-8", "replace")


def _status(argv: List[str]) -> int:
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}  # type: Dict[str, Any]
    try:
        return subprocess.run(argv, timeout=_TIMEOUT_S, check=False, **quiet).returncode
    except (OSError, subprocess.SubprocessError):
        return -1


if __name__ == "__main__":
    os.environ["PATH"] = _PATH
    print(json.dumps(facts()))
