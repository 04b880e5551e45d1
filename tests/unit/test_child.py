"""A program with a time limit: when the program exits, the thread that watches the program exits, too."""

from __future__ import annotations

import threading

from benchmarks.runner import child


def test_the_watcher_thread_of_a_program_ends_together_with_the_program_and_does_nothing_afterwards():
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
