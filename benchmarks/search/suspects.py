"""Which nodes and links are to blame, and how much must speak against one before it is."""

import math
from typing import Dict, Iterable, List, Optional, Tuple

from benchmarks.search.slowness import Slowness
from benchmarks.search.trials import PAIR, Pair, Sample, other_of

#: A number this far below what is already explained has a cause of its own.
DEEPER = 0.85
#: How often a pair that comes and goes is run at most; how often it must have been slow to be more than disturbed; and how many
#: trials of one node are enough whatever they say.
_MIXED_TRIALS = 14
_FLAPS = 3
NODE_TRIALS = 16
#: What a slow and a fine trial say for a fault that shows in 40 % of trials, and against 3 % of disturbed ones; how much
#: likelier it must be than that one of so many suspects was disturbed, and when a pair is innocent.
_SLOW_SAYS, _FINE_SAYS, _ODDS, _INNOCENT = math.log(0.4 / 0.03), math.log(0.6 / 0.97), 50, 0.7
#: The same for what a node's other partners must say beside its worst one.
_ODDS_OF_OTHERS = 10
#: Slow numbers whose shares of healthy differ by no more than this may have one cause.
_AS_BAD = 0.04
#: No disturbance takes this share of a number: other traffic and busy processors take 8 to 30 %.
_BEYOND_CHANCE = 0.35
#: What a whole ring that was disturbed once keeps of what its slowest part allows.
_DISTURBED = 0.75


