"""Holds the judgement of a measurement: without the search for a cause, and with the search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.judge.verdict import Judgement
from benchmarks.plan.asked import Asked


@dataclass(frozen=True)
class Look:
    """The judgement of a measurement without the search.

    Attributes:
        asked: what the stack requests, with the limit from earlier runs.
        judged: the judgement.
    """

    asked: Asked
    judged: Judgement


@dataclass(frozen=True)
class End(Look):
    """The judgement of a measurement with the search: `judged` follows from the measurement and the search.

    Attributes:
        searched: the search's line; if no search was needed, the line says so.
    """

    searched: dict[str, Any]
