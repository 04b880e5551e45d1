"""Draws report pages of made-up measurements, for a person to look at.

    PYTHONPATH=. .busbar/venv/bin/python tests/report_pages.py FOLDER

The verdicts are pass, short and unknown, on 2, 8 and 64 nodes. Nothing on these pages was measured.
docs/report.md lists what to look for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from measurement_line import BUILT, GPU4, a_plan, document, place

from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.records import requests
from benchmarks.records.requests import Keeping
from benchmarks.report import outputs, web_page
from catalogue import Price
from config.records import Records

_ALL = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv", "broadcast", "reduce", "gather", "scatter")
#: For each page: the number of nodes, the share of the ceiling that was reached (None: nothing was measured), and whether a
#: search blamed the last node.
PAGES = {
    "pass-2": (2, 0.98, False),
    "pass-64": (64, 0.98, False),
    "short-2": (2, 0.5, True),
    "short-8": (8, 0.5, True),
    "short-64": (64, 0.5, True),
    "unknown-2": (2, None, False),
    "unknown-64": (64, 0.98, False),
}


def searched(nodes: int) -> dict[str, Any]:
    """Return a search that names the last node: one of its rails, or the whole node if there are more than 8 nodes."""
    bad = nodes - 1
    pairs = [
        [one, other, 96.0 if other == bad else 188 + (7 * one + 3 * other) % 5]
        for one in range(nodes)
        for other in range(one + 1, nodes)
        if nodes <= 8 or other == one + 1 or (7 * one + 13 * other) % 9 == 0
    ]
    hcas = GPU4.rdma.hca if GPU4.rdma else ()
    tried = [
        {"nodes": ["inst-0", f"inst-{bad}"], "rails": [hca], "busbw_gb_s": 6.1 if rail == 3 else 12.3, "why": ""}
        for rail, hca in enumerate(hcas)
    ]
    found: dict[str, Any] = {"kind": "rail", "nodes": [f"inst-{bad}"], "rails": [hcas[3]], "evidence": tried}
    if nodes > 8:
        tried = [{"nodes": [f"inst-{one}", f"inst-{bad}"], "rails": [], "busbw_gb_s": 96.5, "why": ""} for one in (3, 9, 40)]
        found = {"kind": "node", "nodes": [f"inst-{bad}"], "rails": [], "evidence": tried}
    found |= {"ratio": 0.5, "flapping": False, "confidence": 0.9, "next": f"ssh 10.0.1.{bad + 2} 'ibv_devinfo -v'"}
    known = {"needed": True, "culprits": [found], "complete": True, "failed": None, "summary": "", "pairs": pairs}
    return known | {"healthy_gb_s": 190.0, "rounds": 6, "trials": 20, "seconds": 9.5}


def page(name: str) -> dict[str, Any]:
    """Return the data that the page of that name is drawn from."""
    nodes, share, is_searched = PAGES[name]
    asked = Asked(a_plan(8, 8 << 30, collectives=_ALL), GPU4, nodes, pool="gpu")
    text = "" if share is None else json.dumps(document(asked, share, 1) | ({"transport": None} if "unknown" in name else {}))
    judged = judge(text, asked)
    record = outputs.measured(judged, asked, BUILT, searched(nodes) if is_searched else {}, 0)
    flat = outputs.flat(outputs.expected(asked, Price(24.4, "a made-up price")), record)
    kept = requests.keep(
        judged, asked, Keeping("oci", Records(history=None)), "", place(asked), flat, "organization/busbar/made-up"
    )
    found: dict[str, Any] = json.loads(kept)["outputs"]
    return found


if __name__ == "__main__":
    for each in PAGES:
        web_page.write(page(each), Path(sys.argv[1]) / each)
