"""Outputs of a measured stack whose search found a culprit."""

from __future__ import annotations

from measurement_line import ASKED, BUILT

from benchmarks.judge.verdict import judge
from benchmarks.report import outputs, summary
from catalogue import Price

SEARCHED = {
    "needed": True,
    "culprits": [
        {
            "kind": "rail",
            "nodes": ["inst-a"],
            "rails": ["mlx5_3"],
            "ratio": 0.5,
            "flapping": False,
            "confidence": 0.9,
            "evidence": [{"nodes": ["inst-a", "inst-b"], "rails": ["mlx5_3"], "busbw_gb_s": 0.001, "why": ""}],
            "next": "ssh 10.0.1.2 'cat state'",
        }
    ],
    "healthy_gb_s": 0.049,
    "rounds": 6,
    "trials": 20,
    "complete": True,
    "failed": None,
    "summary": "rail 3 of node 0 is slow",
    "pairs": [[0, 1, 0.02]],
    "seconds": 9.5,
}


def whole(text: str, searched: dict | None = None) -> dict:
    judged = judge(text, ASKED)
    return {
        "schema": outputs.SCHEMA,
        "target": "oci",
        "expected": outputs.expected(ASKED, Price(24.0, "a test")),
        "measured": outputs.measured(judged, ASKED, BUILT, searched or {"needed": False}, 0),
        "nodes": [{"name": name, "address": "10.0.1.2", "pool": "gpu"} for name in ("inst-a", "inst-b")],
        "ssh": "ssh opc@10.0.1.2",
        "known_hosts": "10.0.1.2 ssh-ed25519 AAAA",
        "readme": summary.page(judged, searched or {}, "ssh opc@10.0.1.2", []),
    }
