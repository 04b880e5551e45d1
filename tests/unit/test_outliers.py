"""The limit below which one of several equal parts is an outlier.

With two numbers, the limit is a share of the better number. With more numbers, it is the median less a multiple of the spread,
and the spread counts as at least 2 % of the median.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.judge.measurement import Groups, groups
from benchmarks.judge.outliers import limit_gb_s, middle_of


@pytest.mark.parametrize(
    ("numbers", "limit"),
    [
        ([100.0], 0.0),  # one number: there is no other to compare it with
        ([100.0, 50.0], 80.0),  # two numbers: 0.8 of the better one
        ([100.0, 100.0, 100.0], 90.0),  # no spread: five times 2 % of the median is allowed
        ([90.0, 100.0, 110.0], 100 - 5 * 1.4826 * 10),  # a wide spread: five times 1.4826 times the MAD is allowed
    ],
)
def test_the_limit_depends_on_the_count_and_the_spread_of_the_numbers(numbers, limit):
    middle, mad = middle_of(numbers)
    assert limit_gb_s(len(numbers), middle, mad, max(numbers)) == pytest.approx(limit)


MANY = {"count": 300, "most": 4.0, "middle": 3.0, "mad": 0.1, "slowest": [[7, 2], [1, 1.5]]}


def test_groups_of_ranks_are_read_from_a_summary_and_from_a_full_list():
    assert groups(MANY, 300) == Groups(300, ((1, 1.5), (7, 2.0)), 4.0, 3.0, 0.1)
    assert groups([4, 2.0, 3], 3) == Groups(3, ((1, 2.0), (2, 3), (0, 4)), 4, 3.0, 1.0)


@pytest.mark.parametrize(
    "slowest", [None, [], {}, "", 7, [[1, 1.5], "x"], [[1, 1.5], [2]], [[300, 1.5]], [[-1, 1.5]], [[1, -1.5]], [["1", 1.5]]]
)
def test_a_summary_whose_list_of_the_slowest_groups_is_invalid_is_not_read(slowest: Any):
    assert groups(MANY | {"slowest": slowest}, 300) is None


THREE = MANY | {"count": 3, "slowest": [[1, 1.5]]}


@pytest.mark.parametrize(
    "found", [None, [], [4, 2.0], [4, 2.0, None], [4, 2.0, float("nan")], THREE | {"count": 300}, THREE | {"mad": None}]
)
def test_incomplete_groups_and_an_unexpected_number_of_groups_are_not_read(found: Any):
    assert groups(THREE, 3) is not None
    assert groups(found, 3) is None
