"""Rules that one value must satisfy: a list of accepted values, a pattern, or a range."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class OneOf:
    """A list of accepted values, and the place of the list in OCI's Python SDK.

    Attributes:
        values: accepted values.
        model: the place in the form `PACKAGE:MODEL.PREFIX`: the class MODEL of PACKAGE has a constant for each value, and the
            constants' names begin with PREFIX. Without `PACKAGE:`, the package is `core`. None if the values are not compared
            with the SDK.
    """

    values: tuple[str, ...]
    model: str | None = None

    def refuses(self, value: Any) -> str | None:
        """Return a description of the accepted values if a value is refused, else None."""
        return None if value in self.values else f"one of {', '.join(self.values)}"


@dataclass(frozen=True)
class Matches:
    """A pattern that a whole string must match, and a description of the pattern in words."""

    pattern: str
    words: str

    def refuses(self, value: Any) -> str | None:
        """Return a description of the accepted values if a value is refused, else None."""
        return None if re.fullmatch(self.pattern, str(value), re.DOTALL) else self.words


@dataclass(frozen=True)
class Between:
    """A range of integers. A value is given as a number or as text; it has at most nine digits, and may be negative."""

    low: int
    high: int
    step: int = 1

    def refuses(self, value: Any) -> str | None:
        """Return a description of the accepted values if a value is refused, else None."""
        text = str(value)
        fits = re.fullmatch(r"-?\d{1,9}", text) and self.low <= int(text) <= self.high and int(text) % self.step == 0
        return None if fits else f"from {self.low} to {self.high}" + (f" in steps of {self.step}" if self.step > 1 else "")


Rule = OneOf | Matches | Between
