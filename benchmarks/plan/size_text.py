"""Writes message sizes for people: in verdicts, tables and previews."""

from __future__ import annotations


def size_text(size_bytes: int) -> str:
    """Return `size_bytes` in the largest unit that gives a whole number, such as `64 MiB`."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size_bytes >= factor and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}"
    return f"{size_bytes} B"
