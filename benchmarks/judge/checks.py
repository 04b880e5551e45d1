"""The states of a check, and how checks add up to one verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PASS, SHORT, UNKNOWN, SKIPPED = "pass", "short", "unknown", "skipped"
#: Checks that some machines or plans do not allow; a stack may accept that for each by its name.
SKIPPABLE = frozenset({"transport", "spread", "looks"})
#: Checks that only compare with records; if those cannot be read, the verdict is the same as without them.
_ADVISORY = frozenset({"history"})


@dataclass(frozen=True)
class Check:
    """One question to a measurement and its answer.

    Attributes:
        name: what was asked, one word.
        state: pass, short, unknown, or skipped if the check could not be made.
        why: sentences: what is wrong, or what shows that nothing is.
    """

    name: str
    state: str
    why: tuple[str, ...] = ()


def check(name: str, reasons: Iterable[str], *, bad: str = SHORT, good: tuple[str, ...] = ()) -> Check:
    """Return a check that is `bad` for its reasons, and passes without any."""
    found = tuple(reasons)
    return Check(name, bad, found) if found else Check(name, PASS, good)


def verdict(checks: Iterable[Check], allow_skipped: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return the verdict of all `checks` and its reasons; missing data is never a pass, and a skipped check only if allowed."""
    asked = tuple(checks)
    states = {one.state for one in asked}
    short = [reason for one in asked if one.state == SHORT for reason in one.why]
    unknown = [reason for one in asked if one.state == UNKNOWN for reason in one.why]
    skipped = [
        f"the check {one.name} was skipped ({'; '.join(one.why)}); a stack that accepts that sets allowSkipped"
        for one in asked
        if one.state == SKIPPED and one.name not in allow_skipped | _ADVISORY
    ]
    if SHORT in states:
        return SHORT, (*short, *unknown)
    return (UNKNOWN, (*unknown, *skipped)) if UNKNOWN in states or skipped else (PASS, ())
