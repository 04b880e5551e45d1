"""Tests that the documentation names are there."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

NAMED = sorted(
    {
        (page.name, name)
        for page in (ROOT / "docs").glob("*.md")
        for name in re.findall(r"`(test_\w+|tests/[\w/.]+)`", page.read_text())
    }
)
SOURCES = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))


@pytest.mark.parametrize(("page", "name"), NAMED)
def test_a_test_that_a_page_names_is_there(page, name):
    assert (ROOT / name).exists() or f"def {name}(" in SOURCES, page
