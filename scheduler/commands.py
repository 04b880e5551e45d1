"""Runs the programs of a set-up, each with a time limit."""

import subprocess
import sys
from typing import List

_TIMEOUT_S = 120


def run(words: List[str], given: str = "") -> "subprocess.CompletedProcess[bytes]":
    """Run a program with `given` as its input; return its exit status (127: there is no such program) and all its output.

    On a timeout, exit with a message.
    """
    try:
        return subprocess.run(
            words,
            input=given.encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        return subprocess.CompletedProcess(words, 127, f"there is no {words[0]}".encode())
    except subprocess.TimeoutExpired:
        sys.exit("{} did not end within {} s".format(" ".join(words), _TIMEOUT_S))


def last(done: "subprocess.CompletedProcess[bytes]") -> str:
    """Return the last line of a program's output, or its exit status if it printed nothing."""
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].strip() if lines else f"status {done.returncode}"


def demand(*words: str) -> None:
    """Run a program that must succeed; otherwise exit with the last line of its output."""
    done = run(list(words))
    if done.returncode:
        sys.exit("{}: {}".format(" ".join(words), last(done)))
