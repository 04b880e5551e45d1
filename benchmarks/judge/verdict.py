"""Judges one measurement line against what was requested: pass, short or unknown, with checks and reasons.

Missing data is never a pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.judge import curve, group_checks, in_network, looks, port_events, proofs, rack, transport, waiting
from benchmarks.judge.checks import PASS, SHORT, SKIPPED, UNKNOWN, Check, check
from benchmarks.judge.checks import verdict as verdict_of
from benchmarks.judge.measurement import LineError, Measurement, busbw, is_number, problems, read
from benchmarks.plan import ceiling
from benchmarks.plan.collectives import collective
from benchmarks.plan.fractions import NVLS, fraction
from benchmarks.plan.gate import Gate, gate, nvls_unknown, user_gate
from benchmarks.plan.ranks import RING, algorithm
from benchmarks.plan.size_text import size_text
from benchmarks.plan.steps import FREE, LOOKS, NODE, RAILS, SPREAD, Step, nvls_gb_s, steps
from config.accept import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.plan.asked import Asked

__all__ = ["PASS", "SHORT", "SKIPPED", "UNKNOWN", "Judgement", "judge", "judged"]

#: At most this many of NCCL's warnings are reasons of a verdict.
_WARNINGS = 8
#: A healthy fabric's spread stays within these limits: coefficient of variation in percent, and p99 / p50 of individual
#: operations.
CV_LIMIT_PCT, TAIL_LIMIT = 5.0, 1.5


@dataclass(frozen=True)
class Judgement:
    """The judgement of a measurement.

    Attributes:
        verdict: pass, short or unknown.
        reasons: sentences; empty only for a pass.
        gate: the limit that was applied.
        busbw_gb_s: out-of-place busbw at the gate's size; None if it was not measured.
        peak_busbw_gb_s: highest out-of-place busbw of the gate's collective.
        latency_us: out-of-place time at that collective's smallest size.
        ceiling_gb_s: busbw that the slowest link allows; in a rehearsal, divided by the rehearsal's scale. None if no
            such busbw is known, as on a single rehearsed node.
        scale: the number that the run stated as the divisor of line rates; 1 on real hardware.
        rows: by collective, the rows that have out-of-place numbers and whose size is not 0.
        checks: all checks of the measurement.
        line: the measurement's line as read. Fields of the line that no other attribute contains were not checked.
        died: whether the deciding run died or hung, so that a search for the cause is needed.
        looks: the result of the looks at the gate's size; None if they could not be judged.
    """

    verdict: str
    reasons: tuple[str, ...]
    gate: Gate
    busbw_gb_s: float | None
    peak_busbw_gb_s: float | None
    latency_us: float | None
    ceiling_gb_s: float | None
    scale: int
    rows: dict[str, tuple[dict[str, Any], ...]]
    checks: tuple[Check, ...] = ()
    line: dict[str, Any] = field(default_factory=dict)
    died: bool = False
    looks: looks.Looks | None = None


def judge(text: str, asked: Asked) -> Judgement:
    """Judge the runner's output `text` against what was `asked`; never raises on content."""
    try:
        found = read(text)
    except LineError as error:
        return _judgement([Check("measurement", UNKNOWN, (str(error),))], asked, Measurement())
    return judged(found, asked)


def judged(found: Measurement, asked: Asked) -> Judgement:
    """Judge a parsed measurement."""
    ran = f"{len(asked.plan.sizes_bytes)} sizes on {asked.ranks} ranks of {asked.nodes} nodes, as planned"
    whole = check("measurement", _unreadable(found, asked), bad=UNKNOWN, good=(ran,))
    checks = [whole, *_beside(found, asked)] if whole.state == PASS else [whole]
    checks = waiting.excused(checks, found, lambda other: _beside(other, asked))
    return _judgement(checks, asked, found)


