"""The data of a search: trials, their samples, and culprits with their evidence."""

import math
from statistics import median_high
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

#: Number of nodes in the smallest ring; a larger ring is called a group here.
PAIR = 2

Pair = Tuple[int, int]


class Trial(NamedTuple):
    """One run: `nodes` as indices in ring order (two or more), `rails` as indices, () for all rails at once."""

    nodes: Tuple[int, ...]
    rails: Tuple[int, ...]


class Sample(NamedTuple):
    """The result of a trial: `busbw_gb_s` (GB/s, None if there is no number), and `why`, the reason if there is no number.

    If there is a number, `why` may name a cause outside the fabric that explains a low number. A sample with such a cause never
    counts as slow.
    """

    trial: Trial
    busbw_gb_s: Optional[float]
    why: str


class Culprit(NamedTuple):
    """One cause of slowness.

    `kind` determines what `nodes` and `rails` are:
    - node: one node
    - rail: one node and one rail
    - link: the two ends of the link, and the rails that are slow between the ends, () for all rails
    - rail_plane: all nodes and one rail
    - group: several nodes, if no smaller set of nodes explains the slowness. Trials with only these nodes are slow, or trials
      of one of these nodes with a node outside the group are slow
    - between: nodes whose pairs are slow when many pairs run at once, but fast when few pairs run

    `ratio` is measured busbw as a share of healthy busbw, or 0.0 if no number was measured. Healthy is the median rail's busbw
    for a rail, and the expected busbw of a pair if all pairs are slow. `flapping` means that some trials were fast.
    `confidence` is from 0 to 1; for a node, rail or link it grows with the number of trials that agree.
    """

    kind: str
    nodes: Tuple[int, ...]
    rails: Tuple[int, ...]
    ratio: float
    flapping: bool
    evidence: Tuple[Sample, ...]
    confidence: float


class Finding(NamedTuple):
    """What the search knows so far.

    `healthy_gb_s` is what a healthy pair reaches, `exhausted` means that no trial is left, and `suspects` are nodes that
    were slow together without a proven cause.
    """

    culprits: Tuple[Culprit, ...]
    healthy_gb_s: Optional[float]
    rounds: int
    trials: int
    exhausted: bool
    summary: str
    suspects: Tuple[Tuple[int, ...], ...]


def checked(sample: Sample) -> Sample:
    """Return `sample`, but without its number if this number cannot be a bandwidth."""
    number = sample.busbw_gb_s
    if number is None or (math.isfinite(number) and number >= 0):
        return sample
    return Sample(sample.trial, None, sample.why or f"{number} is not a bandwidth")


def is_excused(sample: Sample) -> bool:
    """Tell whether a sample names a cause outside the fabric that may explain a low number."""
    return sample.busbw_gb_s is not None and bool(sample.why)


def numbers_of(samples: Iterable[Sample]) -> List[float]:
    """Return the busbw (GB/s) of each sample that has a number."""
    return [sample.busbw_gb_s for sample in samples if sample.busbw_gb_s is not None]


def whole_pairs(samples: Iterable[Sample]) -> List[Sample]:
    """Return the samples of pairs over all rails."""
    return [one for one in samples if len(one.trial.nodes) == PAIR and not one.trial.rails]


def pair_of(one: int, other: int) -> Pair:
    """Return two nodes as a pair, the lower index first."""
    return (one, other) if one < other else (other, one)


def trial_of(one: int, other: int) -> Trial:
    """Return the trial of two nodes over all rails."""
    return Trial(pair_of(one, other), ())


def other_of(pair: Pair, node: int) -> int:
    """Return the other end of `pair`."""
    return pair[1] if pair[0] == node else pair[0]


def level_of(table: Dict[int, Sample]) -> float:
    """Return the median busbw (GB/s) of the single-rail runs in `table`."""
    return median_high([sample.busbw_gb_s or 0.0 for sample in table.values()])


def of_rail(tables: List[Dict[int, Sample]], rail: int) -> Tuple[Sample, ...]:
    """Return the sample of `rail` from each of `tables`."""
    return tuple(table[rail] for table in tables if rail in table)


def is_beside(one: Culprit, trial: Trial, worst: Trial) -> bool:
    """Tell whether `trial` is like the trial `worst` but avoids the culprit: it uses another rail, or other nodes."""
    alike = len(trial.nodes) == len(worst.nodes) and len(trial.rails) == len(worst.rails)
    if worst.rails:
        return alike and trial.nodes == worst.nodes and not set(trial.rails) & set(one.rails)
    return alike and (not set(trial.nodes) & set(one.nodes) if one.kind == "node" else not set(trial.nodes) <= set(one.nodes))
