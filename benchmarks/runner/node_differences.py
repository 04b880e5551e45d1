"""Finds where nodes differ from each other or from their shape (GPUs, rails, link rates, MTUs, clocks), a sentence for each."""

import re
from collections import Counter
from typing import Any, Dict, List, Sequence, Tuple

from benchmarks.launch.protocol import Node

#: With clocks further apart, log lines and certificates of different nodes contradict each other.
CLOCK_LIMIT_S = 5.0
#: At most this many differences are named; a fabric that differs everywhere would fill the line.
_NAMED = 32


def differences(  # noqa: PLR0913, PLR0917 - what nodes and their shape are
    nodes: Sequence[Node],
    found: Sequence[Dict[str, Any]],
    asked_at: Sequence[Tuple[float, float]],
    hcas: Sequence[str],
    gpu: str = "",
    port_gbit_s: int = 0,
) -> List[str]:
    """Return a sentence for each way in which a node differs from the others, or from what its shape has.

    Args:
        nodes: their names.
        found: one inventory for each.
        asked_at: this machine's clock before and after each inventory.
        hcas: the rails that the shape has; empty if it is not known.
        gpu: its GPU model; empty if it is not known.
        port_gbit_s: line rate of its rails; 0 if it is not known.
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
        if others:  # newer drivers add the board to the model's name
            sentences.append("{} has {}, and its shape has {}".format(name, ", ".join(others), gpu))
        apart = max(before - its["clock"], its["clock"] - after, 0.0)
        if apart > CLOCK_LIMIT_S:
            sentences.append(f"{name}: its clock is {apart:.0f} s away from the head node's")
    for what, key, kind in (("link rate", "rate", "hca"), ("MTU", "mtu", "interfaces")):
        sentences.extend(_odd(nodes, found, what, key, kind, hcas))
    return _first(sentences, "differences")


def lost(
    nodes: Sequence[Node], before: Sequence[Dict[str, Any]], after: Sequence[Dict[str, Any]], hcas: Sequence[str]
) -> List[str]:
    """Return a sentence for each rail of a shape that was active in the inventories before a run and is not after it."""
    sentences = [
        f"{node.name}: rail {hca} was active before the run and is not any more"
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
    """Return a sentence if a rail was trained at another rate than its shape's, as all rails of all nodes may be."""
    found = re.match(r"\d+", rate)
    if not found or not port_gbit_s or int(found.group(0)) >= port_gbit_s:
        return []
    return [f"{name}: rail {hca} runs at {rate}, and the shape's rails at {port_gbit_s} Gbit/s"]


def _odd(  # noqa: PLR0913, PLR0917 - one comparison, asked twice
    nodes: Sequence[Node], found: Sequence[Dict[str, Any]], what: str, key: str, kind: str, rails: Sequence[str]
) -> List[str]:
    """Return a sentence for each device whose `key` differs from most devices of its name, or of all rails for a rail."""
    sentences = []
    values = {}  # type: Dict[str, Counter[Any]]
    for its in found:
        for name, device in its[kind].items():
            if device[key] not in (None, ""):
                values.setdefault("" if name in rails else name, Counter())[device[key]] += 1
    # Of two values that are as frequent, the least: what is said must not depend on the order of the nodes.
    usual = {name: min(seen, key=lambda value: (-seen[value], str(value))) for name, seen in values.items()}
    for node, its in zip(nodes, found):
        for name in sorted(its[kind]):
            value, group = its[kind][name][key], "" if name in rails else name
            if value not in (None, "") and values[group][usual[group]] > values[group][value]:
                sentences.append(f"{node.name}: {name} has {what} {value}, where {usual[group]} is usual")
    return sentences
