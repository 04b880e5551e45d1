"""Describes what a search found, in one sentence."""

from typing import Tuple

from benchmarks.search.causes import Reading
from benchmarks.search.trials import PAIR, Culprit


def summary(culprits: Tuple[Culprit, ...], suspects: Tuple[Tuple[int, ...], ...], reading: Reading, trials: int) -> str:
    """Return a sentence about what the search found in `trials` trials."""
    if culprits:
        more = "" if len(culprits) == 1 else f", and {len(culprits) - 1} more"
        return f"{_sentence(culprits[0])}{more}"
    if suspects:
        listed = ", ".join(f"{nodes[0]} to {nodes[-1]}" for nodes in suspects[:8])
        return f"no cause is proven; these groups of nodes were slow at least once: {listed}"
    if not trials:
        return "no trial has run yet"
    if reading.healthy:
        return f"nothing is slow in {trials} trials; a healthy pair reaches {reading.healthy:.4g} GB/s"
    return f"no pair returned a number in {trials} trials"


def _sentence(one: Culprit) -> str:
    how = "{}slow ({:.0%} of healthy)".format("at times " if one.flapping else "", one.ratio)
    if not one.ratio:
        how = "dead at times" if one.flapping else "dead"
    rails = "on rail {}".format(", ".join(str(rail) for rail in one.rails)) if one.rails else "on all rails"
    if one.kind == "node":
        return f"node {one.nodes[0]} is {how} with every partner"
    if one.kind == "rail":
        return f"rail {one.rails[0]} of node {one.nodes[0]} is {how}"
    if one.kind == "link":
        return f"the link between nodes {one.nodes[0]} and {one.nodes[1]} is {how} {rails}"
    if one.kind == "rail_plane":
        return f"rail {one.rails[0]} is {how} between all nodes"
    if one.kind == "between":
        return (
            f"pairs among these {len(one.nodes)} nodes are {how} while many pairs run at once, and fine while few pairs run, "
            "so no node is to blame"
        )
    return f"{len(one.nodes)} nodes ({one.nodes[0]} to {one.nodes[-1]}) are {how} {_as_group(one)}"


def _as_group(one: Culprit) -> str:
    tried = [set(sample.trial.nodes) for sample in one.evidence]
    if one.flapping:
        return "in pairs that change from trial to trial"
    if any(len(nodes) > PAIR for nodes in tried):
        return "when they run together"
    return "in every pair" if all(nodes <= set(one.nodes) for nodes in tried) else "with other nodes, and fine with each other"
