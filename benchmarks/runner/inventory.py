"""What one node has and has counted so far, as JSON; also runs alone, fed to a node's `python3 -`.

It deliberately discovers: every interface, every RDMA device and every counter file that is there, none by name.
"""

import json
import os
import platform
import socket
import subprocess
from typing import Any, Dict, List


def inventory() -> Dict[str, Any]:
    """Return this node's GPUs, driver, interfaces (with byte counters) and RDMA devices."""
    gpus = _gpus()
    return {
        "host": socket.gethostname(),
        "kernel": platform.release(),
        "os": _os_name(),
        "gpus": [name for name, _ in gpus],
        "driver": gpus[0][1] if gpus else None,
        "interfaces": {name: _interface(name) for name in _entries("/sys/class/net") if name != "lo"},
        "hca": {name: _hca(name) for name in _entries("/sys/class/infiniband")},
    }


def _gpus() -> List[List[str]]:
    argv = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        out = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[word.strip() for word in line.split(",")] for line in out.decode().splitlines()]
    return [row for row in rows if len(row) == 2]  # noqa: PLR2004 - name and driver were asked for


def _os_name() -> str:
    for line in _read("/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return platform.system()


def _interface(name: str) -> Dict[str, Any]:
    base = "/sys/class/net/" + name
    return {
        "mtu": _number(base + "/mtu"),
        "up": _read(base + "/operstate") == "up",
        "tx_bytes": _number(base + "/statistics/tx_bytes"),
        "rx_bytes": _number(base + "/statistics/rx_bytes"),
    }


def _hca(name: str) -> Dict[str, Any]:
    base = "/sys/class/infiniband/" + name
    port = base + "/ports/1"
    found = {
        "netdev": (_entries(base + "/device/net") or [None])[0],
        "active": "ACTIVE" in _read(port + "/state"),
        "rate": _read(port + "/rate"),
    }
    # RDMA traffic passes the interface's own counters by; the port's count words of four bytes.
    for key, counter in (("tx_bytes", "port_xmit_data"), ("rx_bytes", "port_rcv_data")):
        words = _number(port + "/counters/" + counter)
        found[key] = None if words is None else 4 * words
    return found


def _entries(path: str) -> List[Any]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read().strip()
    except OSError:
        return ""


def _number(path: str) -> Any:
    """Return a counter, None where the file is absent: an absent counter is not a zero."""
    text = _read(path)
    return int(text) if text.isdigit() else None


if __name__ == "__main__":
    print(json.dumps(inventory()))
