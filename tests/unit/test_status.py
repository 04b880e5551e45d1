"""One screen shows the state of a stack, from nothing but its outputs."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from measured_outputs import SEARCHED, whole
from measurement_line import PLAN, line, row, with_step

from benchmarks.report import outputs
from tools import status

GOLDEN = Path(__file__).parents[1] / "golden" / "screens"
NOW = datetime(2026, 1, 2, 6, 4, 5, tzinfo=UTC)
SHORT = with_step("all_reduce", rows=[row(size, 0.02) for size in PLAN.sizes_bytes])
TEXTS = {
    "status-pass": lambda: status.status(whole(line()), NOW) + "\n",
    "status-short": lambda: status.status(whole(SHORT, SEARCHED), NOW) + "\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is_the_one_that_was_reviewed(name, reviewed):
    reviewed(GOLDEN / f"{name}.txt", TEXTS[name]())


def test_every_reviewed_screen_is_compared_and_no_reviewed_file_is_left_over():
    assert {path.stem for path in GOLDEN.glob("status-*")} == set(TEXTS)


def test_the_status_of_a_hundred_nodes_and_a_hundred_reasons_fits_on_a_screen():
    found = whole(SHORT, SEARCHED)
    found["nodes"] = [{"name": f"n{number}", "address": "10.0.0.1", "pool": "gpu"} for number in range(100)]
    found["measured"]["reasons"] = ["x" * 500] * 100
    text = status.status(found, NOW)
    assert len(text.splitlines()) < 30
    assert "and 92 more nodes" in text
    assert "and 96 more reasons" in text


def test_the_status_of_a_stack_without_nodes_says_that_nothing_was_measured_and_what_is_billed():
    found = whole(line()) | {"nodes": [], "ssh": None, "expected": None}
    found["measured"] = outputs.nothing_measured("gpu", "gpu has no nodes yet, so nothing was measured")
    text = status.status(found, NOW)
    assert text.splitlines()[:2] == [
        "verdict UNKNOWN: no bus bandwidth was measured",
        "  - gpu has no nodes yet, so nothing was measured",
    ]
    assert "measured: never\n" in text
    billed = "login nodes, storage and the nodes that Slurm started are billed"
    assert text.endswith(f"costs:    no GPU node; in a real account, {billed}")
    for target in ("hosts", "kubernetes"):
        assert status.status(found | {"target": target}, NOW).endswith("costs:    none: this stack rents nothing")


@pytest.mark.parametrize(
    ("started", "says"),
    [("2026-01-02T06:03:00Z", "1 min"), ("2026-01-02T03:04:05Z", "3 h"), ("2025-12-30T06:00:00Z", "3 days")],
)
def test_the_age_of_a_measurement_is_in_words(started, says):
    found = whole(line())
    found["measured"]["measured_at"] = started
    assert f"UTC, {says} ago" in status.status(found, NOW)


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"measured": None})])
def test_invalid_outputs_are_reported_in_one_sentence(monkeypatch, capsys, tmp_path, text):
    (tmp_path / "in").write_text(text)
    with (tmp_path / "in").open() as source:
        monkeypatch.setattr("sys.stdin", source)
        assert status.main() == 1
    assert capsys.readouterr().err.startswith("status: these are no outputs of this program")
