"""Makes the stack outputs, which other stacks read, in version 1 of their schema (docs/outputs.schema.json)."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from benchmarks.judge.checks import PASS, UNKNOWN, Check
from benchmarks.plan import ceiling
from benchmarks.plan.gate import gate
from catalogue import PRICES

if TYPE_CHECKING:
    from benchmarks.judge.verdict import Judgement
    from benchmarks.launch.protocol import BuildLine
    from benchmarks.plan.asked import Asked
    from catalogue import Price

SCHEMA = 1
#: The record when nothing was measured. Each record has every field, because it replaces the previous record completely.
_NOTHING: dict[str, Any] = {
    "pool": None,
    "run": None,
    "measured_at": None,
    "asked": None,
    "attempt": 0,
    "refused": False,
    "verdict": UNKNOWN,
    "reasons": [],
    "busbw_gb_s": None,
    "peak_busbw_gb_s": None,
    "latency_us": None,
    "ceiling_gb_s": None,
    "wire_efficiency": None,
    "gate": None,
    "checks": [],
    "intermittent": False,
    "looks": None,
    "search": None,
    "results": {},
    "transport": None,
    "versions": {},
    "evidence": None,
    "rehearsed": False,
    "scale": 1,
    "certificate": None,
    "report": None,
}


def nothing_measured(pool: str, why: str) -> dict[str, Any]:
    """Return the record for `pool` when nothing was measured, for the reason `why`."""
    return _NOTHING | {"pool": pool, "reasons": [why]}


def flat(expected: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    """Return expected and measured values in one mapping, as the report page reads them."""
    return record | {"shape": expected["shape"], "predicted_results": expected["curve"], "cost": expected["cost"]}


def measured(judged: Judgement, asked: Asked, built: BuildLine, searched: dict[str, Any], attempt: int) -> dict[str, Any]:
    """Return the record of one judged measurement; `built` and `searched` are the lines of the build and search stages.

    `attempt` is the number of earlier attempts that were refused.
    """
    line = judged.line
    efficiency = None
    if judged.busbw_gb_s is not None and judged.ceiling_gb_s:
        efficiency = round(judged.busbw_gb_s / judged.ceiling_gb_s, 4)
    return _NOTHING | {
        "pool": asked.pool,
        "run": _text(line.get("run_id")),
        "measured_at": _text(line.get("started")),
        "asked": asked.digest(),
        "attempt": attempt,
        "refused": was_refused(judged, searched),
        "verdict": judged.verdict,
        "reasons": reasons(judged, searched),
        "busbw_gb_s": judged.busbw_gb_s,
        "peak_busbw_gb_s": judged.peak_busbw_gb_s,
        "latency_us": judged.latency_us,
        "ceiling_gb_s": judged.ceiling_gb_s,
        "wire_efficiency": efficiency,
        "gate": asdict(judged.gate) | {"notes": list(judged.gate.notes)},
        "checks": [{"name": one.name, "state": one.state, "why": list(one.why)} for one in judged.checks],
        "intermittent": judged.looks is not None and judged.looks.is_intermittent,
        "looks": _looks(judged),
        "search": _search(searched),
        "results": {name: list(rows) for name, rows in judged.rows.items()},
        "transport": _transport(judged),
        "versions": versions(line, built),
        "evidence": _evidence(line, searched),
        "rehearsed": judged.scale != 1,
        "scale": judged.scale,
    }


def was_refused(judged: Judgement, searched: dict[str, Any]) -> bool:
    """Tell whether the head node refused to measure or to search, so that the next update tries again."""
    return bool(judged.line.get("failed") or searched.get("refused"))


def expected(asked: Asked, own_price: Price | None) -> dict[str, Any]:
    """Return what is known before any measurement; `own_price` replaces the catalogue's list price.

    All numbers are for real hardware.
    """
    bound = gate(asked.plan, asked.shape, asked.nodes, minimum_gb_s=asked.accept.gate_gb_s)
    return {
        "pool": asked.pool,
        "asked": asked.digest(),
        "shape": asked.shape.name,
        "nodes": asked.nodes,
        "busbw_gb_s": ceiling.predicted_gb_s(asked.shape, asked.nodes, asked.plan.collective),
        "curve": predicted(asked),
        "gate": asdict(bound) | {"notes": list(bound.notes)},
        "cost": cost(asked, own_price),
    }


def predicted(asked: Asked, scale: int = 1) -> list[dict[str, float]]:
    """Return what a healthy fabric reaches: busbw (GB/s) of the deciding collective by size (bytes).

    `scale` is a rehearsal's scale. At scale 4000, a message counts as 4000 times larger, and busbw is divided by 4000.
    """
    sizes = tuple(size * scale for size in asked.plan.sizes_bytes)
    curve = ceiling.predicted_curve(asked.shape, asked.nodes, sizes, asked.plan.collective)
    return [{"size_bytes": size // scale, "busbw_gb_s": float(f"{rate / scale:.4g}")} for size, rate in curve.items()]


def cost(asked: Asked, own_price: Price | None) -> dict[str, Any] | None:
    """Return the cost of the nodes in USD per hour, also per GB/s of predicted busbw; None if no price is known."""
    price = own_price or PRICES.get(asked.shape.name)
    if price is None:
        return None
    an_hour = asked.nodes * price.usd_per_node_hour
    busbw_gb_s = ceiling.predicted_gb_s(asked.shape, asked.nodes, asked.plan.collective)
    return {
        "usd_per_hour": an_hour,
        "usd_per_hour_per_gb_s": None if not busbw_gb_s else float(f"{an_hour / busbw_gb_s:.4g}"),
        "source": price.source,
    }


def versions(line: dict[str, Any], built: BuildLine) -> dict[str, str]:
    """Return versions by name, as the build and the measurement `line` found them."""
    return _texts(built.versions) | _texts(line.get("versions"))


def _texts(found: Any) -> dict[str, str]:
    return {str(name): str(value) for name, value in _mapping(found).items() if value}


def reasons(judged: Judgement, searched: dict[str, Any]) -> list[str]:
    """Return why the verdict is not `pass`, including what the search found; empty for a pass."""
    if judged.verdict == PASS:
        return []
    found = [culprit_sentence(culprit) for culprit in culprits(searched)]
    if searched.get("needed") and not found:
        found = [str(searched.get("failed") or searched.get("summary") or "the search returned no result")]
    return [*judged.reasons, *found]


def tried_pairs(search: dict[str, Any]) -> list[tuple[int, int, float]]:
    """Return the pairs that a search measured: node indices, lower first, and busbw (GB/s; 0.0 for a pair without a number)."""
    whole = [pair for pair in search.get("pairs") or [] if len(pair) == 3]  # noqa: PLR2004 - two nodes and a number
    return [(min(one, other), max(one, other), float(busbw_gb_s or 0)) for one, other, busbw_gb_s in whole]


def culprits(searched: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the culprits that a search found."""
    named = searched.get("culprits")
    return [culprit for culprit in named if isinstance(culprit, dict)] if isinstance(named, list) else []


