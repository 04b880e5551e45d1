"""Helpers that the tests of every stand-in cloud share: inputs with one value changed, and planted faults."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from typing import Any

from wait_until import wait_until

from rehearsal.plugin.cloud import Cloud

#: Endings of thread names: in threads with such names, a stand-in cloud continues to work after it has answered a call.
_IN_THE_BACKGROUND = ("(turn)", "(_end)")


def faults(cloud: Cloud, *listed: dict[str, object]) -> None:
    cloud.world.folder()
    (cloud.world.path / "faults.json").write_text(json.dumps(listed))


def work_done(cloud: Cloud) -> Iterator[None]:
    """Run a test, then wait for the work that the test's calls began.

    Work that continued after the test's fakes are gone would start real hosts.
    """
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        if thread.name.endswith(_IN_THE_BACKGROUND):
            thread.join()
    wait_until(lambda: all(one.state != "pending" for one in cloud.store.read().records.values()), "no launch is under way")


def put(inputs: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of the inputs with `value` at a dotted path; if `value` is None, the last key of the path is removed."""
    changed = copy.deepcopy(inputs)
    *way, last = path.split(".")
    here: Any = changed
    for step in way:
        here = here[int(step)] if step.isdecimal() else here.setdefault(step, {})
    key = int(last) if last.isdecimal() else last
    if value is None:
        del here[key]
    else:
        here[key] = value
    return changed
