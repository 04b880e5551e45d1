"""The /sys/class entries of a host's RDMA devices: ports, rates, counters and verbs.

Names and paths are those of the kernel drivers mlx5, irdma and efa (drivers/infiniband/hw/efa/efa_verbs.c for EFA's counters).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTHS = {
    10: "4X SDR", 25: "1X EDR", 40: "4X QDR", 50: "1X HDR", 56: "4X FDR", 100: "4X EDR", 200: "4X HDR", 400: "4X NDR",
    800: "4X XDR",
}  # fmt: skip
#: Counters of mlx5 that counters.c updates. The data counters count words of four bytes, as InfiniBand defines them.
COUNTED = (
    "port_xmit_data",
    "port_rcv_data",
    "port_xmit_packets",
    "port_rcv_packets",
    "port_xmit_discards",
    "port_rcv_errors",
)

#: Counters of all traffic of an EFA device, packet headers included; counters.c updates them.
EFA_COUNTED = ("tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "rx_drops")

#: EFA counters of payload only, by the operation that NCCL's plugin uses.
PAYLOAD = {"RDMA": ("rdma_write_bytes", "rdma_write_recv_bytes"), "SENDRECV": ("send_bytes", "recv_bytes")}

#: The counters of an EFA device that are not in `EFA_COUNTED`. Only two of them grow: the payload counters of the operation
#: that the host's plugin uses (see `PAYLOAD`). The rest stay 0: rehearsed traffic has no remote reads, and lost packets are
#: retransmitted by TCP on the cables, not by the device.
EFA_NEVER = (
    "send_bytes", "send_wrs", "recv_bytes", "recv_wrs", "rdma_write_bytes", "rdma_write_wrs", "rdma_write_wr_err",
    "rdma_write_recv_bytes", "rdma_read_bytes", "rdma_read_wrs", "rdma_read_wr_err", "rdma_read_resp_bytes", "retrans_bytes",
    "retrans_pkts", "retrans_timeout_events", "unresponsive_remote_events", "impaired_remote_conn_events",
)  # fmt: skip

#: Counters of Intel's driver (drivers/infiniband/hw/irdma/verbs.c, irdma_hw_stat_names), which has no `counters` folder.
#: counters.c updates the first four; the other counters stay 0, because their events do not occur on rehearsed cables.
IRDMA = (
    "ip4OutOctets", "ip4InOctets", "ip4OutPkts", "ip4InPkts", "RxECNMrkd", "RxUDP", "TxUDP", "cnpHandled",
    "cnpIgnored", "cnpSent", "ip4InDiscards", "ip4InMcastOctets", "ip4InMcastPkts", "ip4InReasmRqd",
    "ip4InTruncatedPkts", "ip4OutMcastOctets", "ip4OutMcastPkts", "ip4OutNoRoutes", "ip4OutSegRqd", "ip6InDiscards",
    "ip6InMcastOctets", "ip6InMcastPkts", "ip6InOctets", "ip6InPkts", "ip6InReasmRqd", "ip6InTruncatedPkts",
    "ip6OutMcastOctets", "ip6OutMcastPkts", "ip6OutNoRoutes", "ip6OutOctets", "ip6OutPkts", "ip6OutSegRqd",
    "iwInRdmaReads", "iwInRdmaSends", "iwInRdmaWrites", "iwOutRdmaReads", "iwOutRdmaSends", "iwOutRdmaWrites",
    "iwRdmaBnd", "iwRdmaInv", "lifespan", "rxVlanErrors", "tcpInOptErrors", "tcpInProtoErrors", "tcpInSegs",
    "tcpOutSegs", "tcpRetransSegs",
)  # fmt: skip

AMAZON_VENDOR = "0x1d0f"

#: Counters of mlx5 that stay 0, because their events do not occur on rehearsed cables.
NEVER = ("symbol_error", "link_error_recovery", "excessive_buffer_overrun_errors", "port_xmit_wait")


@dataclass(frozen=True)
class Port:
    """One RDMA device with its one port.

    Attributes:
        hca: name of the device, such as mlx5_0.
        netdev: the device's interface; empty if the device has none.
        rate_gbit_s: line rate that the port reports, not scaled.
        active: whether the port has a link.
        verbs: whether a verbs library finds the device.
        driver: `mlx5`, `irdma` or `efa`; in /sys/class, an EFA device has no link to an interface.
        authenticated: whether the switch admits the port (802.1X), as the stand-in for wpa_supplicant reports.
    """

    hca: str
    netdev: str
    rate_gbit_s: int
    active: bool = True
    verbs: bool = True
    driver: str = "mlx5"
    authenticated: bool = True

    @property
    def counters(self) -> str:
        """The folder of the port's counters, below /sys/class."""
        return f"infiniband/{self.hca}/ports/1/{'counters' if self.driver == 'mlx5' else 'hw_counters'}"


def state(ports: Sequence[Port]) -> dict[str, str]:
    """Return the files that faults can change while the host runs: text by path below /sys/class."""
    made = {}
    for port in ports:
        base = f"infiniband/{port.hca}/ports/1"
        made[f"{base}/state"] = "4: ACTIVE\n" if port.active else "1: DOWN\n"
        made[f"{base}/phys_state"] = "5: LinkUp\n" if port.active else "3: Disabled\n"
        made[f"infiniband/{port.hca}/rehearsed_authentication"] = "AUTHENTICATED\n" if port.authenticated else "CONNECTING\n"
        made[f"{base}/rate"] = f"{port.rate_gbit_s} Gb/sec ({WIDTHS.get(port.rate_gbit_s, '4X')})\n"
    return made


def folders(ports: Sequence[Port]) -> dict[str, str]:
    """Return all entries at boot by path below /sys/class: for a file, its text; for a link, `->` followed by its target."""
    made = state(ports)
    for port in ports:
        base = f"infiniband/{port.hca}"
        made |= _efa(port, base) if port.driver == "efa" else _ethernet(port, base)
    return made | {path: text for path, text in verbs(ports).items() if text}


def verbs(ports: Sequence[Port]) -> dict[str, str]:
    """Return the files from which a verbs library learns of the devices: text by path below /sys/class.

    The text is empty if the library must not find the device.
    """
    return {
        f"infiniband_verbs/uverbs{number}/ibdev": f"{port.hca}\n" if port.verbs else "" for number, port in enumerate(ports)
    }


def _ethernet(port: Port, base: str) -> dict[str, str]:
    counted = IRDMA if port.driver == "irdma" else (*COUNTED, *NEVER)
    made = {f"{port.counters}/{name}": "0\n" for name in counted}
    made[f"{base}/ports/1/link_layer"] = "Ethernet\n"
    driver = "auxiliary/drivers/irdma" if port.driver == "irdma" else "pci/drivers/mlx5_core"
    made[f"{base}/device/driver"] = f"->../../../../bus/{driver}"
    if port.netdev:
        made[f"{base}/device/net/{port.netdev}"] = f"->../../../../net/{port.netdev}"
    return made


def _efa(port: Port, base: str) -> dict[str, str]:
    made = {f"{port.counters}/{name}": "0\n" for name in (*EFA_COUNTED, *EFA_NEVER)}
    # The link layer of EFA is neither InfiniBand nor Ethernet; the kernel reports "Unknown".
    made[f"{base}/ports/1/link_layer"] = "Unknown\n"
    made[f"{base}/device/driver"] = "->../../../../bus/pci/drivers/efa"
    made[f"{base}/device/vendor"] = f"{AMAZON_VENDOR}\n"
    return made