def culprit_name(culprit: dict[str, Any]) -> str:
    """Return a culprit's name, such as `rail mlx5_3 of node gpu-2`."""
    nodes, rails = " and ".join(culprit.get("nodes", [])), ", ".join(culprit.get("rails", []))
    rail = "rails" if len(culprit.get("rails", [])) > 1 else "rail"  # the search tries all rails of a GPU together
    return {
        "node": f"node {nodes}",
        "link": f"the link between {nodes}{f' on {rails}' if rails else ''}",
        "rail": f"{rail} {rails} of node {nodes}",
        "rail_plane": f"{rail} {rails} of all nodes",
        "group": f"the group of {nodes}",
        "between": f"the links that pairs of the nodes {nodes} share",
    }.get(str(culprit.get("kind")), f"{culprit.get('kind')} {nodes}")


def culprit_sentence(culprit: dict[str, Any]) -> str:
    """Return one culprit as a sentence: what it is, its evidence, and the next command to type."""
    return f"{culprit_finding(culprit)}; next, on the head node: {culprit.get('next')}"


def culprit_finding(culprit: dict[str, Any]) -> str:
    """Return what a culprit is and its evidence."""
    nodes, rails = ", ".join(culprit.get("nodes", [])), ", ".join(culprit.get("rails", []))
    together = len(culprit.get("rails", [])) > 1  # the search tries all rails of a GPU together
    rail, is_slow = ("rails", "are slow") if together else ("rail", "is slow")
    what = {
        "node": f"node {nodes} is slow with every partner",
        "link": f"the link between {nodes} is slow{f' on {rails}' if rails else ''}",
        "rail": f"{rail} {rails} of node {nodes} {is_slow}{' together' if together else ''}; not all its rails are slow",
        "rail_plane": f"{rail} {rails} {is_slow} on all nodes",
        "group": f"{nodes} {_slow_as_group(culprit)}",
        "between": f"pairs of {nodes} are slow when many pairs run at once and fine when few pairs do: the links between leaf "
        "switches that these pairs share are overloaded or unevenly used (spine, ECMP), and no node is to blame",
    }.get(str(culprit.get("kind")), f"{culprit.get('kind')} {nodes}")
    numbers = [
        f"{' - '.join(one['nodes'])}{' on ' + ', '.join(one['rails']) if one['rails'] else ''} "
        + (f"{one['busbw_gb_s']:.4g} GB/s" if one["busbw_gb_s"] is not None else f"no number ({one['why']})")
        for one in culprit.get("evidence", [])
    ]
    flapping = ", at times" if culprit.get("flapping") else ""
    return f"{what} ({culprit.get('ratio', 0):.0%} of healthy{flapping}; {'; '.join(numbers)})"


