"""Detects pairs that slow each other down on links between leaf switches: compares rounds of many pairs with sparse rounds."""

from typing import Callable, Dict, List

from benchmarks.search.trials import PAIR, Pair, Sample, pair_of, whole_pairs

#: If at least this many pairs of one round are slow, they may share a link.
COMPANY = 3


def few_at_once(nodes: int) -> int:
    """Return how many pairs a sparse round has: so few that a spine at 1/8 of the leaves' rate does not slow the pairs down."""
    return max(PAIR, nodes // 16)


def lone_at_once(nodes: int, *, is_packed: bool) -> int:
    """Return how many pairs can run at once so that two pairs almost never share a link between leaf switches.

    If many pairs of a round are slow (`is_packed`), leaves may be small, and even two pairs of one leaf may share a link.
    """
    return max(1, nodes // (64 if is_packed else 16))


def lone_samples(rounds: List[List[Sample]], nodes: int, *, is_packed: bool) -> Dict[Pair, List[Sample]]:
    """Return the samples of the rounds whose pairs almost never share a link (`lone_at_once`), by pair."""
    found = {}  # type: Dict[Pair, List[Sample]]
    for samples in rounds:
        if len(samples) <= lone_at_once(nodes, is_packed=is_packed):
            for sample in whole_pairs(samples):
                found.setdefault(pair_of(*sample.trial.nodes), []).append(sample)
    return found


def crowded(rounds: List[List[Sample]], nodes: int, is_slow: Callable[[Sample], bool]) -> List[List[Sample]]:
    """Return the slow samples of each crowded round: a round that ran many pairs at once and has several slow samples."""
    many = [tried for tried in map(whole_pairs, rounds) if len(tried) > few_at_once(nodes)]
    slow = [[sample for sample in tried if is_slow(sample)] for tried in many]
    return [samples for samples in slow if len(samples) >= COMPANY]


def is_packed(rounds: List[List[Sample]], nodes: int, is_slow: Callable[[Sample], bool]) -> bool:
    """Tell whether at least a quarter of the pairs was slow in any round of many pairs.

    Disturbances and faults make a smaller share of the pairs slow.
    """
    many = [tried for tried in map(whole_pairs, rounds) if len(tried) > few_at_once(nodes)]
    return any(sum(map(is_slow, tried)) * 4 >= len(tried) for tried in many)
