"""Every reviewed file has a text that is compared with it and a line that says where it comes from."""

from __future__ import annotations

import re
from pathlib import Path

import test_cloudinit
import test_cloudinit_aws
import test_ending
import test_status

GOLDEN = Path(__file__).parents[1] / "golden"


def test_every_reviewed_first_boot_is_compared_and_none_is_left_over():
    compared = {f"{name}.yaml" for name in (*test_cloudinit.TEXTS, *test_cloudinit_aws.TEXTS)}
    assert {path.name for path in (GOLDEN / "cloudinit").iterdir()} == compared


def test_every_reviewed_screen_is_compared_and_none_is_left_over():
    assert {path.stem for path in (GOLDEN / "screens").iterdir()} == {*test_ending.TEXTS, *test_status.TEXTS}


def test_every_reviewed_file_says_where_it_comes_from():
    named = re.findall(r"^  (\S+)", (GOLDEN / "SOURCES").read_text(), flags=re.MULTILINE)
    files = [path.relative_to(GOLDEN).as_posix() for path in GOLDEN.rglob("*") if path.is_file() and path.name != "SOURCES"]
    by_pattern = {pattern: [name for name in files if Path(name).match(pattern)] for pattern in named}
    assert all(by_pattern.values()), by_pattern
    assert sorted(name for names in by_pattern.values() for name in names) == sorted(files)


def test_every_transcript_is_read_by_some_test():
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    for path in (GOLDEN / "transcripts").iterdir():
        assert path.name in tests or path.stem in tests, path.name
