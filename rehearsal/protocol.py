"""What every program that serves the engine needs: a fast start, and the signals that stop it."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import select
import signal
import sys
import types


def start_fast() -> None:
    """Make `pulumi.runtime.proto` importable by itself: a plugin needs only its messages, and starts in half the time.

    Call it before any import from `pulumi`; nothing else of `pulumi` can be imported afterwards.
    """
    # Garbage collection takes a fifth of the start, and a plugin lives only as long as one operation.
    gc.disable()
    found = importlib.util.find_spec("pulumi")
    if found is None or not found.submodule_search_locations or "pulumi" in sys.modules:
        return
    root = found.submodule_search_locations[0]
    for name, folder in (("pulumi", root), ("pulumi.runtime", f"{root}/runtime")):
        package = types.ModuleType(name)
        package.__path__ = [folder]
        sys.modules[name] = package


class StopSignals:
    """SIGINT and SIGTERM, from now on as something to wait for.

    An Event that a handler sets does not do: a signal that arrives while this thread holds the Event's lock waits for that lock
    forever.
    """

    def __init__(self) -> None:
        self._told, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._arrived)

    def _arrived(self, _number: int, _frame: types.FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):  # full of earlier ones
            os.write(self._tell, b"x")

    def wait(self, seconds: float) -> bool:
        """Return whether one has arrived, after `seconds` at most."""
        return bool(select.select([self._told], [], [], seconds)[0])
