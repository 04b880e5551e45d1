"""Shortens the JSON line that reports a measurement, so that it stays below the size limit for any number of nodes."""

import hashlib
import json
from statistics import median
from typing import Any, Dict, Sequence

from benchmarks.runner import jobs, traffic

#: How many of the slowest groups stay in a line that is too long.
_GROUPS_KEPT = 16
#: How many nodes' byte counts stay in a line that is too long: the node that sent least, and the node whose rails sent least
#: evenly.
_NODES_KEPT = 2


def bulk(machines: Dict[str, str], steps: Sequence[Dict[str, Any]]) -> str:
    """Return the parts that a line may leave out, as one JSON document for the evidence."""
    groups = {step["name"]: step["groups_gb_s"] for step in steps if step.get("groups_gb_s")}
    return json.dumps({"machines": machines, "groups_gb_s": groups}, sort_keys=True) + "\n"


def fitting(line: Dict[str, Any], rails: Sequence[str]) -> Dict[str, Any]:
    """Return the line, shortened only if it is too long.

    First, the parts that are also in the evidence are left out. If the line is still too long, the byte counts of most
    nodes are left out, too; those of the worst nodes stay.
    """
    for shorten in (_without_machines, _slowest_groups, lambda long: _worst_nodes(long, rails)):
        if len(json.dumps(line).encode()) <= jobs.LINE_LIMIT_BYTES:
            return line
        line = shorten(line)
    return line


def _without_machines(line: Dict[str, Any]) -> Dict[str, Any]:
    named = json.dumps(line["machines"], sort_keys=True).encode()
    return dict(line, machines={"sha256": hashlib.sha256(named).hexdigest(), "count": len(line["machines"])})


def _slowest_groups(line: Dict[str, Any]) -> Dict[str, Any]:
    return dict(line, steps=[_with_slowest(step) for step in line["steps"]])


def _with_slowest(step: Dict[str, Any]) -> Dict[str, Any]:
    found = step.get("groups_gb_s")
    if not isinstance(found, list) or len(found) <= _GROUPS_KEPT:
        return step
    slowest = sorted(enumerate(found), key=lambda one: one[1])[:_GROUPS_KEPT]
    listed = [[index, value] for index, value in slowest]
    middle = median(found)
    mad = median(abs(value - middle) for value in found)
    kept = {"count": len(found), "slowest": listed, "most": max(found), "middle": middle, "mad": mad}
    return dict(step, groups_gb_s=kept)


def _worst_nodes(line: Dict[str, Any], rails: Sequence[str]) -> Dict[str, Any]:
    moved = line["transport"]
    kept = traffic.worst(moved["tx_bytes"], list(rails) or moved["hcas"], _NODES_KEPT)
    return dict(line, transport=dict(moved, tx_bytes=kept))
