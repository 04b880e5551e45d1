"""Runs a Slurm command on this node and returns its output."""

import subprocess
from typing import Sequence

from benchmarks.runner.refusal import Refusal

_TIMEOUT_S = 60


def said(words: Sequence[str], cannot: str, given: bytes = b"") -> str:
    """Return the output of the command `words` with the input `given`.

    Raises:
        Refusal: the command did not run to its end, or it failed; if it failed, the message is `cannot` and the last line of
            the command's error output.
    """
    try:
        done = subprocess.run(
            words,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Refusal(f"Slurm cannot be queried on this node: {error}") from None
    if done.returncode:
        last = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"])[-1]
        raise Refusal(f"{cannot}: {last}")
    return done.stdout.decode("utf-8", "replace")
