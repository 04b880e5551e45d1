"""Prints the facts of one machine as one JSON line: GPUs, RDMA devices, the front-end network and the folder of MPI.

The program changes nothing on the machine.
"""

import glob
import json
import os
import re
import subprocess
from typing import Any, Dict, List

_TIMEOUT_S = 60


def main(address: str, mpi: List[str]) -> None:
    """Print the facts of this machine, which the other nodes reach at `address`; `mpi` has globs of Open MPI's folder."""
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/local/bin:/usr/sbin:/sbin"
    gpus = _output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]).splitlines()
    found = {
        "gpu": gpus[0].strip() if gpus else "",
        "gpus": len(gpus),
        "hca": [_hca(name) for name in _entries("/sys/class/infiniband")],
        "os": _os_name(),
        "tag": _read("/sys/class/dmi/id/chassis_asset_tag"),
        "mpi": next((path for path in _matches(mpi) if _has_mpirun(path)), None),
    }
    found.update(_front(address))
    print(json.dumps(found, sort_keys=True))


def _hca(name: str) -> List[Any]:
    """Return the facts of an RDMA device: [name, line rate in Gbit/s, interface, whether the port is active, driver]."""
    base = "/sys/class/infiniband/" + name
    rate = re.match(r"(\d+)", _read(base + "/ports/1/rate"))
    netdevs = _entries(base + "/device/net")
    active = "ACTIVE" in _read(base + "/ports/1/state")
    driver = os.path.basename(os.path.realpath(base + "/device/driver"))
    return [name, int(rate.group(1)) if rate else 0, netdevs[0] if netdevs else None, active, driver]


def _front(address: str) -> Dict[str, str]:
    """Return the front-end interface and its network: the interface that has `address`, else the default route's interface.

    Behind NAT, no interface has `address`; a loopback interface is the last choice, because other nodes cannot use it.
    """
    rows = [line.split() for line in _output(["ip", "-4", "-o", "address", "show"]).splitlines()]
    held = [(row[1], row[3]) for row in rows if len(row) > 3 and row[2] == "inet"]  # noqa: PLR2004 - index, name, inet, CIDR
    outward = re.search(r"\bdev (\S+)", _output(["ip", "-4", "route", "show", "default"]))
    wanted = [place for place in held if place[1].split("/")[0] == address and place[0] != "lo"]
    wanted += [place for place in held if outward and place[0] == outward.group(1)]
    wanted += [place for place in held if place[0] != "lo"] + held
    name, cidr = (wanted or [("lo", "127.0.0.1/8")])[0]
    return {"front": name, "network": _network(cidr)}


def _network(cidr: str) -> str:
    """Return the network of an address in CIDR notation."""
    address, _, width = cidr.partition("/")
    bits = int(width or 32)
    number = 0
    for part in address.split("."):
        number = number * 256 + int(part)
    number &= ~((1 << (32 - bits)) - 1) & 0xFFFFFFFF
    return "{}/{}".format(".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0)), bits)


def _matches(globs: List[str]) -> List[str]:
    return [path for pattern in globs for path in sorted(glob.glob(pattern), reverse=True)]


def _has_mpirun(path: str) -> bool:
    """Tell whether a folder of Open MPI has bin/mpirun. Debian's folder has no programs; they are in /usr/bin."""
    debian = path.startswith("/usr/lib/") and os.path.exists("/usr/bin/mpirun")
    return debian or os.path.exists(os.path.join(path, "bin", "mpirun"))


def _os_name() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return ""


def _entries(path: str) -> List[str]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read(65536).strip()
    except OSError:
        return ""


def _output(argv: List[str]) -> str:
    try:
        found = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.decode("utf-8", "replace").strip()
