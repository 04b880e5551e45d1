"""Write docs/grafana/busbar.json, the Grafana dashboard of RDMA counters, GPUs and NVLink: python -m tools.dashboard.

The JSON is Grafana's classic model, which every version from 8 on imports (Grafana: "Dashboard JSON model"). Drivers use
their own counter names, so a panel queries the names of every driver; counters that a node does not have draw nothing.

The exporter's names are derived from the drivers' names in components/remote_scripts/rdma_exporter.py (sources: see
tests/golden/rdma). The DCGM names are from dcgm-exporter's etc/default-counters.csv. The two NVLink counters are in none of the
lists that dcgm-exporter ships: add them to the list that your exporter reads (NVIDIA/dcgm-exporter issue 316).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

FILE = Path(__file__).parent.parent / "docs" / "grafana" / "busbar.json"
#: Schema version of Grafana 8; later versions migrate a dashboard when they load it.
_SCHEMA_VERSION = 30
_WIDTH, _HEIGHT, _ACROSS = 12, 8, 24
_NODES = '{pool=~"$pool",node=~"$node"}'
_PORT, _GPU = "{{node}} {{device}}", "{{node}} GPU {{gpu}}"


@dataclass(frozen=True)
class Line:
    """One query: `expression` contains `@` in place of the chosen nodes, and `legend` names each of its series."""

    expression: str
    legend: str

    def target(self, letter: str) -> dict[str, Any]:
        """Return the query as a target of a panel."""
        return {"refId": letter, "expr": self.expression.replace("@", _NODES), "legendFormat": self.legend}


@dataclass(frozen=True)
class Panel:
    """One graph: its title, Grafana's unit, its description, and its lines."""

    title: str
    unit: str
    says: str
    lines: tuple[Line, ...]


def _rates(*names: str, suffix: str = "") -> tuple[Line, ...]:
    """Return the rates of the exporter's counters `names` for each port; `names` come from the drivers."""
    return tuple(
        Line(f"rate(busbar_rdma_{name}_total@[$__rate_interval]){suffix}", f"{_PORT} {name.removeprefix('hw_')}")
        for name in names
    )


#: The dashboard's rows.
ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "RDMA",
        (
            Panel(
                "RDMA out",
                "bps",
                "What each port sends. mlx5: the port's data; EFA: all bytes with headers; irdma: IP packets.",
                _rates("port_xmit_data_bytes", "hw_tx_bytes", "hw_ip4OutOctets", "hw_ip6OutOctets", suffix=" * 8"),
            ),
            Panel(
                "RDMA in",
                "bps",
                "What each port receives.",
                _rates("port_rcv_data_bytes", "hw_rx_bytes", "hw_ip4InOctets", "hw_ip6InOctets", suffix=" * 8"),
            ),
            Panel(
                "CNP and ECN",
                "pps",
                "Congestion: marked packets received, notifications sent for them, and notifications handled or ignored.",
                _rates(
                    *("hw_np_cnp_sent", "hw_rp_cnp_handled", "hw_rp_cnp_ignored", "hw_np_ecn_marked_roce_packets"),
                    *("hw_cnpSent", "hw_cnpHandled", "hw_cnpIgnored", "hw_RxECNMrkd"),
                ),
            ),
            Panel(
                "Discards",
                "pps",
                "Packets that were dropped.",
                _rates(
                    *("port_xmit_discards", "port_rcv_errors", "hw_out_of_buffer"),
                    *("hw_ip4InDiscards", "hw_ip6InDiscards", "hw_rx_drops"),
                ),
            ),
            Panel(
                "Retransmits and sequence errors",
                "pps",
                "Packets that were sent again or arrived out of order.",
                _rates(
                    *("hw_out_of_sequence", "hw_packet_seq_err", "hw_local_ack_timeout_err", "hw_roce_adp_retrans"),
                    *("hw_tcpRetransSegs", "hw_retrans_pkts", "hw_retrans_timeout_events"),
                ),
            ),
            Panel(
                "Ports",
                "short",
                "State of each port (4 is active), and how often its link went down in the last hour.",
                (
                    Line("busbar_rdma_port_state@", f"{_PORT} state"),
                    Line("increase(busbar_rdma_link_downed_total@[1h])", f"{_PORT} link_downed"),
                ),
            ),
        ),
    ),
    (
        "GPU",
        (
            Panel("GPU utilisation", "percent", "Share of time with a kernel running.", (Line("DCGM_FI_DEV_GPU_UTIL@", _GPU),)),
            Panel("GPU memory", "mbytes", "Framebuffer in use.", (Line("DCGM_FI_DEV_FB_USED@", _GPU),)),
            Panel("GPU power", "watt", "Power draw.", (Line("DCGM_FI_DEV_POWER_USAGE@", _GPU),)),
            Panel("GPU temperature", "celsius", "Temperature of the GPU.", (Line("DCGM_FI_DEV_GPU_TEMP@", _GPU),)),
            Panel(
                "NVLink",
                "Bps",
                "Bytes a second over all links of a GPU, headers included; configure your dcgm-exporter to read these fields.",
                (
                    Line("DCGM_FI_PROF_NVLINK_TX_BYTES@", f"{_GPU} out"),
                    Line("DCGM_FI_PROF_NVLINK_RX_BYTES@", f"{_GPU} in"),
                ),
            ),
            Panel("XID", "short", "The last XID error of a GPU; 0 means none.", (Line("DCGM_FI_DEV_XID_ERRORS@", _GPU),)),
        ),
    ),
    (
        "Exporter",
        (
            Panel(
                "Scrapes",
                "s",
                "Time that it took to read all counters of a node.",
                (Line("busbar_rdma_collect_seconds@", "{{node}}"),),
            ),
            Panel(
                "Files without a number",
                "short",
                "Counters that a device lists, but whose files contain no number.",
                (Line("busbar_rdma_files_without_number@", "{{node}}"),),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    return {
        "uid": "busbar",
        "title": "busbar: RDMA, GPU, NVLink",
        "tags": ["busbar"],
        "schemaVersion": _SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [_source(), _chosen("pool", "{}"), _chosen("node", '{pool=~"$pool"}')]},
        "panels": _panels(),
    }


def text() -> str:
    """Return the file."""
    return json.dumps(dashboard(), indent=1) + "\n"


def _source() -> dict[str, Any]:
    return {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _chosen(name: str, among: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "query": f"label_values(up{among.replace('{}', '')}, {name})",
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    y = 0
    for title, panels in ROWS:
        found.append({"type": "row", "title": title, "gridPos": {"x": 0, "y": y, "w": _ACROSS, "h": 1}, "panels": []})
        y += 1
        for index, panel in enumerate(panels):
            x = index % (_ACROSS // _WIDTH) * _WIDTH
            found.append(_graph(panel, {"x": x, "y": y, "w": _WIDTH, "h": _HEIGHT}))
            if x + _WIDTH == _ACROSS or index == len(panels) - 1:
                y += _HEIGHT
    return [{"id": number, **one} for number, one in enumerate(found, 1)]


def _graph(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": panel.title,
        "description": panel.says,
        "datasource": {"type": "prometheus", "uid": "${source}"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [line.target(letter) for letter, line in zip(ascii_uppercase, panel.lines, strict=False)],
    }


if __name__ == "__main__":
    FILE.write_text(text())
