"""Damaged transcripts, JSON results and lines neither crash the program nor get a false pass."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from tools.fuzz.__main__ import main
from tools.fuzz.bases import SEARCH, bases, line_of
from tools.fuzz.cases import CRASH, FALSE_PASS, Case, Tried, keep, read, smaller, tried
from tools.fuzz.edits import Edit, applied, edits
from tools.fuzz.plain_reading import doubts

CORPUS = sorted((Path(__file__).parents[1] / "golden" / "fuzz").glob("*.json"))
BASES = {base.name: base for base in bases()}
HEALTHY = BASES["a real server"]


def test_every_measurement_is_judged_correctly_before_the_measurement_is_damaged():
    for base in BASES.values():
        found = tried(base, [])
        assert (found.verdict == "pass", found.failure) == (base.healthy, ""), base.name


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_inputs_that_once_caused_a_crash_or_a_false_pass_get_the_verdict_short_or_unknown(path):
    case = read(path)
    base = BASES[case.base]
    assert case.failure in {CRASH, FALSE_PASS}
    assert applied(list(case.edits), base.documents) not in (None, base.documents), "the edits no longer damage anything"
    found = tried(base, case.edits)
    assert found.verdict in {"short", "unknown"}


def test_damaged_measurements_cause_no_crash_and_no_false_pass(tmp_path, capsys):
    assert main(["--seed", "7", "--executions", "150", "--corpus", str(tmp_path)]) == 0
    assert "0 crashes, 0 false passes" in capsys.readouterr().out


def test_documents_with_numbers_too_large_for_a_float_can_be_damaged_further():
    documents = {
        name: re.sub(r'("(?:time|alg_bw|bus_bw)": )[\d.]+', rf"\g<1>1{'0' * 400}", text)
        for name, text in HEALTHY.documents.items()
    }
    assert documents != HEALTHY.documents
    made = [edits(documents, random.Random(seed)) for seed in range(200)]  # noqa: S311 - no secret
    assert any(made)


def test_the_judge_and_the_independent_check_both_find_a_busbw_that_differs_between_text_and_json():
    """The independent check is tools/fuzz/plain_reading.py. It would report a false pass if the judge overlooked the damage."""
    exact = HEALTHY.documents["all_reduce.json"]
    at = exact.rindex('"bus_bw": 345.381859')
    edit = Edit("all_reduce.json", at, '"bus_bw": 345.381859', '"bus_bw": 200.000000')
    assert tried(HEALTHY, [edit]).verdict == "unknown"
    documents = applied([edit], HEALTHY.documents)
    told = doubts(documents, line_of(documents, HEALTHY.asked), HEALTHY.asked)
    assert "all_reduce: the text says 345.38, JSON 200.0" in told


def test_a_broken_search_result_does_not_change_the_verdict_of_a_short_line_or_of_a_passing_line():
    short = BASES["a healthy retest"]
    line = short.documents["line"]
    broken = Edit(SEARCH, 0, short.documents[SEARCH], "{")
    healed = Edit("line", line.index('"cv_pct": 60.0'), '"cv_pct": 60.0', '"cv_pct": 0.60')
    assert tried(short, [broken]).verdict == "short"
    assert tried(short, [broken, healed]) == Tried("pass")


def test_a_failure_is_kept_once_and_without_unneeded_edits(tmp_path):
    case = Case("a real server", (Edit("frame", 0, "{", "["),), CRASH, "ValueError at 7")
    assert keep(case, tmp_path)
    assert not keep(case, tmp_path), "only one file is kept for each reason"
    (path,) = tmp_path.iterdir()
    assert read(path) == case
    needless = [Edit("all_reduce.txt", 0, "#", "##"), Edit(SEARCH, 0, "", "x")]
    assert smaller(HEALTHY, needless, "") == []
