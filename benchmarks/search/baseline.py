"""Estimates the busbw that a healthy pair reaches, and how far below this busbw a number must be to count as slow."""

import math
from statistics import median
from typing import List, Optional, Tuple

#: A pair whose number is below the healthy median by at most this share of the median is never slow: repeats of one pair on a
#: healthy fabric differ by a few percent.
FLOOR = 0.08
#: This share is used instead of `FLOOR` if there are fewer than `_FEW` numbers.
FLOOR_OF_FEW = 0.10
_FEW = 12
MAD_TO_SD = 1.4826
WIDEST = 0.4


def baseline(numbers: List[float]) -> Tuple[Optional[float], float]:
    """Return the median of healthy pairs (GB/s), and the share of it by which a number must be lower to count as slow.

    Faults only make pairs slower, and on a small cluster they may affect most pairs, so the fastest pairs are taken as healthy.
    Without numbers the median is None.
    """
    if not numbers:
        return None, FLOOR
    ordered = sorted(numbers, reverse=True)
    healthy = ordered[len(ordered) // 10]
    floor = FLOOR if len(numbers) >= _FEW else FLOOR_OF_FEW
    drop = floor
    for _ in range(4):
        body = [number for number in ordered if number >= healthy * (1 - max(drop, 0.1))]
        healthy = median(body)
        deviation = median([abs(number - healthy) for number in body]) * MAD_TO_SD
        drop = min(WIDEST, max(floor, deviations(len(body)) * deviation / healthy)) if healthy > 0 else floor
    return healthy, drop


def deviations(count: int) -> float:
    """Return how many robust standard deviations below the median a number must be to count as slow.

    The lowest of `count` healthy numbers is about sqrt(2 ln count) deviations below the median; the limit is 0.7 deviations
    below this lowest number.
    """
    return 0.7 + math.sqrt(2 * math.log(max(2, count)))
