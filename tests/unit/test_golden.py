"""Every golden file is listed in SOURCES with its origin, and every transcript is read by a test."""

from __future__ import annotations

import re
from pathlib import Path

GOLDEN = Path(__file__).parents[1] / "golden"


def test_every_golden_file_is_listed_once_in_sources():
    named = re.findall(r"^  (\S+)", (GOLDEN / "SOURCES").read_text(), flags=re.MULTILINE)
    files = [path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.is_file() and path.name != "SOURCES"]
    by_pattern = {pattern: [name for name in files if Path(name).match(pattern)] for pattern in named}
    assert all(by_pattern.values()), by_pattern
    assert sorted(name for names in by_pattern.values() for name in names) == sorted(files)


def test_every_transcript_is_read_by_some_test():
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    for path in (GOLDEN / "transcripts").iterdir():
        assert path.name in tests or path.stem in tests, path.name
