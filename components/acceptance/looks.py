"""What a measurement means: by itself, and after the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.judge.verdict import Judgement
from benchmarks.plan.asked import Asked


@dataclass(frozen=True)
class Look:
    """What the measurement means by itself.

    Attributes:
        asked: what was asked, with the limit that earlier runs give.
        judged: what it means.
    """

    asked: Asked
    judged: Judgement


@dataclass(frozen=True)
class End(Look):
    """What measurement and search came to: `judged` is what both together mean.

    Attributes:
        searched: the search's line; a fabric that is not short is not searched, and says so.
    """

    searched: dict[str, Any]
