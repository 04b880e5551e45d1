"""Code shared by the commands on one stack: refusals, running other commands, and exit statuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

Run = Callable[[list[str]], str]
#: The project's name in Pulumi.yaml; other projects may have stacks of the same names in the same backend.
PROJECT = "busbar"


class RefusedError(Exception):
    """The command was refused; the message says why. Only `tools.take_in` may have changed the state before the refusal."""


def shown(words: list[str]) -> str:
    """Run a command. Return the output of `list-instances`; show the output of any other command, and return an empty text."""
    reads = "list-instances" in words
    return subprocess.run(words, check=True, text=True, stdout=subprocess.PIPE if reads else None).stdout or ""


def ended(verb: str, work: Callable[[], None]) -> int:
    """Run the function `work`; return the exit status. After a refusal, print the command's name (`verb`) and the reason."""
    try:
        work()
    except RefusedError as refused:
        sys.stderr.write(f"{verb}: {refused}\n")
        return 1
    except subprocess.CalledProcessError as failed:
        return failed.returncode or 1
    return 0
