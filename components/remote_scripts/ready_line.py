"""The JSON line that first contact prints when all machines, or all pods, are ready."""

import json
from typing import Any, Dict, List

#: The line lists at most this many kinds of machine; for each kind it has the names of all nodes.
_GROUPS = 16


def ready_line(host_key: str, nodes: List[str], facts: List[Dict[str, Any]]) -> str:
    """Return the line: the head node's host key, and the names of `nodes` grouped by equal facts.

    `facts` has what each node reported, in the order of `nodes`; {} for a node that was not asked.
    """
    groups = []  # type: List[Dict[str, Any]]
    for name, its in zip(nodes, facts):
        same = [group for group in groups if group["facts"] == its]
        if not same and len(groups) < _GROUPS:
            groups.append({"facts": its, "nodes": []})
            same = groups[-1:]
        if same:
            same[0]["nodes"].append(name)
    known = [its for its in facts if its]
    found = {
        "schema": 2,
        "kind": "ready",
        "host_key": host_key,
        "count": len(nodes),
        "groups": groups,
        "fronts": sorted({its["front"] for its in known}),
        "networks": sorted({its["network"] for its in known}),
    }
    return json.dumps(found, sort_keys=True)
