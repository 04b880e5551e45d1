"""The data of a search: trials, their samples, and culprits with their evidence."""

import math
from statistics import median_high
from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

#: Number of nodes in a pair. A ring of more nodes than a pair is called a group here.
PAIR = 2

Pair = Tuple[int, int]


class Trial(NamedTuple):
    """One run: `nodes` has the indices of two or more nodes in ring order, `rails` the indices of rails or () for all rails."""

    nodes: Tuple[int, ...]
    rails: Tuple[int, ...]


class Sample(NamedTuple):
    """The result of a trial. `busbw_gb_s` is in GB/s; it is None if the trial has no number, and `why` is then the reason.

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
    - link: the two ends of the link, and the rails that are slow between the ends; () means all rails
    - rail_plane: all nodes and one rail
    - group: several nodes, if no smaller set of nodes explains the slowness. Either trials among the nodes of the group are
      slow, or trials of a node in the group with a node outside it
    - between: nodes whose pairs are slow when many pairs run at once, but fast when few pairs run

    `ratio` is measured busbw as a share of healthy busbw, or 0.0 if no number was measured. For a rail, healthy busbw is that
    of the median rail. If all pairs are slow, healthy busbw is the expected busbw of a pair. `flapping` means that some trials
    were fast. `confidence` is from 0 to 1; for a node, rail or link it grows with the number of trials that agree.
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
    """Return the busbw (GB/s) of the median rail; `table` has the sample of each rail."""
    return median_high([sample.busbw_gb_s or 0.0 for sample in table.values()])


def of_rail(tables: List[Dict[int, Sample]], rail: int) -> Tuple[Sample, ...]:
    """Return the sample of `rail` from each of `tables`."""
    return tuple(table[rail] for table in tables if rail in table)


def is_beside(one: Culprit, trial: Trial, worst: Trial) -> bool:
    """Tell whether `trial` is as large as `worst`, a trial of the culprit `one`, but avoids the culprit.

    If `worst` ran on some rails only, `trial` ran on other rails of the same nodes. Otherwise, if the culprit is a node,
    `trial` ran without that node; for other culprits, it ran on at least one node outside the culprit.
    """
    alike = len(trial.nodes) == len(worst.nodes) and len(trial.rails) == len(worst.rails)
    if worst.rails:
        return alike and trial.nodes == worst.nodes and not set(trial.rails) & set(one.rails)
    return alike and (not set(trial.nodes) & set(one.nodes) if one.kind == "node" else not set(trial.nodes) <= set(one.nodes))
