"""A program with a time limit: the process that watches it exits with it."""

from __future__ import annotations

import threading

from benchmarks.runner import child


def test_a_watcher_stops_with_its_program_and_does_nothing_at_its_limit():
    late: list[str] = []
    others = set(threading.enumerate())
    with child.bounded(["echo", "done"], 300, before_end=lambda: late.append("looked")) as one:
        assert list(one.lines()) == ["done"]
        assert one.status() == 0
    for watcher in set(threading.enumerate()) - others:
        watcher.join(5)
        assert not watcher.is_alive()
    assert not late
    assert not one.late
