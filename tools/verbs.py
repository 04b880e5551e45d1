"""What commands on one stack have in common: how they are refused, how they run others, and how they end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

Run = Callable[[list[str]], str]


class RefusedError(Exception):
    """Nothing is changed; the message is one sentence."""


def shown(words: list[str]) -> str:
    """Run a command of which only the vendor's listing is read; all else goes to the screen."""
    reads = "list-instances" in words
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE if reads else None).stdout or ""


def ended(verb: str, work: Callable[[], None]) -> int:
    """Do the work of `verb`; return the exit status, and say why where it was refused."""
    try:
        work()
    except RefusedError as refused:
        sys.stderr.write(f"{verb}: {refused}\n")
        return 1
    except subprocess.CalledProcessError as failed:
        return failed.returncode or 1
    return 0
