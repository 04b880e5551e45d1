"""The states of a check, and how checks add up to one verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PASS, SHORT, UNKNOWN, SKIPPED = "pass", "short", "unknown", "skipped"
#: Checks that compare the run with earlier runs (`history`) or with a published figure (`nvls`). If the records are unreadable
#: or no figure is published, the check is skipped with the reason, and the verdict does not change.
_ADVISORY = frozenset({"history", "nvls"})


@dataclass(frozen=True)
class Check:
    """One check of a measurement and its result.

    Attributes:
        name: what was checked, usually one word.
        state: pass, short, unknown, or skipped if the check could not be made. The check `upgrade` is also skipped if the
            measured number is below the limit from runs before a change: such a number does not show whether the change or
            the fabric is the cause.
        why: sentences on what is wrong, on the evidence that nothing is wrong, or on why the check was skipped.
    """

    name: str
    state: str
    why: tuple[str, ...] = ()


def check(name: str, reasons: Iterable[str], *, bad: str = SHORT, good: tuple[str, ...] = ()) -> Check:
    """Return a check whose state is `bad` if there are reasons; without reasons the check passes."""
    found = tuple(reasons)
    return Check(name, bad, found) if found else Check(name, PASS, good)


def verdict(checks: Iterable[Check], allow_skipped: frozenset[str]) -> tuple[str, tuple[str, ...]]:
    """Return the verdict of all `checks`, and the verdict's reasons.

    An unknown check always prevents a pass. A skipped check prevents a pass, too, unless `allow_skipped` names that check or
    the check is advisory.
    """
    asked = tuple(checks)
    states = {one.state for one in asked}
    short = [reason for one in asked if one.state == SHORT for reason in one.why]
    unknown = [reason for one in asked if one.state == UNKNOWN for reason in one.why]
    skipped = [
        f"the check {one.name} was skipped ({'; '.join(one.why)}); to accept that, add {one.name} to allowSkipped"
        for one in asked
        if one.state == SKIPPED and one.name not in allow_skipped | _ADVISORY
    ]
    if SHORT in states:
        return SHORT, (*short, *unknown)
    return (UNKNOWN, (*unknown, *skipped)) if UNKNOWN in states or skipped else (PASS, ())
