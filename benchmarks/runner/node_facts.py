"""Prints a node's devices and counters as JSON; every node runs this module through `python3 - [FOLDER]`.

The JSON lists the GPUs, interfaces and RDMA devices of the node, with their counters of bytes and of errors. FOLDER is created
for the log files that NCCL will write. After NCCL has run, `--harvest FOLDER` reads from the log files which transport NCCL
used, and deletes the folder. The JSON of `--harvest` has this transport and the counters, but not the GPUs.
"""

import json
import os
import platform
import pwd
import re
import shutil
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

#: Patterns of lines in NCCL's log (levels INFO and WARN). Each pattern comes after a key of the result; under this key, the
#: result counts the texts that the pattern finds.
_SAID = (
    ("networks", re.compile(r"NCCL INFO Using network (.*\S)")),
    ("devices", re.compile(r"NCCL INFO (NET/\S+ : Using .*\S)")),
    ("devices", re.compile(r"NCCL INFO (?:NET/OFI )?(Selected [Pp]rovider is .*\S)")),
    # NCCL's graph/topo.cc and transport/net.cc: a channel's line contains /GDRDMA if the HCA accesses GPU memory directly.
    ("gpudirect", re.compile(r"NCCL INFO Channel .* via NET/.*/(GDRDMA)\b")),
    ("gpudirect", re.compile(r"NCCL INFO Channel .* via (NET)/(?!.*GDRDMA)")),
    ("warnings", re.compile(r"NCCL WARN (.*\S)")),
    # NCCL logs this line for each channel that it sets up for reduction in the switches (transport/coll_net.cc). If NCCL sets
    # up no such channel, there is no such line, even if its plugin supports this reduction. Before NCCL 2.9, the line has
    # "Coll" instead of "CollNet".
    ("channels", re.compile(r"NCCL INFO Coll(?:Net)? [0-9]+\S* : .* via (COLLNET/[A-Za-z0-9]+)")),
    ("channels", re.compile(r"NCCL INFO Channel .* via ([A-Z][A-Za-z0-9]*(?:/(?:AWS )?[A-Za-z][A-Za-z0-9]*)?(?:/[0-9]+)?)")),
)
_RDMA = "/sys/class/infiniband"
_LOG_LIMIT_BYTES = 4 << 20
#: Memory that the driver itself may use on an idle GPU, and utilisation that a sample of an idle GPU may show.
_IDLE_MIB, _IDLE_PCT = 4096, 20
_BUSY_KEPT = 8
_QUERY = "--query-gpu=name,driver_version,index,memory.used,utilization.gpu"
#: nvidia-smi's fields for a GPU's limits and PCIe link, by their key in the inventory. The limits are read and never set.
#: Current values are not read, because an idle GPU runs its clocks and its link more slowly.
_LIMITS = (
    ("power_limit_w", "enforced.power.limit"),
    ("clock_limit_mhz", "clocks.max.sm"),
    ("pcie_width", "pcie.link.width.max"),
    ("pcie_generation", "pcie.link.gen.max"),
)


def inventory() -> Dict[str, Any]:
    """Return this node's GPUs, their limits, the driver, the clock, the processes that use the GPUs, and the counters."""
    # A driver that does not know one of the fields returns no field at all; then the query is repeated without the limits.
    rows = _rows(",".join([_QUERY, *(field for _, field in _LIMITS)])) or _rows(_QUERY)
    gpus = [row for row in rows if len(row) > 1]
    return dict(
        counters(),
        host=socket.gethostname(),
        machine=_read("/sys/class/dmi/id/product_uuid") or _read("/etc/machine-id"),
        clock=time.time(),
        virtual=is_virtual(_read("/proc/cpuinfo")),
        kernel=platform.release(),
        os=_os_name(),
        gpus=[row[0] for row in gpus],
        gpu_limits=limits([row[2:] for row in gpus]),
        driver=gpus[0][1] if gpus else None,
        busy=busy([row[2:5] for row in gpus]),
    )


def limits(rows: List[List[str]]) -> Dict[str, Dict[str, str]]:
    """Return each GPU's limits as the driver prints them, by a key such as gpu0; values that the driver lacks are left out.

    Each row is about one GPU: index, memory and utilisation, followed by the limits if the driver knows these fields.
    """
    return {
        "gpu" + row[0]: {key: said for (key, _), said in zip(_LIMITS, row[3:]) if said[:1].isdigit()} for row in rows if row[3:]
    }


def counters() -> Dict[str, Any]:
    """Return this node's interfaces and RDMA devices with their byte counters, and the byte counter of NVLink."""
    return {
        "interfaces": {name: _interface(name) for name in _entries("/sys/class/net") if name != "lo"},
        "hca": {name: hca(os.path.join(_RDMA, name)) for name in _entries(_RDMA)},
        "nvlink_tx_bytes": _nvlink(),
    }


def busy(used: List[List[str]]) -> List[str]:
    """Return a sentence for each process that computes on a GPU of this node or, if no process is visible, for each busy GPU.

    `used` has index, memory in use (MiB) and utilisation (%) of each GPU. If this module runs in a container, processes
    outside the container are not visible, but the memory that they use is counted. An MPS server does not count as a process
    that computes, because an MPS server may be idle.
    """
    found = [
        f"process {row[0]} ({os.path.basename(row[1])}) of {_owner(row[0])} computes on a GPU"
        for row in _rows("--query-compute-apps=pid,process_name,used_memory")
        if len(row) == 3 and row[0].isdigit() and "mps-server" not in row[1]  # noqa: PLR2004 - the columns of the query
    ]
    if found:
        return found[:_BUSY_KEPT]
    return [
        f"GPU {index} has {mib} MiB in use and is {percent} % busy, but no process is visible"
        for index, mib, percent in (row for row in used if len(row) == 3)  # noqa: PLR2004 - the columns of the query
        if mib.isdigit() and percent.isdigit() and (int(mib) >= _IDLE_MIB or int(percent) >= _IDLE_PCT)
    ][:_BUSY_KEPT]


