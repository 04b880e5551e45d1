"""Wait for a condition that a test needs; the time limit only stops a test that hangs, and is no assertion about speed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: A loaded machine needs only a small part of this time.
_HANGS_AFTER_S = 60


def wait_until(condition: Callable[[], object], what: str, hangs_after_s: int = _HANGS_AFTER_S) -> None:
    """Return once `condition` holds.

    Raises:
        TimeoutError: `condition` still does not hold after `hangs_after_s` seconds. The error's text contains `what`.
    """
    deadline = time.monotonic() + hangs_after_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {hangs_after_s} s still waiting until {what}")
        time.sleep(0.02)
