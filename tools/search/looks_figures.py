"""Print how often an intermittent fabric passes, and how often a healthy fabric does not pass.

    python -m tools.search.looks_figures

A look is one short measurement at the gate's size. Every run is seeded. The looks are those of the default plan and those of
one retest, together. A fault or a disturbance shows in each look with the same probability, independently of other looks.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.judge import looks
from benchmarks.judge.checks import PASS, SHORT
from config.measure import Measure

if TYPE_CHECKING:
    from collections.abc import Callable

_RUNS = 20_000
#: A retest takes this many times the plan's number of looks (`benchmarks.plan.steps.repeated`). A retest also repeats the
#: deciding run once, which counts as one more look.
_MORE = 3


@dataclass(frozen=True)
class Course:
    """One measurement of a fabric whose looks are slow with probability `active`."""

    active: float

    def run(self, dice: random.Random) -> str:
        """Return the result of the first looks or, if these give no answer, of the first looks and a retest's looks."""
        first = Measure().looks + 1
        slow = self._slow(dice, first)
        found = looks.weigh(slow, first)
        if found.answer:
            return found.answer
        more = _MORE * Measure().looks + 1
        return looks.weigh(slow + self._slow(dice, more), first + more).answer or SHORT

    def _slow(self, dice: random.Random, count: int) -> int:
        return sum(dice.random() < self.active for _ in range(count))


def figures(say: Callable[[str, str], None]) -> None:
    """Call `say` with the name and the text of every figure."""
    for active in (0.5, 0.3, 0.2, 0.1, 0.05):
        say(f"looks, P(pass) of a link that is slow {active:.0%} of the time, {_RUNS} runs", f"{_share(active, PASS):.4f}")
    for active in (0.02, 0.01, 0.0):
        refused = 1 - _share(active, PASS)
        say(f"looks, P(not pass) of a healthy fabric, {active:.0%} of looks disturbed, {_RUNS} runs", f"{refused:.4f}")


def _share(active: float, answer: str) -> float:
    dice = random.Random(round(active * 1000))  # noqa: S311 - noise
    return sum(Course(active).run(dice) == answer for _ in range(_RUNS)) / _RUNS


if __name__ == "__main__":
    figures(lambda name, figure: print(f"{name:<84} {figure}", flush=True))  # noqa: T201 - printing is its purpose
