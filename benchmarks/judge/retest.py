"""Decides what is measured again, and which result counts.

A brief disturbance (another job's last packets, a busy node) does not recur in the same place; an intermittent fault does.
Many looks at the gate's size tell the two apart (`benchmarks.judge.looks`), and a retest adds looks.

A retest counts under two conditions. First, every check that was short, or unknown because the machine was busy, now passes.
Second, no other check changes. If there is a search, it must also complete, and the only culprits that it may find are those of
kind `between`. Only slowness is retested: wrong values, a wrong transport and missing rows are judged by the first measurement.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from benchmarks.judge import looks, measurement
from benchmarks.judge.checks import PASS, SHORT, UNKNOWN, Check
from benchmarks.judge.verdict import judged as judge_measurement
from benchmarks.judge.waiting import BUSY, is_slow
from benchmarks.plan.steps import FREE, LOOK_STEPS, NODE, NVL, RAILS, SPREAD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.verdict import Judgement
    from benchmarks.plan.asked import Asked

#: Start of the sentence that is added to a check when the retest counts.
NOTE = "measured a second time; the first time: "
_LIMIT, _FLOOR, _CURVE = "limit ", "floor ", "curve "


def steps_of(judged: Judgement, asked: Asked) -> tuple[str, ...]:
    """Return the names of the steps to measure again: those whose checks are short, or unknown because the machine was busy.

    No step is measured again if one of these checks does not judge speed, or if so many looks were slow that later looks cannot
    change the result.
    """
    said = {one.name: one.state for one in judged.checks}
    # If a busy machine may explain the slow looks, the check `looks` is unknown instead of short, and a retest is worthwhile.
    if said.get("looks") == SHORT and judged.looks is not None and looks.is_final(judged.looks):
        return ()
    short = [one.name for one in judged.checks if is_slow(one)]
    named = [_step(name, asked) for name in short]
    if None in named:
        return ()
    again = dict.fromkeys(name for name in named if name)
    if asked.plan.collective in again and asked.plan.looks:  # many looks show whether the shortfall was chance
        again |= dict.fromkeys(LOOK_STEPS)
    return tuple(again)


def settled(first: Judgement, asked: Asked, searched: dict[str, Any]) -> Judgement:
    """Return the judgement that counts, given the retest that `searched` (the search stage's line) may contain.

    If the retest counts, the judgement has the retest's steps, transport and evidence, and each check that was short quotes
    the first number. Otherwise the first judgement counts, and its reasons include the retest's result.
    """
    again = searched.get("again")
    if not isinstance(again, dict):
        return first
    if not measurement.steps(again):
        return _stands(first, [f"the retest returned no result: {again.get('failed')}"])
    fresh = {str(step.get("name")): step for step in measurement.steps(again)}
    line = first.line | {"steps": [_renewed(step, fresh) for step in measurement.steps(first.line)]}
    if asked.plan.collective in fresh and first.busbw_gb_s is not None:
        line["more_looks"] = [first.busbw_gb_s]
    line |= {name: again[name] for name in ("transport", "evidence") if isinstance(again.get(name), dict)}
    line["first_evidence"] = first.line.get("evidence")
    second = judge_measurement(measurement.of(line), asked)
    before = {one.name: one for one in first.checks}
    wanted = {name: PASS if is_slow(one) else one.state for name, one in before.items()}
    seen = {one.name: one.state for one in second.checks}
    if seen == wanted and not _doubt(searched):
        return dataclasses.replace(second, checks=tuple(_noted(second.checks, before)))
    stands = _with_all_looks(first, second)
    short = {one.name for one in first.checks if is_slow(one)}
    told = [one for one in second.checks if one.name in short or one.state != wanted.get(one.name)]
    told = [one for one in told if not any(one is said for said in stands.checks)]
    notes = [f"{one.name} in the retest: {one.state}, {'; '.join(one.why) or 'no reason given'}" for one in told]
    return _stands(stands, [*notes, *_doubt(searched)])


def unblamed(judged: Judgement, searched: dict[str, Any]) -> dict[str, Any]:
    """Return the search's line, without culprits if this machine was too busy for a verdict: such a search proves nothing."""
    if judged.verdict != UNKNOWN or not searched.get("culprits") or not any(map(is_slow, judged.checks)):
        return searched
    return searched | {"culprits": [], "summary": f"{BUSY}nobody is blamed while ranks wait for processors"}


def _with_all_looks(first: Judgement, second: Judgement) -> Judgement:
    """Return the first judgement, with all looks if the first measurement's looks decide nothing but all looks are short.

    All looks are the looks of the second judgement, which include the looks of the first measurement.
    """
    if first.looks is None or first.looks.answer or second.looks is None or second.looks.answer != SHORT:
        return first
    (before,) = [one for one in first.checks if one.name == "looks"]
    after = next((one for one in second.checks if one.name == "looks"), None)
    if after is None:  # the retest itself failed, so its judgement has no checks of numbers
        return first
    return dataclasses.replace(
        first,
        looks=second.looks,
        checks=tuple(after if one is before else one for one in first.checks),
        reasons=tuple(dict.fromkeys(why for said in first.reasons for why in (after.why if said in before.why else (said,)))),
    )


def _renewed(step: dict[str, Any], fresh: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the step that counts after the retest: the retest's step if there is one, with the earlier looks added."""
    new = fresh.get(str(step.get("name")), step)
    seen = [one for looks in (step.get("looks_gb_s"), new.get("looks_gb_s")) if isinstance(looks, list) for one in looks]
    return new | {"looks_gb_s": seen} if new is not step and "looks_gb_s" in step else new


def _doubt(searched: dict[str, Any]) -> list[str]:
    """Return why the retest does not count: the search found a culprit, or did not complete. Empty if neither happened."""
    # Culprits of the kind `between` are ignored here. Such a culprit means that pairs are slow only while other pairs run. This
    # proves nothing about a ring, because a ring uses few of the links that those pairs share.
    named = searched.get("culprits") or []
    if not isinstance(named, list) or any(not isinstance(one, dict) or one.get("kind") != "between" for one in named):
        return ["the retest does not count, because the search found a culprit"]
    if searched.get("needed") and (searched.get("failed") or not searched.get("complete")):
        return ["the retest does not count, because the search did not complete"]
    return []


def _stands(first: Judgement, notes: list[str]) -> Judgement:
    return dataclasses.replace(first, reasons=(*first.reasons, *notes))


def _noted(checks: Iterable[Check], before: dict[str, Check]) -> Iterable[Check]:
    for one in checks:
        was = before.get(one.name)
        if one.state == PASS and was is not None and is_slow(was):
            yield dataclasses.replace(one, why=(*one.why, f"{NOTE}{'; '.join(was.why)}"))
        else:
            yield one


def is_about(check: Check, name: str, asked: Asked) -> bool:
    """Tell whether a check reports that the step `name` was slow."""
    return is_slow(check) and _step(check.name, asked) == name


def _step(check: str, asked: Asked) -> str | None:
    """Return the name of the step whose result a check judges; None if the check does not judge speed."""
    if check in {"bandwidth", "in-network", "history"}:
        return asked.plan.collective
    if check.startswith(_LIMIT):
        return check.removeprefix(_LIMIT).partition("@")[0]
    if check.startswith((_FLOOR, _CURVE)):
        return check.partition(" ")[2]
    return {"node": NODE, "rails": RAILS, "spread": SPREAD, "nvls": FREE, "nvl": NVL, "looks": asked.plan.collective}.get(check)
