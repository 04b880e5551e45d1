"""Packs the runner into one zipapp; equal sources produce equal bytes, so the zipapp's hash identifies its content.

Nothing is compiled, because the nodes' Python versions differ.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

_ROOT = Path(__file__).parents[2]
#: The packages that the zipapp contains. They need only the standard library of Python 3.6.
_PACKAGES = ("benchmarks/launch", "benchmarks/search", "benchmarks/runner", "scheduler")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
_SHEBANG = b"#!/usr/bin/env python3\n"
_MAIN = b"import sys\nfrom benchmarks.runner.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"


def runner() -> bytes:
    """Return the runner as an executable zipapp whose modules keep their names."""
    modules = [_ROOT / "benchmarks/__init__.py", *(path for part in _PACKAGES for path in sorted((_ROOT / part).glob("*.py")))]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", _EPOCH), _MAIN)
        for path in modules:
            name = path.relative_to(_ROOT).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes())
    return _SHEBANG + packed.getvalue()


def digest(data: bytes) -> str:
    """Return the id of `data`: the first 16 hex digits of its sha256."""
    return hashlib.sha256(data).hexdigest()[:16]


def file_name(data: bytes) -> str:
    """Return the file name of the runner whose bytes are `data`; the name is the same on every machine."""
    return f"busbar-runner-{digest(data)}.pyz"
