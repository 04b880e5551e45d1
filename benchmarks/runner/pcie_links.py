"""Finds PCIe links that are slower than the machine's shape requires, even if the links of all nodes are equally slow."""

import re
from typing import Any, Dict, List, Optional, Sequence

#: Share of a link's bits that carry data: 128 of 130 from 8 GT/s on, 8 of 10 below 8 GT/s (PCI Express base specification).
_CODED_FROM_GT_S, _CODED, _CODED_BEFORE = 8.0, 128 / 130, 0.8


def slow(name: str, its: Dict[str, Any], gpu_pcie: Sequence[int], hcas: Sequence[str], port_gbit_s: int) -> List[str]:
    """Return a sentence for each PCIe link of node `name` that is slower than the node's shape requires.

    A virtual machine shows only what its hypervisor passes on. Virtual machines are skipped, and so are nodes that may be
    virtual.

    Args:
        name: the node.
        its: the node's inventory.
        gpu_pcie: generation and lanes of a GPU's PCIe link in the GPU's data sheet; empty if unknown.
        hcas: the rails of the shape.
        port_gbit_s: line rate of a rail, which the PCIe link of the rail's device must carry; 0 if unknown.
    """
    if its.get("virtual") is not False:
        return []
    sentences = []
    for gpu, said in sorted(its.get("gpu_limits", {}).items()):
        found = [_number(said.get(key)) for key in ("pcie_generation", "pcie_width")]
        if any(has is not None and has < should for has, should in zip(found, gpu_pcie)):
            told = ["unknown" if has is None else str(has) for has in found]
            sentences.append(
                "{}: {} has PCIe generation {} and width {}, but its data sheet has generation {} and width {}".format(
                    name, gpu, *told, *gpu_pcie
                )
            )
    for rail in hcas:
        link = its["hca"].get(rail, {}).get("pcie") or ""
        carries = gbit_s(link)
        if carries is not None and carries < port_gbit_s:
            sentences.append(
                f"{name}: rail {rail} has a PCIe link of {link}, which carries {carries:.0f} Gbit/s of the port's {port_gbit_s}"
            )
    return sentences


def gbit_s(link: str) -> Optional[float]:
    """Return the Gbit/s that a link such as "16.0 GT/s x16" carries in one direction; None for text of another form."""
    found = re.match(r"(\d+(?:\.\d+)?) GT/s x(\d+)$", link)
    if not found:
        return None
    rate, lanes = float(found.group(1)), int(found.group(2))
    return rate * lanes * (_CODED if rate >= _CODED_FROM_GT_S else _CODED_BEFORE)


def _number(said: Optional[str]) -> Optional[int]:
    return int(said) if said and said.isdigit() else None
