"""Shows the counters of this machine's RDMA devices to Prometheus, over HTTP on one private address.

The exporter has no list of counters: it exports every counter's file that the kernel shows, so any driver's names work. A file
that does not exist, or has no number in it ("N/A (no PMA)"), gives no sample. The exporter writes no files and starts no
programs.

Folders (kernel: Documentation/ABI/stable/sysfs-class-infiniband; NVIDIA MLNX_OFED: "RDMA Counters") and their metrics:

    <device>/ports/<port>/counters/X       busbar_rdma_X_total
    <device>/ports/<port>/hw_counters/X    busbar_rdma_hw_X_total
    <device>/hw_counters/X                 busbar_rdma_device_hw_X_total

If a file counts words of four bytes, its metric is in bytes, and the metric's name ends with _bytes_total. If a file has a
current value, its metric is a gauge, and the gauge's name does not end with _total.

The hw_counters of a device and the hw_counters of its ports may count the same events (mlx5 does this). The metrics of the two
folders have different names, so that a sum over one metric counts no event twice.
"""

import argparse
import http.server
import ipaddress
import os
import re
import socketserver
import sys
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

PREFIX = "busbar_rdma_"
#: Files that count words of four bytes (the kernel's page: "divided by 4"; InfiniBand Architecture, PortXmitData, PortRcvData).
WORDS = frozenset({"port_xmit_data", "port_rcv_data"})
_WORD_BYTES = 4
#: The folder of the counters also has the file `lifespan`, which is a setting: how long the driver caches the values, in ms
#: (drivers/infiniband/core/sysfs.c).
NOT_COUNTED = frozenset({"lifespan"})
#: Files with these prefixes have a current value, or the maximum of such a value. The values can fall, so they become gauges
#: (drivers/infiniband/hw/bnxt_re/hw_counters.c: active_qps, watermark_qps).
_LEVEL = re.compile(r"(active|watermark)_")
#: How many bytes to read from a counter's file; the longest number is 20 digits and a newline.
_LONGEST = 64
_IDLE_S = 5

Labels = Tuple[Tuple[str, str], ...]


class File(NamedTuple):
    """The metric of a counter's file: its name, type, help and series, and the factor that multiplies the file's number."""

    metric: str
    kind: str
    explained: str
    series: str
    factor: int


class Text:
    """Builds Prometheus' text format, version 0.0.4, in which a metric's samples follow the metric's help and type."""

    def __init__(self) -> None:
        self.metrics: Dict[str, List[str]] = {}

    def begin(self, metric: str, kind: str, explained: str) -> List[str]:
        """Start a metric; return its list of lines, with the help and the type but no samples yet."""
        plain = explained.replace("\\", "\\\\").replace("\n", "\\n")
        found = self.metrics[metric] = [f"# HELP {metric} {plain}", f"# TYPE {metric} {kind}"]
        return found

    def gauge(self, name: str, explained: str, labels: Labels, value: Any) -> None:
        """Add a sample of a gauge that does not come from a counter's file."""
        metric = PREFIX + name
        (self.metrics.get(metric) or self.begin(metric, "gauge", explained)).append(f"{_series(metric, labels)} {value}")

    def render(self) -> bytes:
        """Return the text."""
        return ("\n".join(["\n".join(lines) for lines in self.metrics.values()]) + "\n").encode("utf-8")


def _series(metric: str, labels: Labels) -> str:
    named = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels)
    return f"{metric}{{{named}}}" if labels else metric


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def collect(base: str) -> bytes:
    """Return every counter below `base`, normally /sys/class/infiniband, in Prometheus' text format."""
    began = time.time()
    text, unread = Text(), 0
    for device in _entries(base):
        at = os.path.join(base, device)
        unread += _count(text, os.path.join(at, "hw_counters"), "device_hw_", (("device", _plain(device)),))
        for port in _entries(os.path.join(at, "ports")):
            here = os.path.join(at, "ports", port)
            labels = (("device", _plain(device)), ("port", _plain(port)))
            _port(text, at, here, labels)
            unread += _count(text, os.path.join(here, "counters"), "", labels)
            unread += _count(text, os.path.join(here, "hw_counters"), "hw_", labels)
    text.gauge("files_without_number", "Files of counters that held no number in this scrape.", (), unread)
    text.gauge("collect_seconds", "Time that reading the files took in this scrape.", (), round(time.time() - began, 6))
    return text.render()


