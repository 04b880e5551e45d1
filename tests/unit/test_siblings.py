"""What one of several equals must reach: a share of the better one of two, the median less a spread of more."""

from __future__ import annotations

import pytest

from benchmarks.judge.siblings import limit_gb_s, middle_of


@pytest.mark.parametrize(
    ("numbers", "limit"),
    [
        ([100.0], 0.0),  # nobody to compare with
        ([100.0, 50.0], 80.0),  # 0.8 of the better one
        ([100.0, 100.0, 100.0], 90.0),  # a deviation is at least 2 %, and five are allowed
        ([90.0, 100.0, 110.0], 100 - 5 * 1.4826 * 10),  # wide apart: five robust deviations
    ],
)
def test_a_limit_is_what_the_others_allow(numbers, limit):
    middle, mad = middle_of(numbers)
    assert limit_gb_s(len(numbers), middle, mad, max(numbers)) == pytest.approx(limit)
