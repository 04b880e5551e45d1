"""Finds how nodes differ from each other or from their shape, and returns a sentence for each difference.

The module compares GPUs, their power and clock limits, rails, link rates, PCIe links, MTUs and the machines' clocks.
"""

import re
from collections import Counter
from typing import Any, Collection, Dict, List, Sequence, Tuple

from benchmarks.launch.protocol import Node
from benchmarks.runner import pcie_links

#: A node's clock may differ from the head node's by this much; beyond that, times in logs and certificates of different nodes
#: contradict each other.
CLOCK_LIMIT_S = 5.0
#: At most this many differences are listed; a fabric that differs everywhere would fill the line.
_NAMED = 32
#: Properties in which devices of one kind must agree: name in messages, key of the property, key of the kind in an inventory.
_COMPARED = (
    ("link rate", "rate", "hca"),
    ("PCIe link", "pcie", "hca"),
    ("MTU", "mtu", "interfaces"),
    ("power limit (W)", "power_limit_w", "gpu_limits"),
    ("clock limit (MHz)", "clock_limit_mhz", "gpu_limits"),
    ("PCIe width", "pcie_width", "gpu_limits"),
    ("PCIe generation", "pcie_generation", "gpu_limits"),
)


def differences(  # noqa: PLR0913, PLR0917 - properties of nodes and their shape
    nodes: Sequence[Node],
    found: Sequence[Dict[str, Any]],
    asked_at: Sequence[Tuple[float, float]],
    hcas: Sequence[str],
    gpu: str = "",
    port_gbit_s: int = 0,
    gpu_pcie: Sequence[int] = (),
) -> List[str]:
    """Return a sentence for each way in which a node differs from the other nodes or from its shape.

    Args:
        nodes: the nodes.
        found: one inventory for each node.
        asked_at: for each node, two times on this machine's clock; the node's inventory was taken between these times.
        hcas: the rails of the shape; empty if unknown.
        gpu: the GPU model of the shape; empty if unknown.
        port_gbit_s: line rate of the shape's rails; 0 if unknown.
        gpu_pcie: generation and lanes of a GPU's PCIe link in the GPU's data sheet; empty if unknown.
    """
    sentences = []  # type: List[str]
    for node, its, (before, after) in zip(nodes, found, asked_at):
        name = node.name
        for hca in hcas:
            if hca not in its["hca"]:
                sentences.append(f"{name} has no RDMA device {hca}")
            elif not its["hca"][hca]["active"]:
                sentences.append(f"{name}: rail {hca} is not active")
            else:
                sentences.extend(_slow(name, hca, its["hca"][hca]["rate"], port_gbit_s))
        others = sorted({one for one in its.get("gpus", ()) if gpu and one != gpu and not one.startswith(gpu + " SXM")})
        if others:  # a form factor such as SXM, which newer drivers append to the model's name, is no difference
            sentences.append("{} has {}, but its shape has {}".format(name, ", ".join(others), gpu))
        sentences.extend(pcie_links.slow(name, its, gpu_pcie, hcas, port_gbit_s))
        apart = max(before - its["clock"], its["clock"] - after, 0.0)
        if apart > CLOCK_LIMIT_S:
            sentences.append(f"{name}: its clock differs by {apart:.0f} s from the head node's")
    for what, key, kind in _COMPARED:
        # All GPUs of all nodes are compared with each other, and so are all rails.
        alike = {name for its in found for name in its.get(kind, {})} if kind == "gpu_limits" else hcas
        sentences.extend(_odd(nodes, found, what, key, kind, alike))
    return _first(sentences, "differences")


def lost(
    nodes: Sequence[Node], before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]], hcas: Sequence[str]
) -> List[str]:
    """Return a sentence for each rail of the shape that was active before a run and is not active after it."""
    sentences = [
        f"{node.name}: rail {hca} was active before the run and is not active any more"
        for node, had, has in zip(nodes, before, after)
        for hca in hcas
        if had["hca"].get(hca, {}).get("active") and not has["hca"].get(hca, {}).get("active")
    ]
    return _first(sentences, "rails")


def _first(sentences: List[str], what: str) -> List[str]:
    """Return the sentences that fit into the line, and how many more of `what` there are."""
    more = len(sentences) - _NAMED
    return [*sentences[:_NAMED], f"and {more} more {what}"] if more > 0 else sentences


def _slow(name: str, hca: str, rate: str, port_gbit_s: int) -> List[str]:
    """Return a sentence if a rail is slower than its shape says, which a comparison of nodes misses if all rails are slow."""
    found = re.match(r"\d+", rate)
    if not found or not port_gbit_s or int(found.group(0)) >= port_gbit_s:
        return []
    return [f"{name}: rail {hca} runs at {rate}, but the shape's rails run at {port_gbit_s} Gbit/s"]


def _odd(  # noqa: PLR0913, PLR0917 - one comparison, made for each of _COMPARED
    nodes: Sequence[Node], found: Sequence[Dict[str, Any]], what: str, key: str, kind: str, alike: Collection[str]
) -> List[str]:
    """Return a sentence for each device whose `key` differs from the most frequent value among devices of the same name.

    All devices in `alike` are compared as if they had the same name. Two values may be equally frequent, for instance with two
    nodes; then a difference is reported, too.
    """
    sentences = []
    values = {}  # type: Dict[str, Counter[Any]]
    for its in found:
        for name, device in its.get(kind, {}).items():
            if device.get(key) not in (None, ""):
                values.setdefault("" if name in alike else name, Counter())[device[key]] += 1
    # Of equally frequent values, the first in alphabetical order is used: sentences must not depend on the order of the nodes.
    usual = {name: min(seen, key=lambda value: (-seen[value], str(value))) for name, seen in values.items()}
    for node, its in zip(nodes, found):
        for name in sorted(its.get(kind, {})):
            value, group = its[kind][name].get(key), "" if name in alike else name
            if value in (None, "") or value == usual[group]:
                continue
            often = "usual" if values[group][usual[group]] > values[group][value] else "as frequent"
            sentences.append(f"{node.name}: {name} has {what} {value}, but {usual[group]} is {often}")
    return sentences