def _slow_as_group(culprit: dict[str, Any]) -> str:
    """Return in which way the nodes of a group are slow.

    If the search has shortened a long list of nodes, the evidence does not show whether slow pairs are inside the group. Then
    the result says only that the nodes are slow as a group.
    """
    nodes, tried = set(culprit.get("nodes", [])), [set(one["nodes"]) for one in culprit.get("evidence", [])]
    if culprit.get("flapping"):
        return "are slow in pairs that change from trial to trial"
    if any(str(name).startswith("...") for name in nodes) or not tried:
        return "are slow as a group"
    if any(len(one) > 2 for one in tried):  # noqa: PLR2004 - not a pair
        return "are slow together, and no smaller group of these nodes is slow"
    return (
        "are slow in every pair"
        if all(one <= nodes for one in tried)
        else "are slow with other nodes, and fine with each other"
    )


def _looks(judged: Judgement) -> dict[str, Any] | None:
    """Return how many looks were slow: of all looks, and of the looks at each place of the plan, such as its end."""
    seen = judged.looks
    if seen is None:
        return None
    places = {one.name: {"slow": one.slow, "of": len(one.gb_s)} for one in seen.places}
    return {"slow": seen.slow, "of": seen.of, "places": places}


def _search(searched: dict[str, Any]) -> dict[str, Any] | None:
    if not searched.get("needed"):
        return None
    return {
        "culprits": culprits(searched),
        "complete": bool(searched.get("complete")),
        "summary": searched.get("failed") or searched.get("summary"),
        **{name: searched.get(name) for name in ("healthy_gb_s", "rounds", "trials", "seconds", "pairs")},
    }


def _transport(judged: Judgement) -> dict[str, Any]:
    found = _mapping(judged.line.get("transport"))
    check = next((one for one in judged.checks if one.name == "transport"), Check("transport", "unknown", ()))
    return {"state": check.state, "proof": list(check.why), **found}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _evidence(line: dict[str, Any], searched: dict[str, Any]) -> dict[str, Any] | None:
    """Return where the transcript that decided and the other transcripts are on the head node.

    `copy` has no value yet, because the transcript is copied later. If there were two measurements, only one decides. The other
    is the first measurement, or a retest that did not count.
    """
    found = _mapping(line.get("evidence"))
    if not found:
        return None
    known = {"first": _mapping(line.get("first_evidence")), "retest": _mapping(_mapping(searched.get("again")).get("evidence"))}
    others = [{"of": which, **one} for which, one in known.items() if one and one != found]
    return found | {"copy": None, "others": others}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
