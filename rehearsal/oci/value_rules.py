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
        model: `PACKAGE:MODEL.PREFIX` in the SDK: the model's constants whose names begin with the prefix. If no package is
            given, the package is `core`. None if only the documentation lists the values.
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
    """A range of integers; a value is a number or a string of digits."""

    low: int
    high: int
    step: int = 1

    def refuses(self, value: Any) -> str | None:
        """Return a description of the accepted values if a value is refused, else None."""
        text = str(value)
        fits = re.fullmatch(r"-?\d{1,9}", text) and self.low <= int(text) <= self.high and int(text) % self.step == 0
        return None if fits else f"from {self.low} to {self.high}" + (f" in steps of {self.step}" if self.step > 1 else "")


Rule = OneOf | Matches | Between
