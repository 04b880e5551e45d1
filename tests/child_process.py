"""Starts a program and kills it at the end of a `with` block, even after a failure; `with Popen` would wait for its end."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextlib.contextmanager
def started(argv: Sequence[str], **how: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start `argv` with the keyword arguments of `Popen`, and kill it at the end of the block."""
    with subprocess.Popen(argv, **how) as process:
        try:
            yield process
        finally:
            process.kill()
