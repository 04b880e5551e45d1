"""Describes a node's rails, listens on one rail, and tries to reach a neighbour over that rail.

The head node sends this module to each node over SSH. Each line of standard input is a question and each line of output is its
answer, both in JSON. The answers contain the last 8 KiB of what rping and ib_write_bw each printed.
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
from typing import Any, Dict, Iterator, List, Optional

_RDMA, _VERBS, _NET = "/sys/class/infiniband", "/sys/class/infiniband_verbs", "/sys/class/net"
_DEVICES = "/dev/infiniband"
#: Default ports of rping and ib_write_bw (rping.c, perftest_parameters.c).
_PING_PORT, _WRITE_PORT = "7174", "18515"
_PINGS, _PING_S, _CONNECT_S, _START_S = 3, 15, 5.0, 20
#: A client may start before its server listens: number of tries of the client, and the pause between two tries (s).
_TRIES, _PAUSE_S = 4, 1.0
_PRINTED_BYTES = 8192
#: Request for the IPv4 address of an interface (<linux/sockios.h>).
_SIOCGIFADDR = 0x8915


def about(rail: str, rdma: bool) -> Dict[str, Any]:
    """Return a rail's address, its rate (Gbit/s), why its RDMA device is unusable, and the paths of rping and ib_write_bw."""
    netdev = _first(f"{_RDMA}/{rail}/device/net") if rdma else rail
    return {
        "netdev": netdev,
        "address": _address(netdev),
        "rate_gbit_s": _rate(rail) if rdma else _speed(rail),
        "unusable": _unusable(rail) if rdma else "the rails have no RDMA device",
        "efa": rdma and _driver(rail) == "efa",
        "iwarp": rdma and _read(f"{_RDMA}/{rail}/node_type").startswith("4"),  # "4: RNIC" (drivers/infiniband/core/sysfs.c)
        "rping": shutil.which("rping") or "",
        "ib_write_bw": shutil.which("ib_write_bw") or "",
    }


def _unusable(device: str) -> str:
    if not os.path.isdir(f"{_RDMA}/{device}"):
        return f"there is no RDMA device {device}"
    if _driver(device) == "efa":
        return f"{device} is an EFA device, which lacks the reliable connections that ib_write_bw uses"
    for name in sorted(os.listdir(_VERBS)) if os.path.isdir(_VERBS) else []:
        if _read(f"{_VERBS}/{name}/ibdev") == device:
            there = f"{_DEVICES}/{name}"
            return "" if os.path.exists(there) else f"there is no {there}, so no program can use {device}"
    return f"the kernel offers no verbs of {device}"


def _driver(device: str) -> str:
    return os.path.basename(os.path.realpath(f"{_RDMA}/{device}/device/driver"))


