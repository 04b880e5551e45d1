"""NVLink rates of GPUs, by the name that the driver reports."""

from __future__ import annotations

import re

#: NVLink of one GPU in one direction, GB/s: half of what data sheets print, because they add both directions. The first match
#: wins. NVIDIA's architecture papers: V100 6 links of 25 GB/s, A100 12 of 25, H100 and H200 18 of 25, Blackwell 18 of 50. Cards
#: for a PCIe slot (L40S, A10, "H100 PCIe", "H100 NVL", "H200 NVL") have none or bridge only pairs, and so have no row.
_NVLINK = (
    (r"Tesla V100-SXM\d?-.*", 150.0),
    (r"NVIDIA A100-SXM4-.*", 300.0),
    (r"NVIDIA H100 \d+GB HBM\d\w?", 450.0),
    (r"NVIDIA H200(?: SXM.*)?", 450.0),
    (r"NVIDIA G?B[23]00(?: SXM.*)?", 900.0),
)


def nvlink_gbytes_per_s(gpu: str) -> float | None:
    """Return one GPU's NVLink rate, GB/s in one direction; None for PCIe GPUs and for models that are not known."""
    return next((rate for pattern, rate in _NVLINK if re.fullmatch(pattern, gpu)), None)


def same(catalogued: str, reported: str) -> bool:
    """Tell whether the driver's `reported` name is the `catalogued` model; newer drivers add the board (`B300 SXM6 AC`)."""
    return reported == catalogued or reported.startswith(f"{catalogued} SXM")
