"""Every mutant in known.json can still be applied to its source; if one cannot, update known.json. Also tests the generator."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tools.mutants.__main__ import ROOT, known
from tools.mutants.change import Mutant, of, sample
from tools.mutants.reach import Reach

SOURCE = """
def f(a, b):
    if a < b and not g(a, b):
        return a + 1
    h(a)
    return None
"""


def test_every_known_mutant_changes_a_file_that_tests_reach(tmp_path):
    reach = Reach(ROOT)
    for mutant in known():
        copy = tmp_path / mutant.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text((ROOT / mutant.file).read_text())
        mutant.apply(tmp_path)
        ast.parse(copy.read_text())
        assert copy.read_text() != (ROOT / mutant.file).read_text()
        assert reach.tests_of(mutant.file), mutant


def test_mutants_of_every_kind_are_made(tmp_path):
    Path(tmp_path, "f.py").write_text(SOURCE)
    found = {(mutant.old, mutant.new) for mutant in of("f.py", SOURCE) if mutant.is_python(tmp_path)}
    assert found == {
        (" < ", " <= "),
        (" and ", " or "),
        ("not ", ""),
        ("a, b", "b, a"),
        ("1", "2"),
        (" + ", " - "),
        ("a < b and not g(a, b)", "False"),
        ("h(a)", "None"),
        ("return a + 1", "return None"),
    }


def test_a_sample_depends_only_on_the_seed_and_takes_each_line_at_most_once():
    files = ["benchmarks/judge/checks.py", "benchmarks/plan/gate.py"]
    first, second, other = (sample(ROOT, files, 8, random.Random(seed)) for seed in (1, 1, 2))  # noqa: S311 - a sample
    assert first == second != other
    assert len({(mutant.file, mutant.line) for mutant in first}) == len(first) == 8


def test_a_mutant_whose_line_moved_is_refused(tmp_path):
    Path(tmp_path, "f.py").write_text(SOURCE)
    with pytest.raises(ValueError, match=r"f\.py:3 no longer holds 'a > b'"):
        Mutant("f.py", 3, 7, "a > b", "a >= b").apply(tmp_path)