def is_virtual(cpuinfo: str) -> Optional[bool]:
    """Tell from the processors' flags whether this node is a virtual machine; None if the kernel lists no flags (Arm)."""
    flags = re.search(r"^flags\s*:(.*)$", cpuinfo, re.MULTILINE)
    return "hypervisor" in flags.group(1).split() if flags else None


def _rows(query: str) -> List[List[str]]:
    out = _output(["nvidia-smi", query, "--format=csv,noheader,nounits"])
    return [[word.strip() for word in line.split(",")] for line in out.splitlines()]


def _owner(pid: str) -> str:
    try:
        owner = os.stat("/proc/" + pid).st_uid
    except OSError:
        return "an unknown user"
    try:
        return pwd.getpwuid(owner).pw_name
    except KeyError:
        return f"user {owner}"


def _nvlink() -> Optional[int]:
    """Return the bytes that all NVLinks of this node have sent; None if there is no counter."""
    counted = re.findall(r"Tx\d*:\s*(\d+) KiB", _output(["nvidia-smi", "nvlink", "-gt", "d"]))
    return 1024 * sum(int(number) for number in counted) if counted else None


def _output(argv: List[str]) -> str:
    try:
        found = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.decode("utf-8", "replace")


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


def hca(base: str) -> Dict[str, Any]:
    """Return the properties and counters of the RDMA device in the sysfs folder `base`."""
    port = base + "/ports/1"
    found = {
        "netdev": (_entries(base + "/device/net") or [None])[0],
        "active": "ACTIVE" in _read(port + "/state"),
        "rate": _read(port + "/rate"),
        "pcie": _pcie(base + "/device"),
    }
    # The interface's counters miss RDMA traffic; the port's counters count four-byte words.
    for key, counter in (("tx_bytes", "port_xmit_data"), ("rx_bytes", "port_rcv_data")):
        words = _number(port + "/counters/" + counter)
        found[key] = None if words is None else 4 * words
    if _is_efa(base):
        found["tx_bytes"] = _efa_bytes(port, "tx_bytes", ("send_bytes", "rdma_write_bytes", "rdma_read_resp_bytes"))
        found["rx_bytes"] = _efa_bytes(port, "rx_bytes", ("recv_bytes", "rdma_write_recv_bytes", "rdma_read_bytes"))
    # Counters of errors, drops, congestion marks and pauses are listed under the driver's names; an absent counter is not
    # listed as zero.
    found["events"] = {
        counter: _number(folder + "/" + counter)
        for folder in (port + "/counters", port + "/hw_counters")
        for counter in _entries(folder)
        if _EVENT.search(counter)
    }
    return found


def _pcie(device: str) -> str:
    """Return speed and width of a device's PCIe link, such as "16.0 GT/s x16"; empty if the kernel does not report both."""
    speed, width = _read(device + "/current_link_speed"), _read(device + "/current_link_width")
    return "{} x{}".format(speed.replace(" PCIe", ""), width) if speed[:1].isdigit() and width.strip("0") else ""


def _is_efa(base: str) -> bool:
    """Tell whether a device is an EFA device, which has no InfiniBand port counters and no interface."""
    return os.path.basename(os.path.realpath(base + "/device/driver")) == "efa"


def _efa_bytes(port: str, device: str, parts: Sequence[str]) -> Optional[int]:
    """Return the bytes of an EFA device in one direction, counting each byte once.

    The device's counter is the sum of sends and RDMA (EC2 user guide, "Monitor an Elastic Fabric Adapter"); if a driver leaves
    RDMA out of this counter, the sum of the counters of individual operations is larger and is returned.
    """
    folder = port + "/hw_counters/"
    apart = [number for number in (_number(folder + part) for part in parts) if number is not None]
    whole = _number(folder + device)
    counted = ([whole] if whole is not None else []) + ([sum(apart)] if apart else [])
    return max(counted) if counted else None


_EVENT = re.compile(
    r"unresponsive|impaired|err|discard|drop|cnp|ecn|out_of|retrans|retries|timeout|link_downed|recover|pause|xmit_wait",
    re.IGNORECASE,
)


def _entries(path: str) -> List[Any]:
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read(_LOG_LIMIT_BYTES).strip()
    except OSError:
        return ""


def _number(path: str) -> Any:
    """Return the number in the file `path`; None if the file is absent or contains no number."""
    text = _read(path)
    return int(text) if text.isdigit() else None


def harvest(folder: str) -> Dict[str, Dict[str, int]]:
    """Return NCCL's warnings and transport messages, each with its count, from the logs in `folder`; delete the folder."""
    said = {key: {} for key, _ in _SAID}  # type: Dict[str, Dict[str, int]]
    for name in _entries(folder):
        for line in _read(os.path.join(folder, name)).splitlines():
            for key, pattern in _SAID:
                found = pattern.search(line)
                if found:
                    said[key][found.group(1)] = said[key].get(found.group(1), 0) + 1
    shutil.rmtree(folder, ignore_errors=True)
    return said


def _main(argv: List[str]) -> None:
    if argv[:1] == ["--harvest"]:
        found = dict(counters(), nccl=harvest(argv[1]))
    else:
        found = inventory()
        for folder in argv[:1]:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder, mode=0o700)
    print(json.dumps(found))


if __name__ == "__main__":
    _main(sys.argv[1:])
