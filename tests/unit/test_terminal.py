"""The pane of `tests/terminal.py` shows what a terminal of 80 columns and 24 rows would show."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import terminal


def test_long_lines_wrap_and_what_has_scrolled_away_is_not_seen():
    assert terminal.visible("first\n" + "x" * 100 + "\n" * 23 + "last") == "x" * 20 + "last"
    assert "first" not in terminal.visible("first\n" + "\n" * 30)


def test_colours_and_overwritten_text_are_not_seen():
    assert terminal.visible("\x1b[31m10 %\r20 %\x1b[0m\r\nend") == "20 %end"


def test_text_that_moves_the_cursor_is_refused():
    with pytest.raises(ValueError, match="the cursor is moved"):
        terminal.visible("one\x1b[2Atwo")


def test_a_program_in_the_pane_is_seen_while_it_runs_and_knows_the_size_of_the_pane():
    script = "import os, time; print(os.get_terminal_size(1), flush=True); time.sleep(0.2); print('later'); raise SystemExit(3)"
    seen: list[str] = []
    status, text = terminal.watch([sys.executable, "-c", script], seen.append, cwd=Path.cwd(), environment={}, timeout_s=30)
    assert (status, text) == (3, "os.terminal_size(columns=80, lines=24)\nlater\n")
    assert "later" not in seen[0]
    assert seen[-1].endswith("later")
