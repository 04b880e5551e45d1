"""The page of expected numbers lists every machine of the catalogue, and agrees with published measurements."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.plan import ceiling
from catalogue.published import ROWS
from tools import expected_numbers

PAGE = Path(__file__).parents[2] / "docs" / "expected-numbers.md"
#: How much the busbw of a published healthy cluster may differ from its prediction, as a share of the prediction.
WITHIN = 0.25


def test_the_committed_page_is_what_the_catalogue_gives():
    assert expected_numbers.page() == PAGE.read_text(), "run: python -m tools.expected_numbers > docs/expected-numbers.md"


def test_every_machine_has_either_expected_numbers_or_a_reason_for_their_absence():
    text = PAGE.read_text()
    for shape in expected_numbers.machines():
        assert (f"| {shape.name} |" in text) != (f"- {shape.name}: " in text), shape.name


@pytest.mark.parametrize(
    "row",
    [one for one in ROWS if one.collective == "all_reduce" and expected_numbers.uses_a_ring(one)],
    ids=lambda one: f"{one.where}, {one.nodes}",
)
def test_published_measurements_of_all_reduce_over_a_ring_are_near_the_predictions(row):
    expected = ceiling.predicted_gb_s(row.shape, row.nodes)
    assert expected is not None
    assert abs(row.busbw_gb_s / expected - 1) < WITHIN