def _address(netdev: str) -> str:
    if not netdev:
        return ""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        try:
            found = fcntl.ioctl(one.fileno(), _SIOCGIFADDR, struct.pack("256s", netdev.encode()[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(found[20:24])


def _rate(device: str) -> Optional[float]:
    ports = f"{_RDMA}/{device}/ports"
    words = _read(f"{ports}/{_first(ports)}/rate").split()
    return float(words[0]) if words else None


def _speed(netdev: str) -> Optional[float]:
    text = _read(f"{_NET}/{netdev}/speed")
    return int(text) / 1000 if text.isdigit() else None


def _first(folder: str) -> str:
    return min(os.listdir(folder), default="") if os.path.isdir(folder) else ""


def _read(path: str) -> str:
    try:
        with open(path) as source:
            return source.read().strip()
    except OSError:
        return ""


@contextlib.contextmanager
def listening(rail: str, its: Dict[str, Any], asked: Dict[str, Any]) -> Iterator[int]:
    """Serve one rail while the context is open; yield a TCP port on the rail's address, or 0 if the rail has no address."""
    server, children = socket.socket(), []  # type: socket.socket, List[subprocess.Popen[bytes]]
    try:
        port = 0
        if its["address"]:
            server.bind((its["address"], 0))
            server.listen(8)
            threading.Thread(target=_accept, args=(server,), daemon=True).start()
            port = server.getsockname()[1]
        silent: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        children += [subprocess.Popen(argv, **silent) for argv in _programs(rail, its, asked, "")]
        yield port
    finally:
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # ends the thread in `accept`, which would keep the socket open
        server.close()
        for child in children:
            child.kill()
            child.wait()


def _accept(server: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while True:
            server.accept()[0].close()


def _programs(rail: str, its: Dict[str, Any], asked: Dict[str, Any], peer: str) -> List[List[str]]:
    """Return the commands for one end of a rail, rping before ib_write_bw.

    If `peer` is empty, the commands are servers; otherwise they are clients of the servers at the address `peer`.
    """
    found = []
    if asked["ping"]:
        # -I binds rping to the rail: if several rails share a network, the route would send all traffic over the first rail.
        end = (
            ["-c", "-a", peer, *(["-I", its["address"]] if asked["several"] else [])] if peer else ["-s", "-a", its["address"]]
        )
        found.append([its["rping"], *end, "-p", _PING_PORT, "-C", str(_PINGS), "-v"])
    if asked["write"]:
        # With -R, the ends connect over the rail's address, and the route selects the device; iWARP works only with -R. Without
        # -R, the ends exchange keys over the nodes' front-end network, and -d selects the device even if rails share a network.
        by_address = ["-R"] if asked["by_address"] else []
        words = ["-d", rail, "--report_gbits", "-F", "-D", str(asked["seconds"]), "-p", _WRITE_PORT, *by_address]
        far = asked.get("front", "") if not asked["by_address"] else peer
        found.append([its["ib_write_bw"], *words, *([far] if far else [])])
    return found


def attempt(rail: str, its: Dict[str, Any], asked: Dict[str, Any]) -> Dict[str, str]:
    """Try to reach the neighbour over one rail; return each program's output, and why there was no TCP connection."""
    found = {"ping": "", "write": "", "connect": "not tried"}
    names = [name for name in ("ping", "write") if asked[name]]
    for name, argv in zip(names, _programs(rail, its, asked, asked["address"])):
        limit_s = _PING_S if name == "ping" else asked["seconds"] + _START_S
        found[name] = _ran(argv, limit_s)
    if asked["port"]:
        found["connect"] = _connect(its, asked)
    return found


def _ran(argv: List[str], limit_s: float) -> str:
    text = ""
    for _ in range(_TRIES):
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            out = child.communicate(timeout=limit_s)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return f"{os.path.basename(argv[0])} did not end within {limit_s:.0f} s"
        text = out.decode("utf-8", "replace")[-_PRINTED_BYTES:]
        if child.returncode == 0:
            return text
        threading.Event().wait(_PAUSE_S)
    return text or f"{os.path.basename(argv[0])} ended with {child.returncode} and printed nothing"


def _connect(its: Dict[str, Any], asked: Dict[str, Any]) -> str:
    """Return why the neighbour cannot be reached over this rail's interface; empty if the neighbour can be reached."""
    with socket.socket() as one:
        one.settimeout(_CONNECT_S)
        try:
            with contextlib.suppress(PermissionError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, its["netdev"].encode())
            one.bind((its["address"], 0))
            one.connect((asked["address"], asked["port"]))
        except OSError as error:
            return str(error)
    return ""


def main() -> None:
    """Answer questions until the input ends."""
    known = {}  # type: Dict[str, Dict[str, Any]]
    with contextlib.ExitStack() as held:
        for line in iter(sys.stdin.readline, ""):
            asked = json.loads(line)
            rail = asked.get("rail", "")
            if asked["do"] == "about":
                known = {one: about(one, asked["rdma"]) for one in asked["rails"]}
                answer = known  # type: Any
            elif asked["do"] == "listen":
                held.close()
                answer = held.enter_context(listening(rail, known[rail], asked))
            else:
                answer = attempt(rail, known[rail], asked)
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
