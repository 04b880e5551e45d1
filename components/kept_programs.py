"""Keeps packed programs and downloaded files in the user's cache, from which they are copied to other machines."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def kept(data: bytes, name: str) -> str:
    """Write `data` to the file `name` in the user's cache, unless the file already has this content; return the file's path.

    The file is not a temporary file, because the engine may kill this program before it could delete such a file. Every update
    uses the same file, and no update deletes it.
    """
    path = place(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.is_file() or path.read_bytes() != data:
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as fresh:
            fresh.write(data)
        Path(fresh.name).replace(path)
    return str(path)


def place(name: str) -> Path:
    """Return the path of the file `name` in the user's cache; the file may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "busbar" / name
