"""The judgement: a pure function from one measurement line to pass, short or unknown, with its reasons.

It deliberately never passes on missing data, and never looks at anything but the line and what was asked for.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import ceiling
from benchmarks.gate import Gate, gate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.plan import Plan
    from catalogue import Shape

#: Version of the line that a runner prints.
LINE_SCHEMA = 1
#: busbw / algbw must name the rank count; both are printed with six decimals, so large sizes resolve it well below this.
_RATIO_TOLERANCE = 0.01
PASS, SHORT, UNKNOWN = "pass", "short", "unknown"


@dataclass(frozen=True)
class Asked:
    """What was asked for: the plan on `nodes` nodes of `shape`, and the user's own limit if there is one (GB/s, unscaled)."""

    plan: Plan
    shape: Shape
    nodes: int
    minimum_gbps: float | None = None


@dataclass(frozen=True)
class Judgement:
    """What a measurement means.

    Attributes:
        verdict: pass, short or unknown.
        reasons: sentences; empty only for a pass.
        gate: the limit that was applied.
        busbw_gbps: out-of-place busbw at the gate's size, None where it was not measured.
        peak_busbw_gbps: highest out-of-place busbw.
        latency_us: time at the smallest size, out of place.
        ceiling_gbps: ring ceiling, scaled where rehearsed.
        scale: divisor of line rates that the run stated, 1 on real hardware.
        rows: the rows whose every number is one.
        line: the measurement itself, as read; nothing else in it has been checked.
    """

    verdict: str
    reasons: tuple[str, ...]
    gate: Gate
    busbw_gbps: float | None
    peak_busbw_gbps: float | None
    latency_us: float | None
    ceiling_gbps: float | None
    scale: int
    rows: tuple[dict[str, Any], ...]
    line: dict[str, Any]


class LineError(ValueError):
    """A line that is not a measurement; the message says why."""


def read_line(text: str) -> dict[str, Any]:
    """Return the measurement that the last JSON line of `text` holds.

    Raises:
        LineError: there is none, or it is of another kind or version.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        msg = "the runner printed nothing"
        raise LineError(msg)
    try:
        line = json.loads(lines[-1])
    except ValueError as error:
        msg = f"the runner's line is not JSON: {error}"
        raise LineError(msg) from None
    if not isinstance(line, dict) or line.get("kind") != "measure" or line.get("schema") != LINE_SCHEMA:
        msg = f"the runner's line is not a measurement of version {LINE_SCHEMA}"
        raise LineError(msg)
    return line


def judge(text: str, asked: Asked) -> Judgement:
    """Judge the runner's output `text` against what was `asked`; never raises on content."""
    try:
        line = read_line(text)
    except LineError as error:
        return _judgement(UNKNOWN, [str(error)], asked, {})
    reasons = list(_unreadable(line, asked))
    if reasons:
        return _judgement(UNKNOWN, reasons, asked, line)
    wrong = sum(_wrong(row) for row in line["results"])
    if wrong:
        return _judgement(SHORT, [f"{wrong} elements arrived with wrong values"], asked, line)
    bound = _gate(asked, line)
    if bound.limit_gbps is None:
        return _judgement(UNKNOWN, [f"there is no gate: {bound.why}"], asked, line)
    measured = _busbw(line["results"][-1])
    if measured < bound.limit_gbps:
        reason = (
            f"{asked.plan.collective} reached {measured:.4g} GB/s at {bound.size_bytes} B; "
            f"the gate asks for {bound.limit_gbps:.4g} GB/s: {bound.why}"
        )
        return _judgement(SHORT, [reason, *_suspects(line)], asked, line)
    return _judgement(PASS, [], asked, line)


