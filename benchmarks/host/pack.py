"""Pack the runner into one zipapp whose bytes depend on its source alone, so that its hash names its content.

It deliberately compiles nothing: the nodes' Pythons differ.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

_RUNNER = Path(__file__).parent.parent / "runner"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip archive can hold
_SHEBANG = b"#!/usr/bin/env python3\n"


def runner() -> bytes:
    """Return the runner as an executable zipapp."""
    modules = [path for path in sorted(_RUNNER.glob("*.py")) if path.name != "__init__.py"]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for path in modules:
            archive.writestr(zipfile.ZipInfo(path.name, _EPOCH), path.read_bytes())
    return _SHEBANG + packed.getvalue()


def digest(data: bytes) -> str:
    """Return the name of `data`: 16 hex digits of its sha256."""
    return hashlib.sha256(data).hexdigest()[:16]
