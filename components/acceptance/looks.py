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
        asked: what was asked, with the limit from earlier runs.
        judged: the judgement.
    """

    asked: Asked
    judged: Judgement


@dataclass(frozen=True)
class End(Look):
    """The judgement of a measurement and its search: `judged` follows from both.

    Attributes:
        searched: the search's line; if the fabric is not short, it reports that no search was needed.
    """

    searched: dict[str, Any]
