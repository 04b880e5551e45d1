"""Pack rehearsal/nccl-tests into the tar that rehearsed stack files name as source; equal sources give equal bytes.

tools/nccl_tests_archive.py TARGET     write the archive, unless the file already has the same bytes
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
import tempfile
from pathlib import Path

_SOURCE = Path(__file__).parent.parent / "rehearsal" / "nccl-tests"
_KEPT = {".c", ".h"}


def archive() -> bytes:
    """Return the archive: sorted members, no owner, no time."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(_SOURCE.rglob("*")):
            if path.suffix not in _KEPT and path.name not in {"Makefile", "README.md"}:
                continue
            member = tarfile.TarInfo(f"nccl-tests/{path.relative_to(_SOURCE)}")
            member.size = path.stat().st_size
            member.mode = 0o644
            tar.addfile(member, io.BytesIO(path.read_bytes()))
    return packed.getvalue()


def main(target: Path) -> None:
    """Write the archive to `target`."""
    data = archive()
    if not target.is_file() or target.read_bytes() != data:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".draft")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(draft).chmod(0o644)
        Path(draft).rename(target)  # another process may be reading the archive, or writing it, too


if __name__ == "__main__":
    main(Path(sys.argv[1]))
