"""Decides from many short, separate looks whether a fabric is slow at times; a single look can miss an intermittent link.

Each look is one measurement of the gate's size. Wald's sequential test weighs the looks. In a healthy fabric, a disturbance may
slow down the share `TOLERATED` of the looks. A fabric in which the share `REFUSED` of the looks is slow is not accepted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.judge.checks import PASS, SHORT, SKIPPED, UNKNOWN, Check
from benchmarks.judge.measurement import are_numbers, busbw
from benchmarks.plan.steps import LOOKS, steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.judge.measurement import Measurement
    from benchmarks.plan.asked import Asked

#: A share of slow looks that is tolerated, and a share that is refused. `_FALSE_ALARM` is the probability of refusing a fabric
#: with the tolerated share; `_MISSED` is the probability of accepting a fabric with the refused share.
TOLERATED, REFUSED = 0.02, 0.20
_FALSE_ALARM, _MISSED = 0.005, 0.04
_SLOW, _FINE = math.log(REFUSED / TOLERATED), math.log((1 - REFUSED) / (1 - TOLERATED))
_ACCEPT, _REFUSE = math.log(_MISSED / (1 - _FALSE_ALARM)), math.log((1 - _MISSED) / _FALSE_ALARM)
#: After this many looks, the more likely answer is taken.
MOST = 64
#: A look below this share of the median of all looks is slow, even if it reaches the gate.
_OF_MEDIAN = 0.85
#: If at least this share of the looks is slow, the fabric counts as always slow, not as intermittent.
_ALWAYS = 0.9


#: The places of the plan at which looks are taken: the deciding run itself, right after it, and at the end.
DECIDING, EARLY, LATE = "deciding", "early", "late"
_WHERE = {DECIDING: "in the deciding run", EARLY: "right after it", LATE: "at the end of the plan"}


@dataclass(frozen=True)
class Place:
    """Looks at one place of the plan: its name, the number of slow looks, and what each look reached (GB/s), in order."""

    name: str
    slow: int
    gb_s: tuple[float, ...]


@dataclass(frozen=True)
class Looks:
    """The joint result of several looks.

    Attributes:
        slow: number of slow looks.
        of: number of all looks.
        answer: pass or short; empty if more looks are needed to decide.
        carried: evidence of slowness from the previous run on the same machines, as a log-likelihood ratio; 0 for none.
        places: the looks at each place of the plan where looks are taken.
    """

    slow: int
    of: int
    answer: str
    carried: float
    places: tuple[Place, ...] = ()

    @property
    def is_intermittent(self) -> bool:
        """Whether more looks were slow than a disturbance explains, but less than the share `_ALWAYS` of all looks."""
        return self.answer == SHORT and 0 < self.slow < _ALWAYS * self.of


def weigh(slow: int, of: int, carried: float = 0.0) -> Looks:
    """Return the result of `slow` slow looks among `of` looks, given the evidence `carried` over from the previous run."""
    ratio = carried + slow * _SLOW + (of - slow) * _FINE
    if ratio <= _ACCEPT or (of >= MOST and ratio <= 0):
        return Looks(slow, of, PASS, carried)
    return Looks(slow, of, SHORT if ratio >= _REFUSE or of >= MOST else "", carried)


def is_final(looks: Looks) -> bool:
    """Tell whether the result stays short even if all further looks are fine, until there are `MOST` looks in total."""
    return weigh(looks.slow, max(looks.of, MOST), looks.carried).answer == SHORT


def carry(slow: int, of: int) -> float:
    """Return the evidence of slowness that is carried over from an earlier run's looks.

    The evidence is at least 0, and at most as much as is enough to refuse a fabric.
    """
    return min(_REFUSE, max(0.0, slow * _SLOW + (of - slow) * _FINE))


def are_slow(looks: Sequence[float], limit: float) -> list[bool]:
    """Tell for each look (GB/s) whether it is slow: below `limit`, or far below the median of all looks."""
    least = max(limit, _OF_MEDIAN * median(looks)) if looks else limit
    return [reached < least for reached in looks]


def of(found: Measurement, asked: Asked, limit: float | None) -> Looks | None:
    """Return the result of a measurement's looks.

    The result is None if the plan takes no looks, if a look or its number is missing, or if there is no limit.
    """
    if not asked.plan.looks or limit is None:
        return None
    listed = [run.looks for run in found.runs.values()]
    # A look without a number may have been slow.
    if not all(are_numbers(looks) for looks in (*listed, found.line.get("more_looks"), found.line.get("earlier_looks"))):
        return None
    planned = [step for step in steps(asked.plan, asked.shape, asked.nodes) if step.stage == LOOKS]
    taken = [_numbers(found.runs[step.name].looks) if step.name in found.runs else [] for step in planned]
    if any(len(looks) < step.cycles for looks, step in zip(taken, planned, strict=True)):
        return None
    decided = [busbw(row) for row in found.rows(asked.plan.collective)[-1:]]
    seen = {DECIDING: [*decided, *_numbers(found.line.get("more_looks"))]} | dict(zip((EARLY, LATE), taken, strict=False))
    before = _numbers(found.line.get("earlier_looks"))
    slow = iter(are_slow([reached for looks in seen.values() for reached in looks], limit))
    places = tuple(Place(name, sum(islice(slow, len(looks))), tuple(looks)) for name, looks in seen.items())
    count = sum(len(one.gb_s) for one in places)
    weighed = weigh(sum(one.slow for one in places), count, carry(sum(are_slow(before, limit)), len(before)))
    return replace(weighed, places=places)


def judge(looks: Looks | None, asked: Asked) -> Check:
    """Return the check: short if looks are slow too often, or if more looks are needed to decide."""
    if not asked.plan.looks:
        return Check("looks", SKIPPED, ("the plan takes no separate looks",))
    if looks is None:
        return Check("looks", UNKNOWN, ("no look at the gate's size can be judged",))
    share = f"{looks.slow} of {looks.of} separate looks were slow"
    when = _where(looks)
    inherited = "; the previous run on these machines was slow at times" if looks.carried else ""
    if looks.answer == PASS:
        return Check("looks", PASS, (f"{share}{when}{inherited}",))
    if not looks.answer:
        return Check("looks", SHORT, (f"{share}{when}{inherited}; more looks are needed to tell whether that is chance",))
    how = f"intermittent: {share} ({looks.slow / looks.of:.0%})" if looks.is_intermittent else share
    return Check("looks", SHORT, (f"{how}{when}{inherited}; a healthy fabric is disturbed in {TOLERATED:.0%} of its looks",))


def _where(looks: Looks) -> str:
    """Name the places in the plan whose looks were slow; empty if no look was slow, or if all looks were slow."""
    slow = [one for one in looks.places if one.slow]
    if not slow or looks.slow == looks.of:
        return ""
    return ": " + ", ".join(f"{one.slow} of {len(one.gb_s)} {_WHERE[one.name]}" for one in slow)


def _numbers(found: list[float] | None) -> list[float]:
    return [float(one) for one in found or ()]
