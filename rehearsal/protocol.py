"""Helpers with which programs that serve the engine start fast and stop on a signal."""

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
    """Make `pulumi.runtime.proto` importable without the rest of `pulumi`.

    A plugin needs only `pulumi.runtime.proto`. Without the rest of `pulumi`, the plugin starts in half the time.

    Call this function before any import from `pulumi`; afterwards, no other part of `pulumi` can be imported.
    """
    # Garbage collection takes a fifth of a plugin's start time. A plugin runs only for one operation, so it can do without.
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
    """Catches SIGINT and SIGTERM from now on, and lets the caller wait for them.

    Do not use a threading.Event here. Handler and caller run in the same thread: if a signal arrives while the thread holds the
    Event's lock, the handler waits for that lock forever.
    """

    def __init__(self) -> None:
        self._told, self._tell = os.pipe()
        os.set_blocking(self._tell, False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._arrived)

    def _arrived(self, _number: int, _frame: types.FrameType | None) -> None:
        with contextlib.suppress(BlockingIOError):  # if earlier signals fill the pipe, `wait` returns anyway
            os.write(self._tell, b"x")

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, for at most `seconds`; return whether one has arrived."""
        return bool(select.select([self._told], [], [], seconds)[0])
