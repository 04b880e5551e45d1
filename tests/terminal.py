"""A terminal of 80 columns and 24 rows, and what a person sees in it while a program runs."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

COLUMNS, ROWS = 80, 24
#: Escape sequences that change colours and the like, but do not move the cursor.
_LOOKS = re.compile(r"\x1b\[[0-9;]*m|\x1b\(B|\x1b\[\?25[hl]")


def visible(text: str) -> str:
    """Return the part of `text` that is on the screen after the terminal has printed all of `text`.

    The rows are joined to one line, because a person reads on from row to row.

    Raises:
        ValueError: the text moves the cursor, so the last rows of the text are not the rows on the screen.
    """
    plain = _LOOKS.sub("", text)
    if (moved := re.search(r"\x1b.{0,8}", plain)) is not None:
        raise ValueError(f"the cursor is moved: {moved[0]!r}")
    rows: list[str] = []
    for line in plain[-COLUMNS * ROWS * 2 :].replace("\r\n", "\n").split("\n"):
        last = line.rpartition("\r")[2]  # a carriage return: the text before it is overwritten
        rows += [last[at : at + COLUMNS] for at in range(0, max(len(last), 1), COLUMNS)]
    return "".join(rows[-ROWS:])


def watch(
    words: Sequence[str], see: Callable[[str], None], *, cwd: Path, environment: Mapping[str, str], timeout_s: float
) -> tuple[int, str]:
    """Run `words` in the terminal and call `see` with the visible text at each change; return exit status and all output.

    Raises:
        TimeoutError: the program ran longer than `timeout_s` and was killed.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    terminal = {"TERM": "xterm", **environment}
    with subprocess.Popen(words, cwd=cwd, env=terminal, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs) as child:
        os.close(theirs)
        deadline, raw = time.monotonic() + timeout_s, b""
        ready = select.poll()  # select() supports no descriptor above 1,023, and a process of many tests may have more
        ready.register(ours, select.POLLIN)
        while True:
            if not ready.poll(1000 * max(deadline - time.monotonic(), 0)):
                child.kill()
                raise TimeoutError(f"{words} ran longer than {timeout_s} s: {raw.decode('utf-8', 'replace')}")
            try:
                some = os.read(ours, 1 << 16)
            except OSError:  # no process has the other end open any more
                some = b""
            if not some:
                break
            raw += some
            see(visible(raw.decode("utf-8", "replace")))
        os.close(ours)
    return child.returncode, raw.decode("utf-8", "replace").replace("\r\n", "\n")
