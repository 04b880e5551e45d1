"""The judgement of a measurement: by itself, and after the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.judge.verdict import Judgement
from benchmarks.plan.asked import Asked


@dataclass(frozen=True)
class Look:
    """The judgement of a measurement by itself.

    Attributes:
        asked: what the stack requests, with the limit from earlier runs.
        judged: the judgement.
    """

    asked: Asked
    judged: Judgement


@dataclass(frozen=True)
class End(Look):
    """The judgement of a measurement and its search: `judged` follows from both.

    Attributes:
        searched: the search's line; if no search was needed, the line reports that.
    """

    searched: dict[str, Any]