class Suspects(Slowness):
    """Nodes and pairs that are slow without another cause: `blamed`, `open`, `links`, and the nodes beyond doubt, `clean`."""

    def __init__(
        self, nodes: int, rails: int, rounds: List[List[Sample]], pair_limit: Optional[float], whole: Optional[float]
    ) -> None:
        super().__init__(nodes, rails, rounds, pair_limit, whole)
        self.open = {}  # type: Dict[Pair, List[Sample]]
        self.blamed = self._blamed()
        self.levels = {node: self._node_level(node) for node in self.blamed}
        self.open = self._open()
        self.links = {pair for pair in self.open if self._is_link(pair)}
        in_doubt = {node for pair in self.open for node in pair} | set(self.blamed)
        self.clean = sorted(self.good - in_doubt)

    # nodes

    def _blamed(self) -> Dict[int, bool]:
        """Return the nodes that are slow with at least two known-good partners, and whether they only sometimes are."""
        blamed = {}  # type: Dict[int, bool]
        scores = {
            node: self._blame(node, blamed) for node in {node for pair, count in self.slow.items() if count for node in pair}
        }
        while True:
            best = max((score for score in scores.values() if score), default=None)
            if best is None:
                return blamed
            node = -best[2]
            blamed[node] = not best[0]
            del scores[node]
            for pair in self.partners[node]:  # what one node explains is no evidence against its partners
                other = other_of(pair, node)
                if other in scores:
                    scores[other] = self._blame(other, blamed)

    def _blame(self, node: int, blamed: Dict[int, bool]) -> Optional[Tuple[bool, int, int]]:
        """Return whether `node` is always slow, with how many good partners, and its negative; None if it is not to blame."""
        pairs = [pair for pair in self.partners[node] if not self.is_explained_by(pair, blamed)]
        slow = self._as_slow([pair for pair in pairs if self.slow[pair] and other_of(pair, node) in self.good])
        is_steady = all(self.is_steady(pair) for pair in pairs)
        is_mixed = not all(self.is_steady(pair) for pair in slow)
        if is_mixed and not self._node_flaps(pairs):
            slow = [pair for pair in slow if self.is_steady(pair)]
            is_mixed = False
        # Two slow partners among good ones may be two bad links; if they come and go, or are three, it is the node.
        return (is_steady, len(slow), -node) if len(slow) > (1 if is_steady or is_mixed else 2) else None

    def _node_flaps(self, pairs: List[Pair]) -> bool:
        """Say whether slow numbers among a node's trials are too many to be of other causes, its worst partner left out."""
        doubtful = sum(1 for count in self.slow.values() if count) - sum(1 for pair in pairs if self.slow[pair])
        enough = math.log(_ODDS * max(1, doubtful))
        if sum(1 for pair in pairs if self.lone_evidence([pair]) >= enough) > 1:
            return True  # two links of one node, of which one comes and goes, are the node
        worst = max(pairs, key=lambda pair: self.slow[pair])
        others = [pair for pair in pairs if pair != worst]
        return (
            self.may_flap(pairs) and self.lone_evidence(pairs) >= enough and self.evidence(others) >= math.log(_ODDS_OF_OTHERS)
        )

    def may_flap(self, pairs: List[Pair]) -> bool:
        """Say whether a node's trials make it a suspect that comes and goes: not all of its slow numbers are of one partner."""
        slow, tried = sum(self.slow[pair] for pair in pairs), sum(len(self.pairs[pair]) for pair in pairs)
        if slow < _FLAPS or slow * 4 < tried:
            return False
        worst = max(pairs, key=lambda pair: self.slow[pair])
        others = [pair for pair in pairs if pair != worst and not (self.is_steady(pair) and self.slow[pair] >= _FLAPS)]
        return any(self.slow[pair] for pair in others) and self.evidence(others) > _INNOCENT

    def own(self, node: int) -> List[Pair]:
        """Return the pairs of `node` that no node explains which is to blame already."""
        return [pair for pair in self.partners[node] if not self.is_explained_by(pair, self.blamed)]

    def crossings(self) -> List[int]:
        """Return the nodes that several pairs have in common which come and go: other partners say whether it is the node."""
        ends = [node for pair in self.open for node in pair]
        if self.has_cause():
            ends = [node for pair in self.open if not self.is_passing(pair) for node in pair]
        found = {
            node for node in ends if ends.count(node) > 1 and node not in self.blamed and self.trials_of(node) < NODE_TRIALS
        }
        return sorted(node for node in found if not any(node in pair and self._is_apart(pair, node) for pair in self.open))

    def _is_apart(self, pair: Pair, node: int) -> bool:
        """Say whether a pair that always was slow is tried itself before `node`, which it has in common with other slow ones.

        Not after one trial that was as slow as another pair of that node, and slower than disturbances make it: two causes are
        hardly as bad as each other.
        """
        if not self.is_always_open(pair) or len(self.open[pair]) > 1:
            return self.is_always_open(pair)
        others = [other for other in self.open if other != pair and node in other]
        as_bad = any(abs(self.drop_of(other) - self.drop_of(pair)) <= _AS_BAD for other in others)
        is_alone = all(node in other for other in self.open)
        return not as_bad or not (is_alone or self.drop_of(pair) >= _BEYOND_CHANCE)

    def has_doubtful_end(self, pair: Pair) -> bool:
        """Say whether one of the ends may be what comes and goes, and was not tried often enough to say."""
        ends = [node for node in pair if node not in self.blamed and self.trials_of(node) < NODE_TRIALS]
        beside = [other for other in self.open if other != pair and not set(other).isdisjoint(ends)]
        unsettled = any(
            not self.is_always_open(other) and not self.is_settled(other) and not self.is_passing(other) for other in beside
        )
        return unsettled or any(self.may_flap(self.own(node)) for node in ends)

    def flaps(self, pair: Pair) -> bool:
        """Say whether slow numbers of a pair are too many to be of other causes: those that it gave in sparse rounds."""
        # Where something else explains the run already, none of so many pairs is likelier than another.
        enough = math.log(_ODDS * len(self.pairs)) if self.has_cause() else self.enough()
        return len(self.open.get(pair, ())) >= _FLAPS and self.lone_evidence([pair]) >= enough

    def has_cause(self) -> bool:
        """Say whether a node or a pair that always is slow explains what the whole ring gave."""
        levels = self._steady_levels()
        return bool(levels) and (self.whole is None or self.whole >= _DISTURBED * min(levels) * (self.healthy or 0.0))

    def is_whole_doubtful(self) -> bool:
        """Say whether something always is slow, and the whole ring was slower than that explains: once it may be disturbed."""
        return bool(self._steady_levels()) and not self.has_cause()

    def _steady_levels(self) -> List[float]:
        levels = [self.levels[node] for node, at_times in self.blamed.items() if not at_times]
        return levels + [
            self.ratio(slow) for pair, slow in self.open.items() if self.is_always_open(pair) and self.is_sure(pair)
        ]

    def is_passing(self, pair: Pair) -> bool:
        """Say whether a slow pair was fine as often as it was slow, or twice: beside another cause it is not asked again.

        It is asked twice as often where it has a node in common with a pair that always is slow: that may be the cause of both.
        After twice as many rounds as edges and partners take, nothing that comes and goes is asked again.
        """
        slow = len(self.open[pair])
        if self.is_late and not self.is_always_open(pair):
            return True
        always = [other for other in self.open if other != pair and self.is_always_open(other) and self.is_sure(other)]
        beside = any(set(other) & set(pair) for other in always)
        return len(self.pairs[pair]) - slow >= min(slow, 2) * (2 if beside else 1)

    def enough(self) -> float:
        """Return the evidence that a pair must give after the number that made it one of so many suspects."""
        # What was taken for slow in company was suspected as well.
        return math.log(_ODDS * max(1, len(self.open) + len(self.company)))

    def is_sure(self, pair: Pair) -> bool:
        """Say whether a pair that always was slow was so often enough."""
        return (len(self.open[pair]) - 1) * _SLOW_SAYS >= self.enough()

    def lone_evidence(self, pairs: Iterable[Pair]) -> float:
        """Return `evidence` of what ran in sparse rounds."""
        fresh = [(pair, sample) for pair in pairs for sample in self.lone.get(pair, ())]
        slow = sum(sample in self.open[pair] if pair in self.open else self.is_slow(sample) for pair, sample in fresh)
        return slow * _SLOW_SAYS + (len(fresh) - slow) * _FINE_SAYS

    def evidence_since(self, pair: Pair) -> float:
        """Return `evidence` of a pair from its first slow number on: what was fine before was fine before it began."""
        samples = self.pairs[pair]
        first = next(index for index, sample in enumerate(samples) if self.is_slow(sample))
        return self.unexplained(pair) * _SLOW_SAYS + (len(samples) - first - self.unexplained(pair)) * _FINE_SAYS

    def is_slow_apart(self, pairs: Iterable[Pair]) -> bool:
        """Say whether any of `pairs` was slow in a sparse round."""
        return any(self.is_slow(sample) for pair in pairs for sample in self.lone.get(pair, ()))

    def is_node_slow_apart(self, node: int) -> bool:
        """Say whether `node` was slow in a sparse round with a partner that is not to blame: that one explains its own."""
        return self.is_slow_apart(pair for pair in self.partners[node] if other_of(pair, node) not in self.blamed)

    def unexplained(self, pair: Pair) -> int:
        """Return how often a pair was slow, or slower than the nodes explain that are to blame."""
        return len(self.open[pair]) if pair in self.open else self.slow[pair]

    def evidence(self, pairs: Iterable[Pair]) -> float:
        """Return the logarithm of how much likelier these trials are where something comes and goes than by disturbances."""
        counts = [(self.unexplained(pair), len(self.pairs[pair])) for pair in pairs]
        return sum(slow * _SLOW_SAYS + (tried - slow) * _FINE_SAYS for slow, tried in counts)

    def _as_slow(self, pairs: List[Pair]) -> List[Pair]:
        """Leave out pairs that once were a little slow beside one that always is very slow: that is not one cause."""
        steady = [pair for pair in pairs if self.is_steady(pair)]
        deepest = max([self.drop_of(pair) for pair in steady] or [0.0])
        return [pair for pair in pairs if pair in steady or self.drop_of(pair) >= deepest / 2]

    def is_settled(self, pair: Pair) -> bool:
        """Say whether more trials of a pair that is slow at times would change nothing."""
        return self.flaps(pair) or self.is_innocent(pair) or len(self.pairs[pair]) >= _MIXED_TRIALS

    def is_innocent(self, pair: Pair) -> bool:
        """Say whether a pair was fine so often since it was slow that something else explains that."""
        return self.evidence_since(pair) <= _INNOCENT

    def drop_of(self, pair: Pair) -> float:
        """Return by which share the slow numbers of a pair lie below healthy."""
        return 1 - self.ratio(sample for sample in self.pairs[pair] if self.is_slow(sample))

    def is_explained_by(self, pair: Pair, blamed: Dict[int, bool]) -> bool:
        """Say whether one of the nodes in `blamed`, or an island, explains that a pair is slow."""
        return pair[0] in blamed or pair[1] in blamed or any(len(island & set(pair)) == 1 for island in self.islands)

    def _node_level(self, node: int) -> float:
        return self.ratio(self.slow_samples(node))

    def trials_of(self, node: int) -> int:
        """Return how many trials `node` was part of."""
        return sum(len(self.pairs[pair]) for pair in self.partners[node])

    def slow_samples(self, node: int) -> List[Sample]:
        """Return the slow samples of `node` with partners that are not to blame themselves."""
        pairs = [pair for pair in self.partners[node] if other_of(pair, node) not in self.blamed]
        return [sample for pair in pairs for sample in self.pairs[pair] if self.is_slow(sample)]

    # links

    def _open(self) -> Dict[Pair, List[Sample]]:
        """Return the pairs with slow samples that no node explains, or that are far slower than their nodes explain."""
        found = {}
        for pair, count in self.slow.items():
            if not count:
                continue
            tried = [sample for sample in self.pairs[pair] if self.is_slow(sample)]
            if self.is_explained_by(pair, self.blamed):
                level = min([self.levels[node] for node in pair if node in self.blamed] or [0.0])
                tried = [sample for sample in tried if (sample.busbw_gb_s or 0.0) < DEEPER * level * (self.healthy or 0.0)]
            if tried:
                found[pair] = tried
        return found

    def _is_link(self, pair: Pair) -> bool:
        """Slow together more than once, in sparse rounds too; both ends good with others, or bad in a way that says less."""
        return self.is_slow_together(pair) and (self.is_slow_apart([pair]) if self.is_always_open(pair) else self.flaps(pair))

    def is_always_open(self, pair: Pair) -> bool:
        """Say whether every number of a pair is slower than anything explains."""
        return len(self.open[pair]) == len(self.pairs[pair])

    def is_slow_together(self, pair: Pair) -> bool:
        """Say whether a pair is a link to blame if it is slow in a sparse round, too."""
        between_good = all(node in self.good or node in self.blamed for node in pair)
        often = self.is_sure(pair) if self.is_always_open(pair) else len(self.open[pair]) > 1
        return self.nodes > PAIR and between_good and often and not self.has_doubtful_end(pair)

    def is_steady(self, pair: Pair) -> bool:
        """Say whether every number of a pair is slow."""
        return self.slow[pair] == len(self.pairs[pair])

    def good_samples(self, node: int) -> int:
        """Return how many trials of `node` were fine."""
        return sum(len(self.pairs[pair]) - self.slow[pair] for pair in self.partners[node])
