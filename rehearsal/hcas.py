"""What /sys/class shows of a host's RDMA devices: ports, rates, counters, verbs; makes no interface and counts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTHS = {
    10: "4X SDR", 25: "1X EDR", 40: "4X QDR", 50: "1X HDR", 56: "4X FDR", 100: "4X EDR", 200: "4X HDR", 400: "4X NDR",
    800: "4X XDR",
}  # fmt: skip
COUNTED = (
    "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_discards", "port_rcv_errors",
)  # fmt: skip
"""What counters.c keeps true. The data counters count words of four bytes, as InfiniBand defines them."""

NEVER = ("symbol_error", "link_error_recovery", "excessive_buffer_overrun_errors", "port_xmit_wait")
"""Events that cables of a rehearsal do not have."""


@dataclass(frozen=True)
class Port:
    """One RDMA device with its one port.

    Attributes:
        hca: mlx5_0.
        netdev: its interface.
        rate_gbps: what the link says of itself, gigabits per second, unscaled.
        active: whether it has a link.
        verbs: whether a verbs library finds the device.
    """

    hca: str
    netdev: str
    rate_gbps: int
    active: bool = True
    verbs: bool = True


def state(ports: Sequence[Port]) -> dict[str, str]:
    """What faults may change while the host runs: text by path below /sys/class."""
    made = {}
    for port in ports:
        base = f"infiniband/{port.hca}/ports/1"
        made[f"{base}/state"] = "4: ACTIVE\n" if port.active else "1: DOWN\n"
        made[f"{base}/phys_state"] = "5: LinkUp\n" if port.active else "3: Disabled\n"
        made[f"{base}/rate"] = f"{port.rate_gbps} Gb/sec ({WIDTHS.get(port.rate_gbps, '4X')})\n"
    return made


def folders(ports: Sequence[Port]) -> dict[str, str]:
    """All of it as the host boots: a text for each file below /sys/class, `->` and a target for each link."""
    made = state(ports)
    for number, port in enumerate(ports):
        base = f"infiniband/{port.hca}"
        made[f"{base}/ports/1/link_layer"] = "Ethernet\n"
        made |= {f"{base}/ports/1/counters/{name}": "0\n" for name in (*COUNTED, *NEVER)}
        made[f"{base}/device/net/{port.netdev}"] = f"->../../../../net/{port.netdev}"
        if port.verbs:
            made[f"infiniband_verbs/uverbs{number}/ibdev"] = f"{port.hca}\n"
    return made
