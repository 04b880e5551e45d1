"""Packs the runner into one zipapp; equal sources give equal bytes, so its hash names its content.

Nothing is compiled, because the nodes' Python versions differ.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: Rooms that need only the standard library of Python 3.6.
_ROOMS = ("benchmarks/launch", "benchmarks/search", "benchmarks/runner", "scheduler")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"import sys\nfrom benchmarks.runner.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"


def runner() -> bytes:
    """Return the runner as an executable zipapp, its modules under the names that they have here."""
    modules = [_ROOT / "benchmarks/__init__.py", *(path for room in _ROOMS for path in sorted((_ROOT / room).glob("*.py")))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for path in modules:
            name = path.relative_to(_ROOT).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    return _SHEBANG + packed.getvalue()


def digest(data: bytes) -> str:
    """Return the name of `data`: 16 hex digits of its sha256."""
    return hashlib.sha256(data).hexdigest()[:16]