def _count(text: Text, folder: str, group: str, labels: Labels) -> int:
    """Add the counters of a folder; return how many of the folder's files had no number."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return 0
    try:
        known, unread = _KNOWN.setdefault(folder, {}), 0
        for name in sorted(os.listdir(place)):
            if name in NOT_COUNTED:
                continue
            found = _bytes(name, place).strip()
            if not found.isdigit():
                unread += 1
                continue
            file = known.get(name)
            if file is None:
                file = known[name] = _file(folder, name, group, labels)
            metric, kind, explained, series, factor = file
            samples = text.metrics.get(metric) or text.begin(metric, kind, explained)
            samples.append(f"{series} {int(found) * factor}")
    except OSError:
        return 0  # the device was removed meanwhile
    else:
        return unread
    finally:
        os.close(place)


#: The metric of each file, by the file's folder and name. Metrics are cached, because file names do not change between scrapes.
_KNOWN: Dict[str, Dict[str, File]] = {}
#: Pairs of folder (of a port or a device) and series that already belong to a file; no other file may get the same pair.
_TAKEN: Set[Tuple[str, str]] = set()


def _file(folder: str, name: str, group: str, labels: Labels) -> File:
    """Return the metric of a file.

    A label names the file if the file's name is not allowed as a metric's name, or if another file has the same series.
    """
    found = _described(folder, name, group, labels)
    plain, port = _plain(name), os.path.dirname(folder)
    if not re.match(r"[a-zA-Z0-9_]+$", plain) or (port, found.series) in _TAKEN:
        own = (*labels, ("file", os.path.basename(folder) + "/" + plain))
        found = found._replace(series=_series(found.metric, own))
    _TAKEN.add((port, found.series))
    return found


def _described(folder: str, name: str, group: str, labels: Labels) -> File:
    plain = _plain(name)
    metric = PREFIX + group + re.sub(r"[^a-zA-Z0-9_]", "_", plain)
    where = "{}/{} of the {}".format(os.path.basename(folder), plain, "device" if group.startswith("device") else "port")
    if group and _LEVEL.match(name):
        return File(metric, "gauge", f"{where}: a current value.", _series(metric, labels), 1)
    if not group and name in WORDS:
        metric, explained = f"{metric}_bytes_total", f"{where}, in bytes: the file counts words of {_WORD_BYTES} bytes."
        return File(metric, "counter", explained, _series(metric, labels), _WORD_BYTES)
    metric, unit = f"{metric}_total", ", in bytes" if re.search(r"_bytes$|Octets$", name) else ""
    return File(metric, "counter", f"{where}{unit}.", _series(metric, labels), 1)


def _port(text: Text, device: str, port: str, labels: Labels) -> None:
    """Add a port's description and state; values that the port's files do not give are left out."""
    about = (
        ("driver", os.path.basename(os.path.realpath(device + "/device/driver")) if _exists(device + "/device/driver") else ""),
        ("firmware", _line(device + "/fw_ver")),
        ("interface", ",".join(_plain(one) for one in _entries(device + "/device/net"))),
        ("link_layer", _line(port + "/link_layer")),
    )
    text.gauge("port_info", "Description of the port, as labels; always 1.", labels + about, 1)
    for name, metric, explained in (
        ("state", "port_state", "State of the port: 1 down, 2 initialising, 3 armed, 4 active."),
        ("phys_state", "port_physical_state", "State of the link: 2 polling, 3 disabled, 5 up, 6 recovering from errors."),
    ):
        found = re.match(r"(\d+):", _line(f"{port}/{name}"))
        if found:
            text.gauge(metric, explained, labels, int(found.group(1)))
    rate = re.match(r"([\d.]+) Gb/sec", _line(port + "/rate"))
    if rate:
        text.gauge("port_rate_bytes_per_second", "Rate that the link has now.", labels, int(float(rate.group(1)) * 1e9 / 8))


def _entries(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _exists(path: str) -> bool:
    return os.path.lexists(path)


def _line(path: str) -> str:
    return _plain(_bytes(path).decode("utf-8", "surrogateescape").strip())


def _bytes(path: str, folder: Optional[int] = None) -> bytes:
    """Return the start of a file, or nothing if the file cannot be read. `os.read` is faster than Python's buffered files."""
    try:
        file = os.open(path, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return b""
    try:
        return os.read(file, _LONGEST)
    except OSError:
        return b""
    finally:
        os.close(file)


def _plain(name: str) -> str:
    """Return a name in which bytes that are not valid UTF-8 are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Answers the clients in `allowed` and this machine itself; other clients get no answer."""

    daemon_threads = True

    def __init__(self, address: Tuple[str, int], base: str, allowed: Sequence[str]) -> None:
        self.base = base
        self.allowed = [ipaddress.ip_network(one) for one in (*allowed, address[0])]
        self.at_once = threading.Lock()
        http.server.HTTPServer.__init__(self, address, Handler)

    def server_bind(self) -> None:
        """Bind without a reverse DNS look-up of the server's address."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def verify_request(self, _request: Any, client_address: Any) -> bool:
        """Tell whether the client may read the metrics."""
        client = ipaddress.ip_address(client_address[0])
        return any(client in network for network in self.allowed)

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """Ignore a client that disconnected."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves GET /metrics only."""

    timeout = _IDLE_S
    server_version, sys_version = "busbar-rdma-exporter", ""

    def do_GET(self) -> None:
        """Answer one scrape at a time, because some drivers query the device's firmware for each scrape."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics is served")
            return
        server: Any = self.server
        with server.at_once:
            body = collect(server.base)
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Log nothing: a scrape occurs every few seconds."""


def main(argv: Sequence[str]) -> None:
    """Serve the metrics until the process is terminated."""
    parser = argparse.ArgumentParser(description="Counters of RDMA devices for Prometheus.")
    parser.add_argument("--listen", required=True, help="private IPv4 address of this machine")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--allow", action="append", default=[], help="network that may read, in CIDR notation")
    parser.add_argument("--base", default="/sys/class/infiniband")
    asked = parser.parse_args(argv)
    address = ipaddress.ip_address(asked.listen)
    if address.is_global or address.is_unspecified:
        sys.exit(f"--listen is {address}, which is not a private address of one machine; the exporter is never public")
    Server((str(address), asked.port), asked.base, asked.allow).serve_forever()
