"""Finds outliers among equal groups, such as rails or the insides of nodes, that did the same work at the same time."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: An outlier is at least `_DEVIATIONS` robust standard deviations below the median. A robust standard deviation is 1.4826 times
#: the median absolute deviation (MAD), but at least `_LEAST` times the median.
_DEVIATIONS, _LEAST, _MAD_TO_SD = 5.0, 0.02, 1.4826
#: If there are only two groups, neither is typical; a group that reaches less than this share of the other group is an outlier.
_PAIR, _OF_TWO = 2, 0.8


def limit_gb_s(count: int, middle: float, mad: float, most: float) -> float:
    """Return the number that each of `count` groups must reach, from the groups' median, MAD and maximum; 0 for one group."""
    if count < _PAIR:
        return 0.0
    if count == _PAIR:
        return _OF_TWO * most
    return middle - _DEVIATIONS * max(_MAD_TO_SD * mad, _LEAST * middle)


def middle_of(numbers: Sequence[float]) -> tuple[float, float]:
    """Return median and median absolute deviation of `numbers` (at least one)."""
    middle = median(numbers)
    return middle, median(abs(number - middle) for number in numbers)
