"""Stage `search`: measures once more what was short and looks for the cause; the verdict follows from both measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from benchmarks.host import requests
from benchmarks.judge import retest
from benchmarks.judge.verdict import Judgement
from components.acceptance.build import Built
from components.acceptance.measure import Measured
from components.acceptance.runner import Runner
from components.reach import last_line


@dataclass(frozen=True)
class Searched:
    """A finished search.

    Attributes:
        line: what it found; a fabric that is not short is not searched, and says so.
        judged: what both looks together mean.
    """

    line: pulumi.Output[dict[str, Any]]
    judged: pulumi.Output[Judgement]


def search(  # noqa: PLR0913 - what a search depends on, by name
    name: str, runner: Runner, *, built: Built, measured: Measured, budget_s: int, opts: pulumi.ResourceOptions
) -> Searched:
    """Register the search for the cause of what `measured` found short, within `budget_s` seconds."""
    wanted = pulumi.Output.all(where=built.place, asked=measured.asked, judged=measured.judged).apply(
        lambda known: requests.search(**known, budget_s=budget_s, reasons=[runner.digest])
    )
    command = runner.run(name, wanted, [measured.command], opts)
    line: pulumi.Output[dict[str, Any]] = command.stdout.apply(last_line)
    judged = pulumi.Output.all(first=measured.judged, asked=measured.asked, searched=line).apply(
        lambda known: retest.settled(**known)
    )
    return Searched(line, judged)
