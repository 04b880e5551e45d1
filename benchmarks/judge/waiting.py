"""Excuses a rehearsal on a busy machine: if its ranks waited for processors, the processors were measured, not the wires.

Only a rehearsed benchmark reports how long its ranks waited (`waited` in a step). A line from real hardware should have no such
number; if it has one, the number is ignored, and nothing is excused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from benchmarks.judge.checks import PASS, SHORT, UNKNOWN, Check
from benchmarks.judge.measurement import Measurement, is_number, of, steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: If ranks waited for a processor for this share of their time or more, the times of individual operations and the shape of a
#: curve describe the machine's load, not its wires.
_UNEVEN = 0.1
_OF_TIMES = ("spread", "curve ")
#: Upper limit of the share of time that ranks waited. A rank that waited almost all the time reports 1, and then the share in
#: which it did not wait would be 0. But results are divided by that share.
_MOST = 0.9999
#: If the load of this machine may explain why a check is short, the first reason of the check begins with these words.
BUSY = "this machine: "


def excused(checks: list[Check], found: Measurement, ask: Callable[[Measurement], Iterable[Check]]) -> list[Check]:
    """Return `checks`; a short check becomes unknown if waiting may explain the whole shortfall.

    `ask` returns the checks of a measurement. `found` is corrected as if no rank had waited, and `ask` judges the corrected
    measurement. The correction divides a result by the share of time in which ranks did not wait. Example: a result is half of
    the line rate, and the limit is 0.85 of the line rate. Then the corrected result meets the limit only if ranks waited for at
    least 0.41 of their time. If groups of ranks ran at the same time, perhaps only the slower groups waited, so the results of
    these groups are corrected twice. In the example, 0.23 of the time can then be enough.
    """
    most = max((waited(step) for step in steps(found.line)), default=0.0)
    if found.scale == 1 or not most or all(one.state != SHORT for one in checks):
        return checks
    states = {one.name: one.state for one in ask(of(found.line | {"steps": [_at_once(step) for step in steps(found.line)]}))}
    why = f"{BUSY}ranks waited for a processor up to {most:.0%} of their time, which may explain the whole shortfall"

    def is_excused(one: Check) -> bool:
        uneven = one.name.startswith(_OF_TIMES) and most >= _UNEVEN
        return one.state == SHORT and (states.get(one.name) == PASS or uneven)

    return [replace(one, state=UNKNOWN, why=(why, *one.why)) if is_excused(one) else one for one in checks]


def is_slow(one: Check) -> bool:
    """Return whether a check is short, or is unknown because this machine was too busy; then measuring again is worthwhile."""
    return one.state == SHORT or (one.state == UNKNOWN and any(why.startswith(BUSY) for why in one.why[:1]))


def waited(step: dict[str, Any]) -> float:
    """Return the largest share of time that a rank of the step waited for a processor; 0 if the line does not report it."""
    said = step.get("waited")
    return min(float(said), _MOST) if isinstance(said, (int, float)) and is_number(said) and said <= 1 else 0.0


def _at_once(step: dict[str, Any]) -> dict[str, Any]:
    """Return the step with its results corrected, as if no rank had waited for a processor."""
    ran = 1 - waited(step)
    rows, looks, groups = (step.get(name) for name in ("rows", "looks_gb_s", "groups_gb_s"))
    changed = dict(step)
    if isinstance(rows, list):
        changed["rows"] = [_row(row, ran) for row in rows]
    if isinstance(looks, list):
        changed["looks_gb_s"] = [one / ran if is_number(one) else one for one in looks]
    if isinstance(groups, list) and groups and all(is_number(one) for one in groups):
        # Groups are also compared with each other, and perhaps only the ranks of the slower groups waited. So the GB/s of the
        # fastest group are divided by `ran` once, and those of the other groups twice. No group gets more than the fastest one.
        changed["groups_gb_s"] = [min(one / ran**2, max(groups) / ran) for one in groups]
    return changed


def _row(row: Any, ran: float) -> Any:
    if not isinstance(row, list) or not row:
        return row
    return [row[0], *(_placement(one, ran) for one in row[1:])]


def _placement(packed: Any, ran: float) -> Any:
    if not isinstance(packed, list) or len(packed) != 4 or not all(is_number(one) for one in packed[:3]):  # noqa: PLR2004
        return packed
    time_us, algbw_gb_s, busbw_gb_s, wrong = packed
    return [time_us * ran, algbw_gb_s / ran, busbw_gb_s / ran, wrong]
