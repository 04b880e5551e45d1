"""What other teams read: stack outputs of version 1, and the page and table that a person reads.

It deliberately computes nothing new: every number was measured or judged elsewhere. Schema: docs/outputs.schema.json.
"""

from __future__ import annotations

from typing import Any

from benchmarks import ceiling
from benchmarks.verdict import Asked, Judgement

SCHEMA = 1
#: Outputs that come of one measurement, in the order in which a page shows them.
MEASURED = (
    "busbw_gbps",
    "peak_busbw_gbps",
    "latency_us",
    "verdict",
    "reasons",
    "gate",
    "wire_efficiency",
    "results",
    "transport",
    "versions",
    "evidence",
    "rehearsed",
    "scale",
)


def measured(judged: Judgement, versions: dict[str, Any]) -> dict[str, Any]:
    """Return the outputs that one judged measurement gives; `versions` are those that the build knows."""
    line = judged.line
    found = {name: value for name, value in _mapping(line.get("versions")).items() if value is not None}
    efficiency = None
    if judged.busbw_gbps is not None and judged.ceiling_gbps:
        efficiency = round(judged.busbw_gbps / judged.ceiling_gbps, 4)
    return {
        "busbw_gbps": judged.busbw_gbps,
        "peak_busbw_gbps": judged.peak_busbw_gbps,
        "latency_us": judged.latency_us,
        "verdict": judged.verdict,
        "reasons": list(judged.reasons),
        "gate": {
            "collective": judged.gate.collective,
            "size_bytes": judged.gate.size_bytes,
            "limit_gbps": judged.gate.limit_gbps,
            "why": judged.gate.why,
        },
        "wire_efficiency": efficiency,
        "results": {judged.gate.collective: list(judged.rows)},
        "transport": _mapping(line.get("transport")),
        "versions": versions | found,
        "evidence": _mapping(line.get("evidence")),
        "rehearsed": judged.scale != 1,
        "scale": judged.scale,
    }


def expectation(asked: Asked, why: str, limit_gbps: float | None) -> str:
    """Return what a preview shows: what a good run looks like, before anything is rented."""
    predicted = ceiling.predicted_gbps(asked.shape, asked.nodes)
    ring = ceiling.ring_gbps(asked.shape, asked.nodes)
    if predicted is None or ring is None:
        return f"{asked.nodes} x {asked.shape.name}: nothing can be predicted"
    gate = f"the gate asks for {limit_gbps:.4g} GB/s: {why}" if limit_gbps is not None else f"there is no gate: {why}"
    return (
        f"{asked.nodes} x {asked.shape.name}: {asked.plan.collective} on a healthy fabric gives about {predicted:.4g} GB/s of "
        f"bus bandwidth (the wire allows {ring:.4g}); {gate}"
    )


def table(judged: Judgement) -> str:
    """Return sizes, times, bandwidths and the verdict as a person reads them."""
    unit = "GB/s" if judged.scale == 1 else f"GB/s, rehearsed at 1/{judged.scale}"
    lines = [f"{'size':>12}  {'time us':>12}  {'algbw':>9}  {'busbw':>9}  {'wrong':>6}   ({unit}, out of place)"]
    for row in judged.rows:
        timing = row["out_of_place"]
        wrong = "-" if timing.get("wrong") is None else f"{timing['wrong']:.0f}"
        lines.append(
            f"{_size(row['size_bytes']):>12}  {timing['time_us']:>12.1f}  {timing['algbw_gbps']:>9.5g}  "
            f"{timing['busbw_gbps']:>9.5g}  {wrong:>6}"
        )
    lines.append(sentence(judged))
    lines.extend(f"  - {reason}" for reason in judged.reasons)
    return "\n".join(lines)


def sentence(judged: Judgement) -> str:
    """Return the verdict in one line."""
    if judged.busbw_gbps is None:
        return f"verdict {judged.verdict.upper()}: no bus bandwidth was measured"
    share = f", {judged.busbw_gbps / judged.ceiling_gbps:.1%} of the wire" if judged.ceiling_gbps else ""
    limit = "no gate" if judged.gate.limit_gbps is None else f"gate {judged.gate.limit_gbps:.4g}"
    rehearsed = f" (rehearsed at 1/{judged.scale})" if judged.scale != 1 else ""
    return (
        f"verdict {judged.verdict.upper()}: {judged.gate.collective} busbw {judged.busbw_gbps:.4g} GB/s at "
        f"{_size(judged.gate.size_bytes)}{share}; {limit}{rehearsed}"
    )


def page(judged: Judgement, ssh: str) -> str:
    """Return the stack's page (Markdown)."""
    return f"# {sentence(judged)}\n\n```\n{table(judged)}\n```\n\nA shell on the head: `{ssh}`\n\nGate: {judged.gate.why}.\n"


def _size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
