"""Servers that people own, by their GPUs.

A row has rails only if the maker's manual states the rails; otherwise the machine reports its rails (`catalogue.detection`).
"""

from __future__ import annotations

from catalogue.environments import GENERIC
from catalogue.shape import Rdma, Shape

_HGX = "NVIDIA HGX platform: 4 or 8 GPUs on one board; network adapters are the integrator's choice"
_PCIE = "GPUs in PCIe slots; no NVLink"
_DGX = "NVIDIA DGX H100/H200 User Guide, table of network modules (default RDMA device of each compute port)"

#: Compute ports of a DGX H100 and H200: 8 x 400 Gb/s; the storage ports (mlx5_1, 2, 7, 8) are not used.
_DGX_HOPPER = Rdma(8, 400, tuple(f"mlx5_{number}" for number in (0, 3, 4, 5, 6, 9, 10, 11)), "")

_ROWS = (
    Shape("HGX-A100-40GB.8", "NVIDIA A100-SXM4-40GB", 8, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-A100-40GB.4", "NVIDIA A100-SXM4-40GB", 4, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-A100-80GB.8", "NVIDIA A100-SXM4-80GB", 8, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-A100-80GB.4", "NVIDIA A100-SXM4-80GB", 4, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-H100.8", "NVIDIA H100 80GB HBM3", 8, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-H100.4", "NVIDIA H100 80GB HBM3", 4, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-H200.8", "NVIDIA H200", 8, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-H200.4", "NVIDIA H200", 4, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-B200.8", "NVIDIA B200", 8, 0, 0, None, GENERIC, _HGX),
    Shape("HGX-B300.8", "NVIDIA B300", 8, 0, 0, None, GENERIC, _HGX),
    Shape("L40S.4", "NVIDIA L40S", 4, 0, 0, None, GENERIC, _PCIE),
    Shape("L40S.8", "NVIDIA L40S", 8, 0, 0, None, GENERIC, _PCIE),
    Shape("DGX-H100", "NVIDIA H100 80GB HBM3", 8, 2048, 8, _DGX_HOPPER, GENERIC, _DGX),
    Shape("DGX-H200", "NVIDIA H200", 8, 2048, 8, _DGX_HOPPER, GENERIC, _DGX),
)

#: Every server by its name.
SERVERS: dict[str, Shape] = {row.name: row for row in _ROWS}
