"""NVLink and PCIe rates, memory and maker of GPUs, by the name that the driver reports."""

from __future__ import annotations

import re
from typing import TypeVar

_Fact = TypeVar("_Fact")

#: Patterns of GPU names, each with the NVLink generation of these GPUs; the first match wins. Cards for a PCIe slot (L40S, A10,
#: "H100 PCIe", "H100 NVL", "H200 NVL") have no NVLink, or only bridges between a few cards, so they have no row.
_NVLINK = (
    (r"Tesla V100-SXM\d?-.*", 2),
    (r"NVIDIA A100-SXM4-.*", 3),
    (r"NVIDIA H100 \d+GB HBM\d\w?", 4),
    (r"NVIDIA H200(?: SXM.*)?", 4),
    (r"NVIDIA G?B[23]00(?: SXM.*)?", 5),
)
#: NVLink rate of one GPU in one direction, GB/s, by generation: half of what data sheets print, because data sheets add both
#: directions. NVIDIA's architecture papers: V100 6 links of 25 GB/s, A100 12 of 25, H100 and H200 18 of 25, Blackwell 18 of 50.
_NVLINK_GB_S = {2: 150.0, 3: 300.0, 4: 450.0, 5: 900.0}

#: PCIe rate of one GPU in one direction, GB/s, for machines without NVLink. Data sheets print twice this rate, because they add
#: both directions: 64 GB/s for L40S, A10 and L4 (Gen4 x16), 128 GB/s for RTX PRO 6000 Blackwell Server Edition (Gen5 x16).
_PCIE = (
    (r"NVIDIA L40S", 32.0),
    (r"NVIDIA A10G?", 32.0),
    (r"NVIDIA L4", 32.0),
    (r"NVIDIA RTX PRO 6000 Blackwell Server Edition", 64.0),
)
#: PCIe generation and lanes of one GPU. Data sheets print Gen4 x16 for A100 (SXM and PCIe), A10, L4 and L40S, and Gen5 x16 for
#: RTX PRO 6000 Blackwell Server Edition. For H100 and H200 they print Gen5 and 128 GB/s in both directions together, which is
#: the rate of 16 lanes. Five NVIDIA models newer than V100 have no row: sources contradict each other on B200 and B300 (Gen5 or
#: Gen6), NVLink joins GB200 and GB300 to their processor, and AWS does not publish the link of its A10G.
_PCIE_LINK = (
    (r"NVIDIA A100.*", (4, 16)),
    (r"NVIDIA (?:A10|L4|L40S)", (4, 16)),
    (r"NVIDIA H[12]00(?: .*)?", (5, 16)),
    (r"NVIDIA RTX PRO 6000 Blackwell Server Edition", (5, 16)),
)
#: busbw of a large all-reduce inside one healthy machine of eight GPUs, GB/s, with reduction in the NVLink switch (NVLS):
#: Azure/ai-infrastructure-on-azure (H100 480), stas00/ml-engineering (H200 482.3; B200 845.7).
_NVLS = (
    (r"NVIDIA H100 \d+GB HBM\d\w?", 480.0),
    (r"NVIDIA H200(?: SXM.*)?", 482.3),
    (r"NVIDIA B200(?: SXM.*)?", 845.7),
)
#: Memory of small GPUs, GB, by their data sheets; larger GPUs have room for any message of a plan.
_MEMORY_GB = ((r"NVIDIA A10G?", 24), (r"NVIDIA L4", 24))
#: Share of the ceiling that an all-reduce must reach if the switches between nodes do the reduction (SHARP), by NVLink
#: generation. Only one such run is published: 450 of 787 GB/s, a share of 0.57 (H100, 8 nodes, 16 GiB). The required share is
#: slightly less. NVLink's switch was the bottleneck of that run, so the share applies only to that run's generation of NVLink.
_IN_NETWORK_SHARES = {4: 0.53}


def pcie_gbytes_per_s(gpu: str) -> float | None:
    """Return one PCIe GPU's rate, GB/s in one direction; None for GPUs with NVLink and for models that are not known."""
    return _of(_PCIE, gpu)


def pcie_link(gpu: str) -> tuple[int, int] | None:
    """Return generation and lanes of a GPU's PCIe link; None if no source states the link of the model."""
    return _of(_PCIE_LINK, gpu)


def nvls_gbytes_per_s(gpu: str) -> float | None:
    """Return the busbw (GB/s) of a healthy machine of eight GPUs that reduces in its NVLink switch; None if not published."""
    return _of(_NVLS, gpu)


def memory_gb(gpu: str) -> float | None:
    """Return the memory of a small GPU, GB; None for large GPUs and for models that are not known."""
    return _of(_MEMORY_GB, gpu)


def is_nvidia(gpu: str) -> bool:
    """Tell whether a GPU is NVIDIA's, by the driver's name: NCCL and nvidia-smi support no other GPUs."""
    return gpu.startswith(("NVIDIA ", "Tesla "))


#: Maximum number of GPUs in one NVLink domain: a whole rack (GB200 NVL72, GB300 NVL72).
RACK = 72
#: Share of one GPU's NVLink rate that a collective must reach over NVLink between the nodes of a rack, at 16 GB. Published runs
#: reached these shares (`catalogue.published` has the bandwidths):
#: all-reduce in the NVLink switches: 0.93 (GB200, 2 and 18 nodes), 0.98 (GB200, 4 nodes), 1.03 to 1.04 (GB300, 8, 16 and 18
#: nodes);
#: all-gather: 0.68 (GB200, 4 nodes), 0.76 (GB200, 2 nodes), 0.78 (GB300, 8 nodes);
#: all-to-all: 0.63 (GB200, 4 nodes), 0.76 (GB200, 2 nodes), 0.75 (GB300, 8 nodes).
#: No shares of other collectives are published. Without reduction in the switches, an all-reduce as a ring reached only 0.75
#: (inside one GB200 node). Over the rails, GB200 and GB300 reached only 0.06 to 0.43 of NVLink's rate.
RACK_SHARES = {"all_reduce": 0.85, "all_gather": 0.63, "alltoall": 0.59}


def spans_nodes(gpu: str) -> bool:
    """Tell whether NVLink of this model joins several nodes of a rack (GB200 NVL72, GB300 NVL72)."""
    return re.fullmatch(r"NVIDIA GB[23]00(?: .*)?", gpu) is not None


def in_network_share(gpu: str) -> float | None:
    """Return the share of the ceiling that an all-reduce in the switches between nodes must reach; None if it is unknown."""
    return _IN_NETWORK_SHARES.get(nvlink_generation(gpu) or 0)


def _of(rows: tuple[tuple[str, _Fact], ...], gpu: str) -> _Fact | None:
    return next((value for pattern, value in rows if re.fullmatch(pattern, gpu)), None)


def nvlink_gbytes_per_s(gpu: str) -> float | None:
    """Return one GPU's NVLink rate, GB/s in one direction; None for PCIe GPUs and for models that are not known."""
    generation = nvlink_generation(gpu)
    return None if generation is None else _NVLINK_GB_S[generation]


def nvlink_generation(gpu: str) -> int | None:
    """Return the NVLink generation of one GPU, 2 to 5; None for PCIe GPUs and for models that are not known."""
    return _of(_NVLINK, gpu)


def same(catalogued: str, reported: str) -> bool:
    """Tell whether the driver's `reported` name is the `catalogued` model; newer drivers add the board (`B300 SXM6 AC`)."""
    return reported == catalogued or reported.startswith(f"{catalogued} SXM")
