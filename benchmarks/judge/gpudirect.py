"""Reads from NCCL's log whether the HCAs access GPU memory directly (GPUDirect RDMA).

If no node uses GPUDirect RDMA, every byte goes through host memory: counters look normal, no pair is slower than another, and
all-reduce on two nodes falls from about 180 to about 10 GB/s (NVIDIA/nccl issue 1676).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.judge.libfabric import Told
from catalogue import ENVIRONMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from catalogue import Shape


#: The only machines with NVLink whose EFA device cannot access GPU memory (aws/aws-ofi-nccl issues 104 and 547).
_EFA_WITHOUT = "p3dn."


def told(moved: Mapping[str, Any], shape: Shape, nccl: str) -> Told:
    """Return what the log of NCCL, version `nccl`, reports about its channels; empty for shapes that need no GPUDirect RDMA.

    Machines with NVLink need GPUDirect RDMA, because a detour through host memory is slow. On most of them a GPU and its HCA
    (or EFA device) are behind one PCIe switch (NVIDIA/nccl issue 465). With EFA's plugin, NCCL logs GPUDirect RDMA in the same
    form as with HCAs (NVIDIA/nccl issue 527: "via NET/AWS Libfabric/0/GDRDMA"). A p4d without GPUDirect RDMA in
    its log was slow (aws/aws-ofi-nccl issue 64: "via NET/AWS Libfabric/0"). Both nodes of a connection log their end of it, and
    one end may use GPUDirect RDMA while the other does not (NVIDIA/nccl issue 897), so the counts are of ends.

    GPUDirect RDMA needs a kernel module or DMA-BUF (NVIDIA GPU Operator, "GPUDirect RDMA and GPUDirect Storage"). NCCL's use of
    DMA-BUF depends on its version (NVIDIA/nccl issue 778).
    """
    if shape.rdma is None or shape.nvlink_gbytes_per_s is None:
        return Told()
    plugin = ENVIRONMENTS[shape.environment].provider if shape.environment else ""
    if plugin and shape.name.startswith(_EFA_WITHOUT):
        return Told()
    said = moved.get("said")
    found = said.get("gpudirect") if isinstance(said, dict) else None
    counts = found if isinstance(found, dict) else {}
    through_host, direct = _count(counts.get("NET")), _count(counts.get("GDRDMA"))
    if through_host:
        nodes = moved.get("through_host_memory")
        where = f" on {', '.join(map(str, nodes))}" if isinstance(nodes, list) and nodes else ""
        ends = f"{through_host} of {through_host + direct} ends of connections{where}"
        module = "efa_nv_peermem" if plugin else "nvidia_peermem"
        why = f"bytes went through host memory; is the kernel module {module} loaded on the nodes (lsmod)"
        return Told(wrong=(f"NCCL used no GPUDirect RDMA at {ends}: {why}, or can NCCL {nccl} use DMA-BUF instead?",))
    if not direct:
        return Told(missing="NCCL did not log whether it used GPUDirect RDMA")
    return Told(proof=(f"GPUDirect RDMA at all {direct} ends of connections",))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
