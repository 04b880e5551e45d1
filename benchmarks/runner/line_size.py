"""Keep a measurement's line below its limit at any number of nodes: what is bulk goes to the evidence, named by its sha256."""

import hashlib
import json
from typing import Any, Dict

from benchmarks.runner import jobs

#: Groups whose number stays in the line where there are too many: the slowest ones.
_GROUPS_KEPT = 16


def bulk(line: Dict[str, Any]) -> str:
    """Return the part of the evidence that holds what a line may have to leave out, as one JSON document."""
    groups = {step["name"]: step["groups_gb_s"] for step in line["steps"] if step.get("groups_gb_s")}
    return json.dumps({"machines": line["machines"], "groups_gb_s": groups}, sort_keys=True) + "\n"


def fitting(line: Dict[str, Any]) -> Dict[str, Any]:
    """Return the line, with less of what the evidence holds as well where it would be too long."""
    for shorten in (_without_machines, _slowest_groups, _worst_node):
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
    return dict(step, groups_gb_s={"count": len(found), "slowest": listed, "most": max(found)})


def _worst_node(line: Dict[str, Any]) -> Dict[str, Any]:
    """Keep the bytes of the one node that sent least; they are ordered so."""
    sent = line["transport"]["tx_bytes"]
    return dict(line, transport=dict(line["transport"], tx_bytes=dict(list(sent.items())[:1])))
