"""A simulated fabric with planted faults and noise: it answers a search's trials, and scores the search's culprits.

A ring has one channel for each used rail, and a channel sends its share of the bytes over its own rail. The ring takes as long
as its slowest channel. So busbw is the number of used rails times the lowest rate that any edge has on any of these rails.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.search.plan import Search
from benchmarks.search.trials import Culprit, Finding, Sample, Trial

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Share of line rate that a healthy ring reaches; published fractions of healthy all-reduces are between 0.92 and 0.99.
EFFICIENCY = 0.97
#: The share of the ceiling that a run must reach (`benchmarks.plan.gate` at its largest size).
GATE = 0.85


@dataclass(frozen=True)
class Fault:
    """One planted cause.

    Attributes:
        kind: node, rail, link, rail_plane or group, as `benchmarks.search.trials.Culprit` names them.
        nodes: the node, the two ends, or the group; empty for a rail plane.
        rails: the rail; empty if the fault affects all rails.
        factor: share of the rate that remains; 0 if nothing gets through.
        active: probability that the fault shows in a round, 1.0 for always.
        by_trial: whether `active` is drawn separately for each trial.
    """

    kind: str
    nodes: tuple[int, ...] = ()
    rails: tuple[int, ...] = ()
    factor: float = 0.5
    active: float = 1.0
    by_trial: bool = False

    def touches(self, edge: tuple[int, int], rail: int) -> bool:
        """Tell whether the fault slows `rail` of the edge between two nodes."""
        if self.rails and rail not in self.rails:
            return False
        if self.kind == "link":
            return set(edge) == set(self.nodes)
        return self.kind == "rail_plane" or (self.kind in {"node", "rail"} and bool(set(edge) & set(self.nodes)))


@dataclass
class Fabric:
    """`nodes` nodes with `rails` rails of `rate_gb_s` GB/s each; every number is multiplied by noise of deviation `noise`.

    `disturbed` is the probability that a brief disturbance, such as other traffic or a busy processor, takes 8 to 30 % of a
    trial's busbw.

    `leaf` is the number of nodes at each leaf switch (0: there are no leaf switches). Edges between leaves share the uplinks of
    each leaf, and the rate of these uplinks is `spine` times the rate of the leaf's nodes. `ecmp` is the probability that a
    trial between leaves must share a link with another trial, so that each gets half of the link; if few edges run at the same
    time, the probability is smaller.
    """

    nodes: int
    rails: int = 4
    faults: tuple[Fault, ...] = ()
    noise: float = 0.0
    rate_gb_s: float = 12.5
    seed: int = 0
    disturbed: float = 0.0
    leaf: int = 0
    spine: float = 1.0
    ecmp: float = 0.0
    _dice: random.Random = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Seed the noise."""
        self._dice = random.Random(self.seed)  # noqa: S311 - noise, not a secret

    def ceiling_gb_s(self) -> float:
        """Return the busbw in GB/s that the line rates allow."""
        return self.rails * self.rate_gb_s

    def healthy(self) -> float:
        """Return the noiseless busbw in GB/s of any ring without a fault."""
        return EFFICIENCY * self.ceiling_gb_s()

    def gate_gb_s(self) -> float:
        """Return the busbw in GB/s that a run must reach."""
        return GATE * self.ceiling_gb_s()

    def whole(self) -> float:
        """Return the busbw in GB/s of one run of the full ring; 0 if the run has no result."""
        (sample,) = self.answer([Trial(tuple(range(self.nodes)), ())])
        return sample.busbw_gb_s or 0.0

    def answer(self, trials: Iterable[Trial]) -> list[Sample]:
        """Run `trials` together. For all of them together, it is drawn whether an intermittent fault shows.

        If the fault's `by_trial` is true, this is drawn again for each trial.
        """
        here = [fault for fault in self.faults if fault.by_trial or self._shows(fault)]
        together = list(trials)
        uplinks = self._uplinks(together)
        return [self._run(trial, [one for one in here if not one.by_trial or self._shows(one)], uplinks) for trial in together]

    def _shows(self, fault: Fault) -> bool:
        return fault.active >= 1 or self._dice.random() < fault.active

    def _uplinks(self, trials: list[Trial]) -> dict[int, float]:
        """Return how many edges leave each leaf at the same time.

        If a trial uses only a share of the rails, each of its edges counts as that share of an edge.
        """
        load: dict[int, float] = {}
        for trial in trials if self.leaf else ():
            weight = (len(trial.rails) or self.rails) / self.rails
            for one, other in _edges(trial.nodes):
                if one // self.leaf != other // self.leaf:
                    for end in (one // self.leaf, other // self.leaf):
                        load[end] = load.get(end, 0.0) + weight
        return load

    def _crossing(self, trial: Trial, uplinks: dict[int, float]) -> float:
        """Return by which factor the links that a trial shares with other trials reduce its rate."""
        leaves = {node // self.leaf for one, other in _edges(trial.nodes) for node in (one, other)} if self.leaf else set()
        if len(leaves) < 2:  # noqa: PLR2004 - the trial stays on one leaf
            return 1.0
        busiest = max(uplinks[leaf] for leaf in leaves)
        factor = min(1.0, self.spine * self.leaf / busiest)
        beside = min(1.0, (busiest - 1) / (self.leaf / 4))
        return factor / 2 if self.ecmp and self._dice.random() < self.ecmp * beside else factor

    def _run(self, trial: Trial, faults: list[Fault], uplinks: dict[int, float]) -> Sample:
        rails = trial.rails or tuple(range(self.rails))
        factor = ring_factor(trial.nodes, rails, faults) * self._crossing(trial, uplinks)
        if factor <= 0:
            return Sample(trial, None, "the run did not end in time")
        noise = max(0.01, self._dice.gauss(1.0, self.noise)) if self.noise else 1.0
        if self.disturbed and self._dice.random() < self.disturbed:
            noise *= self._dice.uniform(0.7, 0.92)
        return Sample(trial, len(rails) * self.rate_gb_s * EFFICIENCY * factor * noise, "")

    def expected(self) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """Return (kind, nodes, rails) of every planted fault, in the form in which a correct search names them.

        With two nodes, a search cannot tell which end is to blame, so it names the link. With one rail, it names no rail.
        """
        return [self._name(fault) for fault in self.faults]

    def _name(self, fault: Fault) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
        rails = fault.rails if self.rails > 1 else ()
        everybody = tuple(range(self.nodes))
        if self.nodes == 2:  # noqa: PLR2004
            return "link", everybody, rails
        if fault.kind == "rail_plane":
            return ("rail_plane", everybody, rails) if rails else ("group", everybody, ())
        if fault.kind == "rail" and not rails:
            return "node", fault.nodes, ()
        return fault.kind, tuple(sorted(fault.nodes)), rails


def _edges(nodes: tuple[int, ...]) -> set[tuple[int, int]]:
    """Return the edges of a ring over `nodes`, each once."""
    ends = zip(nodes, (*nodes[1:], nodes[0]), strict=True)
    return {(min(pair), max(pair)) for pair in ends if pair[0] != pair[1]}


def ring_factor(nodes: tuple[int, ...], rails: tuple[int, ...], faults: Iterable[Fault]) -> float:
    """Return the share of the full rate that the slowest edge of a ring over `nodes` has on the slowest of `rails`."""
    members = set(nodes)
    faults = [fault for fault in faults if not fault.nodes or not members.isdisjoint(fault.nodes)]
    edges = {(one, other) for one, other in zip(nodes, (*nodes[1:], nodes[0]), strict=True) if one != other}
    factor = min((fault.factor for fault in faults if fault.kind == "group" and set(fault.nodes) <= members), default=1.0)
    for fault in faults:
        if fault.factor < factor and any(fault.touches(edge, rail) for edge in edges for rail in rails):
            factor = fault.factor
    return factor


def planted(dice: random.Random, fabric: Fabric, count: int, kinds: Iterable[str], active: float = 1.0) -> Fabric:
    """Return `fabric` with `count` random faults of `kinds` at different nodes, each leaving 0.3 to 0.85 of the rate.

    No node has two faults, because the larger fault would hide the smaller fault until the larger fault is repaired.
    """
    kinds = sorted(kinds)
    found: list[Fault] = []
    busy: set[int] = set()
    while len(found) < count:
        kind = dice.choice(kinds)
        fault = replace(_fault(dice, kind, fabric.nodes, fabric.rails), active=active)
        if kind in {"rail_plane", "group"} or not busy & set(fault.nodes):
            found.append(fault)
            busy |= set(fault.nodes)
    return replace(fabric, faults=tuple(found))


def _fault(dice: random.Random, kind: str, nodes: int, rails: int) -> Fault:
    node = dice.randrange(nodes)
    rail = dice.randrange(rails)
    factor = dice.uniform(0.3, 0.85)
    if kind in {"link", "far link"}:
        other = (node + 1) % nodes if kind == "link" else dice.choice(_off_ring(node, nodes))
        ends = tuple(sorted((node, other)))
        return Fault("link", ends, (rail,) if dice.random() < 0.5 else (), factor)  # noqa: PLR2004
    if kind == "group":
        size = dice.randint(min(3, nodes), nodes)
        first = dice.randint(0, nodes - size)
        return Fault("group", tuple(range(first, first + size)), (), factor)
    if kind == "rail_plane":
        return Fault("rail_plane", (), (rail,), factor)
    return Fault(kind, (node,), (rail,) if kind == "rail" else (), factor)


def _off_ring(node: int, nodes: int) -> list[int]:
    """Return the nodes with which `node` has no edge, neither in the ring of all nodes nor in a round of pairs i, i XOR 2^k."""
    return [other for other in range(nodes) if (node ^ other).bit_count() > 1 and (node - other) % nodes not in {1, nodes - 1}]


@dataclass(frozen=True)
class Score:
    """The result of a search: correct, wrong and missed culprits by (kind, nodes, rails), and its cost.

    `planning_s` is the time of the search itself, without the trials.
    """

    right: int
    wrong: int
    missed: int
    rounds: int
    trials: int
    finding: Finding
    planning_s: float = 0.0

    @staticmethod
    def precision(scores: Iterable[Score]) -> float:
        """Return the share of the named culprits that are correct; 1.0 if none was named."""
        right, wrong = (sum(column) for column in zip(*((one.right, one.wrong) for one in scores), strict=True))
        return right / (right + wrong) if right + wrong else 1.0

    @staticmethod
    def recall(scores: Iterable[Score]) -> float:
        """Return the share of the planted faults that were named; 1.0 if none was planted."""
        right, missed = (sum(column) for column in zip(*((one.right, one.missed) for one in scores), strict=True))
        return right / (right + missed) if right + missed else 1.0


def run(fabric: Fabric, search: Search) -> Finding:
    """Answer every round of `search` on `fabric` until it requests no more trials."""
    return timed(fabric, search)[0]


def timed(fabric: Fabric, search: Search) -> tuple[Finding, float]:
    """Do the same as `run`, and also return the processor time of the search in s."""
    began, trying_s = time.process_time(), 0.0
    while trials := search.next_round():
        asked = time.process_time()
        samples = fabric.answer(trials)
        trying_s += time.process_time() - asked
        search.record(samples)
    finding = search.finding()
    return finding, time.process_time() - began - trying_s


def score(
    fabric: Fabric, *, whole_gb_s: float | None = None, pair_limit_gb_s: float | None = None, off_ring: bool = False
) -> Score:
    """Search `fabric`, given the result of the full ring, and compare the culprits with the planted faults."""
    search = Search(fabric.nodes, fabric.rails, pair_limit_gb_s, whole_gb_s, off_ring=off_ring)
    finding, planning_s = timed(fabric, search)
    named = Counter(_key(culprit) for culprit in finding.culprits if culprit.kind != "between")  # it blames no node or link
    expected = Counter(fabric.expected())
    right = (named & expected).total()
    wrong, missed = named.total() - right, expected.total() - right
    return Score(right, wrong, missed, finding.rounds, finding.trials, finding, planning_s)


def _key(culprit: Culprit) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    return culprit.kind, culprit.nodes, culprit.rails