def _unreadable(line: dict[str, Any], asked: Asked) -> Iterable[str]:
    """Yield every reason for which the line proves nothing."""
    problems = line.get("problems")
    yield from (str(problem) for problem in problems if problem) if isinstance(problems, list) else ("no list of problems",)
    results = line.get("results")
    if not isinstance(results, list) or not results:
        yield "no row was measured"
        return
    rows = _whole_rows(line)
    if len(rows) != len(results):
        yield f"{len(results) - len(rows)} of {len(results)} rows lack their out-of-place numbers or hold no measurement"
        return
    sizes = [row["size_bytes"] for row in rows]
    if line.get("collective") != asked.plan.collective:
        yield f"the run was {line.get('collective')}, asked was {asked.plan.collective}"
    if sizes != list(asked.plan.sizes_bytes):
        yield f"the plan asks for {len(asked.plan.sizes_bytes)} sizes to {asked.plan.end_bytes} B; measured were {len(sizes)}"
    ranks = asked.nodes * asked.shape.gpus
    if line.get("ranks") != ranks:
        yield f"{line.get('ranks')} ranks ran instead of {ranks}"
    if any(row["out_of_place"].get("wrong") is None for row in rows):
        yield "the values were not checked, so nothing is known of them"
    yield from _ratio(rows[-1], asked.plan.collective, ranks)


def _ratio(row: dict[str, Any], collective: str, ranks: int) -> Iterable[str]:
    """A build without MPI runs one-rank jobs side by side: busbw / algbw then does not name the rank count."""
    expected = ceiling.busbw_factor(collective, ranks)
    algbw = row["out_of_place"]["algbw_gbps"]
    ratio = _busbw(row) / algbw if algbw > 0 else 0.0
    if abs(ratio - expected) > _RATIO_TOLERANCE * expected:
        yield (
            f"busbw / algbw is {ratio:.4f}, and {ranks} ranks make it {expected:.4f}: another number of ranks took part "
            "(a build without MPI=1 does that)"
        )


def _suspects(line: dict[str, Any]) -> Iterable[str]:
    """Name the rails that the run itself found slower than the others."""
    suspects = line.get("suspects")
    yield from (str(suspect) for suspect in suspects) if isinstance(suspects, list) else ()


def _whole_rows(line: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows whose every number is one; anything may stand in a line until it has been looked at."""
    results = line.get("results")
    return [row for row in results if _is_whole(row)] if isinstance(results, list) else []


def _is_whole(row: Any) -> bool:
    if not isinstance(row, dict) or not _is_number(row.get("size_bytes")) or not isinstance(row.get("out_of_place"), dict):
        return False
    placements = [row["out_of_place"], *([row["in_place"]] if row.get("in_place") is not None else [])]
    return all(isinstance(timing, dict) and _is_timing(timing) for timing in placements)


def _is_timing(timing: dict[str, Any]) -> bool:
    numbers = [timing.get(name) for name in ("time_us", "algbw_gbps", "busbw_gbps")]
    return all(_is_number(number) for number in numbers) and (timing.get("wrong") is None or _is_number(timing["wrong"]))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def _wrong(row: dict[str, Any]) -> int:
    return sum(int((row.get(placement) or {}).get("wrong") or 0) for placement in ("out_of_place", "in_place"))


def _busbw(row: dict[str, Any]) -> float:
    return float(row["out_of_place"]["busbw_gbps"])


def _scale(line: dict[str, Any]) -> int:
    rehearsal = line.get("rehearsal")
    scale = rehearsal.get("scale") if isinstance(rehearsal, dict) else None
    return scale if isinstance(scale, int) and scale > 1 else 1


def _gate(asked: Asked, line: dict[str, Any]) -> Gate:
    return gate(asked.plan, asked.shape, asked.nodes, scale=_scale(line), minimum_gbps=asked.minimum_gbps)


def _judgement(verdict: str, reasons: list[str], asked: Asked, line: dict[str, Any]) -> Judgement:
    scale = _scale(line)
    rows = _whole_rows(line)
    bound = _gate(asked, line)
    at_gate = [_busbw(row) for row in rows if row["size_bytes"] == bound.size_bytes]
    return Judgement(
        verdict=verdict,
        reasons=tuple(reasons),
        gate=bound,
        busbw_gbps=at_gate[0] if at_gate else None,
        peak_busbw_gbps=max((_busbw(row) for row in rows), default=None),
        latency_us=rows[0]["out_of_place"]["time_us"] if rows else None,
        ceiling_gbps=ceiling.ring_gbps(asked.shape, asked.nodes, scale),
        scale=scale,
        rows=tuple(rows),
        line=line,
    )
