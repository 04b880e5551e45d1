"""Apply the world's API faults: throttling, timeouts, a crash, lack of capacity."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any, NoReturn

from rehearsal.plugin.errors import Problem, RequestTimeoutError, ServiceError, SlowEndError
from rehearsal.plugin.store import Store
from rehearsal.world.world import World

# The vendors' providers retry throttled or timed-out requests with growing pauses; here, the number of attempts is limited.
_ATTEMPTS = 6
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 1.0


class Faults:
    """The faults of one world. If a fault may occur only so many times, the database counts how often it has occurred."""

    def __init__(self, world: World, store: Store, throttled: Problem) -> None:
        self._world = world
        self._store = store
        self._throttled = throttled

    def before(self, service: str, operation: str, stale: Problem | None = None, attempts: int = _ATTEMPTS) -> None:
        """Apply the faults of a request, which the provider attempts up to `attempts` times; return once an attempt succeeds.

        `stale` is the service's error for a resource that was created a moment ago and that the service does not know yet.

        Raises:
            ServiceError: no attempt succeeded, and the last attempt was throttled or answered with `stale`.
            RequestTimeoutError: no attempt succeeded, and the last attempt timed out.
        """
        for attempt in range(attempts):
            throttled = self._strikes("throttle", operation)
            timed_out = not throttled and self._strikes("api_timeout", operation)
            unknown = stale if not throttled and not timed_out and stale and self._strikes("eventual", operation) else None
            if not throttled and not timed_out and not unknown:
                return
            if attempt + 1 < attempts:
                time.sleep(min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S))
        if timed_out:
            raise RequestTimeoutError(operation)
        raise ServiceError(unknown or self._throttled, service, operation)

    def within(self, operation: str) -> None:
        """Crash this process in the middle of an operation if a fault requests it."""
        if self._strikes("crash", operation, default_times=1):
            _die()

    def ending(self, operation: str, timeout_s: float) -> None:
        """If a fault sets the duration of a deletion, wait for this duration, but at most `timeout_s` (0: no limit).

        Raises:
            SlowEndError: the deletion takes longer than `timeout_s`, and remains in progress.
        """
        for fault in self._world.faults():
            if fault["kind"] == "slow_end" and fault.get("operation") == operation and self._count(fault, None):
                lasts_s = float(str(fault["seconds"]))
                time.sleep(min(lasts_s, timeout_s or lasts_s))
                if timeout_s and lasts_s > timeout_s:
                    raise SlowEndError(operation, timeout_s)

    def capacity_left(self, launched: int, domain: str = "") -> bool:
        """Return whether there is capacity for one more host after `launched` hosts of the same request.

        A lack of capacity counts as one occurrence of the fault that causes the lack.
        """
        return self.lacking(launched + 1, domain) is None

    def lacking(self, size: int, domain: str = "") -> Mapping[str, Any] | None:
        """Return the fault that leaves a domain without capacity for `size` hosts at once, or None.

        Each returned fault counts as one more occurrence of that fault.
        """
        return next((fault for fault in self._short(size - 1, domain) if self._count(fault, None)), None)

    def _short(self, launched: int, domain: str) -> list[Mapping[str, Any]]:
        """Return the faults that leave no capacity after `launched` hosts; a fault with a domain affects only that domain."""
        found = [fault for fault in self._world.faults() if fault["kind"] == "capacity" and not _has_room(fault, launched)]
        return [fault for fault in found if fault.get("domain", domain) == domain]

    def stale(self, operation: str) -> bool:
        """Return whether, by a fault, an operation does not find the resources that were created a moment ago."""
        return self._strikes("eventual", operation)

    def answer_lost(self, operation: str) -> bool:
        """Return whether a fault drops the answer to a request that was carried out."""
        return self._strikes("answer_lost", operation)

    def capacity_after_retries(self, launched: int) -> bool:
        """Return whether an attempt of the provider finds capacity; a fault with `times` ends after that many refusals."""
        for attempt in range(_ATTEMPTS):
            if self.capacity_left(launched):
                return True
            if attempt + 1 < _ATTEMPTS:
                time.sleep(min(_FIRST_PAUSE_S * 2**attempt, _LONGEST_PAUSE_S))
        return False

    def _strikes(self, kind: str, operation: str, default_times: int | None = None) -> bool:
        return any(
            self._count(fault, default_times)
            for fault in self._world.faults()
            if fault["kind"] == kind and fault.get("operation") == operation
        )

    def _count(self, fault: Mapping[str, Any], default_times: int | None) -> bool:
        times = fault.get("times", default_times)
        if times is None:
            return True
        key = json.dumps(fault, sort_keys=True)
        with self._store.change() as database:
            struck = database.struck.get(key, 0)
            if struck >= times:
                return False
            database.struck[key] = struck + 1
        return True


def _has_room(fault: Mapping[str, Any], launched: int) -> bool:
    limit = fault.get("after")
    return isinstance(limit, int) and launched < limit


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process does not outlive SIGKILL")
