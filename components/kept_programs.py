"""Keeps packed programs, and files that were downloaded, in the user's cache, from where they are copied to other machines."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def kept(data: bytes, name: str) -> str:
    """Keep `data` under its own name; return its path.

    The engine may end this program at any line, so nothing here waits to be removed: one file serves every update.
    """
    path = place(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
            fresh.write(data)
        Path(fresh.name).replace(path)
    return str(path)


def place(name: str) -> Path:
    """Return where a file of that name is kept; it may not be there yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "busbar" / name