def _beside(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield all checks of a complete measurement except the check `measurement` itself."""
    scale, planned = found.scale, steps(asked.plan, asked.shape, asked.nodes)
    # A look does not check values. The tests alltoall and sendrecv do not check values in place.
    placements = [row[place] for run in found.runs.values() for row in run.rows for place in ("out_of_place", "in_place")]
    count = sum(placement is not None and placement["wrong"] is not None for placement in placements)
    yield check("values", _wrong_values(found), good=(f"all values that were checked were correct, in {count} placements",))
    if found.differences is not None:
        alike = f"{asked.nodes} nodes are alike in GPUs, their limits, driver, rails, link rates, PCIe, MTUs and clocks"
        alike = alike if asked.nodes > 1 else "there is one node, so nothing can differ"
        yield check("inventory", found.differences, good=(alike,))
    else:
        yield Check("inventory", UNKNOWN, ("the line has no comparison of the nodes",))
    yield transport.judge(found.line, asked, rehearsed=scale != 1)
    yield port_events.judge(found.line.get("transport"))
    if asked.plan.prove_rails:
        yield proofs.judge(found.line, asked, scale)
    yield check(
        "ceiling",
        _beyond(found, asked),
        bad=UNKNOWN,
        good=("no judged number at the largest sizes is above what the wire allows",),
    )
    yield _bandwidth(found, asked)
    yield from curve.judge(found, asked)
    yield from _in_switch(found, asked)
    yield from in_network.judge(found, asked)
    yield from rack.judge(found, asked)
    yield from (_limit(found, asked, limit) for limit in asked.accept.own_limits)
    yield _spread(found, asked)
    yield looks.judge(_looks(found, asked), asked)
    # An unfinished step `spread` is judged by the check `spread` and not counted here.
    unfinished = [SPREAD] if (spread := found.runs.get(SPREAD)) is None or spread.failed else []
    others = [step.name for step in planned if step.name not in {asked.plan.collective, *unfinished}]
    whole = (f"{len(others)} other steps are complete",)
    yield check("collectives", _other_steps(found, asked), bad=UNKNOWN, good=whole)
    for step in planned:
        run = found.runs.get(step.name)
        if step.stage in {NODE, RAILS} and run and run.rows and not run.failed:  # otherwise `collectives` reports the run
            yield group_checks.judge(run, asked, step, scale)
    if asked.past_unread:
        yield Check("history", SKIPPED, (asked.past_unread,))
    elif asked.past is not None:
        limit, source = asked.past
        measured = busbw(found.rows(asked.plan.collective)[-1])
        reason = f"{asked.plan.collective} reached {measured:.4g} GB/s; {source} requires {limit:.4g} GB/s"
        if not asked.past_since:
            yield check("history", [reason] if measured < limit else [], good=(reason,))
        else:  # something changed since then, and a low number does not show whether this change or the fabric is the cause
            since = f"{reason}; since then {asked.past_since}"
            yield check("upgrade", [since] if measured < limit else [], bad=SKIPPED, good=(since,))


def _unreadable(found: Measurement, asked: Asked) -> Iterable[str]:
    """Yield the reasons why the deciding run proves nothing."""
    if found.refused:
        yield found.refused
        return
    if not found.is_named:
        said = f"{found.line.get('run_id')!r}, {found.line.get('started')!r}"
        yield f"the line does not say which run it belongs to or when that run started ({said})"
    if not found.is_scaled:
        yield f"the line states a rehearsal but not its scale ({found.line.get('rehearsal')!r})"
    run = found.runs.get(asked.plan.collective)
    if run is None:
        yield f"the line has no run of {asked.plan.collective}"
        return
    yield from problems(run, asked.plan.collective, asked.plan.sizes_bytes, asked.ranks, asked.nodes)
    if run.failed:
        yield from _warnings(found.line.get("warnings"))


def _warnings(said: Any) -> Iterable[str]:
    """Yield the warnings that NCCL logged in a deciding run that failed; they may name a peer or a device."""
    for one in (said if isinstance(said, list) else [])[:_WARNINGS]:
        if isinstance(one, dict):
            yield f"NCCL on {one.get('node')}: {one.get('said')}"


def _beyond(found: Measurement, asked: Asked) -> Iterable[str]:
    """Yield a reason for each collective whose busbw at its largest size exceeds what the wire allows.

    Such a number means that the bytes took another path, or that the machines have another shape than requested.
    """
    ring = algorithm(asked.shape, asked.nodes, asked.plan.exports) == RING
    for name in asked.plan.collectives:
        most = ceiling.most_gb_s(name, asked.shape, asked.nodes, found.scale, ring=ring)
        if name == "all_reduce" and not ring and transport.switches_may_reduce(found.line.get("transport")):
            most = max(most or 0.0, ceiling.in_network_gb_s(asked.shape, asked.nodes, found.scale) or 0.0) or None
        rows = found.rows(name)
        if rows and curve.is_a_burst(rows[-1]["size_bytes"], found.scale):
            continue
        if most is not None and rows and (measured := busbw(rows[-1])) > curve.most_above(found.scale) * most:
            what = "a ring" if ring else "any algorithm"
            yield (
                f"{name}: {measured:.4g} GB/s is more than {what} can carry over these wires ({most:.4g}): "
                "the machines have another shape, or the bytes took another path"
            )


def _looks(found: Measurement, asked: Asked) -> looks.Looks | None:
    bound = gate(asked.plan, asked.shape, asked.nodes, scale=found.scale, minimum_gb_s=asked.accept.gate_gb_s)
    return looks.of(found, asked, bound.limit_gb_s)


def _in_switch(found: Measurement, asked: Asked) -> Iterable[Check]:
    """On one machine, judge the run in which NCCL chose the algorithm.

    NVLink switches can reduce in this run, but not in a run with a ring.
    """
    run, usual = found.runs.get(FREE), nvls_gb_s(asked.shape, asked.plan)
    share = fraction(asked.plan.end_bytes, NVLS)
    if asked.nodes > 1 or found.scale != 1 or run is None or not run.rows or run.failed:
        return
    reached = busbw(run.rows[-1])
    if usual is None or share is None:
        said = f"with NCCL's own algorithm, all_reduce reached {reached:.4g} GB/s; {nvls_unknown(asked.shape, asked.plan)}"
        yield Check("nvls", SKIPPED, (said,))
        return
    sentence = (
        f"with NCCL's own algorithm, all_reduce reached {reached:.4g} GB/s; machines reach {usual:g} if their switches reduce"
    )
    required = f"{sentence}; at least {share:g} times {usual:g} GB/s is required"
    yield check("nvls", [required] if reached < share * usual else [], good=(sentence,))


def _wrong_values(found: Measurement) -> Iterable[str]:
    for run in found.runs.values():
        if run.wrong:
            yield f"{run.wrong} elements arrived with wrong values in {run.name}"


def _bandwidth(found: Measurement, asked: Asked) -> Check:
    bound = gate(asked.plan, asked.shape, asked.nodes, scale=found.scale, minimum_gb_s=asked.accept.gate_gb_s)
    if bound.limit_gb_s is None:
        return Check("bandwidth", UNKNOWN, (f"there is no gate: {bound.why}",))
    return _reaches("bandwidth", bound, busbw(found.rows(asked.plan.collective)[-1]))


def _limit(found: Measurement, asked: Asked, limit: Limit) -> Check:
    name = f"limit {limit.collective}@{limit.size_bytes}"
    bound = user_gate(limit, asked.shape, asked.nodes, scale=found.scale)
    size = collective(limit.collective).row_bytes(limit.size_bytes, asked.ranks)
    run = found.runs.get(limit.collective)
    row = run.at(size) if run else None
    if row is None:
        return Check(
            name,
            UNKNOWN,
            (f"{limit.collective} was not measured at {size_text(limit.size_bytes)}, where the stack has a limit",),
        )
    return _reaches(name, bound, busbw(row))


def _reaches(name: str, bound: Gate, measured: float) -> Check:
    limit = bound.limit_gb_s or 0.0
    reason = (
        f"{bound.collective} reached {measured:.4g} GB/s at {size_text(bound.size_bytes)}; "
        f"the gate requires {limit:.4g} GB/s: {bound.why}"
    )
    good = f"{measured:.4g} GB/s of {limit:.4g} required: {bound.why}"
    return check(name, [reason] if measured < limit else [], good=(good,))


def _spread(found: Measurement, asked: Asked) -> Check:
    if not asked.plan.spread_iterations:
        return Check("spread", SKIPPED, ("the plan times no individual operations",))
    run = found.runs.get(SPREAD)
    said = run.spread if run else None
    numbers = [said.get(name) for name in ("p50_us", "p99_us", "cv_pct", "iterations")] if isinstance(said, dict) else []
    if not numbers or not all(is_number(number) for number in numbers) or not numbers[0]:
        why = run.failed if run and run.failed else "no individual operation was timed"
        return Check("spread", UNKNOWN, (why,))
    p50, p99, cv_pct, count = (float(number) for number in numbers if number is not None)
    sentence = f"{count:.0f} individual operations vary by {cv_pct:.1f} % (p99 / p50 is {p99 / p50:.2f})"
    if cv_pct <= CV_LIMIT_PCT and p99 <= TAIL_LIMIT * p50:
        return Check("spread", PASS, (sentence,))
    return Check("spread", SHORT, (f"{sentence}; a healthy fabric stays within {CV_LIMIT_PCT:g} % and {TAIL_LIMIT:g}",))


def _other_steps(found: Measurement, asked: Asked) -> Iterable[str]:
    """Yield what is missing or unreadable in the steps other than the deciding step."""
    for asked_step in steps(asked.plan, asked.shape, asked.nodes):
        run = found.runs.get(asked_step.name)
        its_own_check = asked_step.name == SPREAD and (run is None or run.failed)
        if asked_step.name == asked.plan.collective or its_own_check:
            continue
        if run is None:
            yield f"the step {asked_step.name} is missing"
            continue
        sizes = _sizes(asked_step, asked)
        ranks = asked.ranks // asked_step.groups
        yield from (
            f"{asked_step.name}: {problem}"
            for problem in problems(
                run, asked_step.collective, sizes, ranks, asked.nodes, asked.ranks, checked=asked_step.stage != LOOKS
            )
        )


def _sizes(step: Step, asked: Asked) -> tuple[int, ...]:
    return asked.plan.sizes_of(step.collective) if step.begin_bytes != step.end_bytes else (step.end_bytes,)


def _judgement(checks: list[Check], asked: Asked, found: Measurement) -> Judgement:
    scale, rows = found.scale, found.rows(asked.plan.collective)
    bound = gate(asked.plan, asked.shape, asked.nodes, scale=scale, minimum_gb_s=asked.accept.gate_gb_s)
    gate_row_bytes = collective(bound.collective).row_bytes(bound.size_bytes, asked.ranks)
    at_gate = [busbw(row) for row in rows if row["size_bytes"] == gate_row_bytes]
    outcome, reasons = verdict_of(checks, frozenset(asked.accept.allow_skipped))
    memory_for_nvlink = asked.nodes == 1 and scale != 1
    return Judgement(
        verdict=outcome,
        reasons=reasons,
        gate=bound,
        busbw_gb_s=at_gate[0] if at_gate else None,
        peak_busbw_gb_s=max((busbw(row) for row in rows), default=None),
        latency_us=rows[0]["out_of_place"]["time_us"] if rows else None,
        ceiling_gb_s=None if memory_for_nvlink else ceiling.bound_gb_s(asked.plan.collective, asked.shape, asked.nodes, scale),
        scale=scale,
        rows={name: tuple(row for row in found.rows(name) if row["size_bytes"]) for name in asked.plan.collectives},
        checks=tuple(checks),
        line=found.line,
        looks=_looks(found, asked),
        died=bool((run := found.runs.get(asked.plan.collective)) and run.failed),
    )
