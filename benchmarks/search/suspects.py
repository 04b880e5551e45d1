"""Decides which nodes and links are to blame, and whether there is enough evidence to blame them."""

import math
from typing import Dict, Iterable, List, Optional, Tuple

from benchmarks.search.slowness import Slowness
from benchmarks.search.trials import PAIR, Pair, Sample, other_of

#: A known cause explains a slow number only down to some level. A number below this share of that level has another cause, too.
DEEPER = 0.85
#: An intermittently slow pair gets at most `_MIXED_TRIALS` trials. Fewer than `_FLAPS` slow trials may be mere disturbances. A
#: node gets no more trials once it has had `NODE_TRIALS` trials.
_MIXED_TRIALS = 14
_FLAPS = 3
NODE_TRIALS = 16
#: `_SLOW_SAYS` and `_FINE_SAYS` are the evidence from one slow trial and from one fine trial. The evidence is the log of a
#: likelihood ratio: a fault makes 40 % of trials slow, and disturbances make 3 % of trials slow. To blame a single suspect, a
#: fault must be `_ODDS` times likelier than disturbances; with n suspects, n times `_ODDS`. A pair is innocent if its evidence
#: is at most `_INNOCENT`.
_SLOW_SAYS, _FINE_SAYS, _ODDS, _INNOCENT = math.log(0.4 / 0.03), math.log(0.6 / 0.97), 50, 0.7
#: One test of an intermittently slow node leaves out the trials with its worst partner. The other trials must then make a fault
#: of the node this many times likelier than disturbances.
_ODDS_OF_OTHERS = 10
#: Two slow pairs may have one cause if their drops (`drop_of`) differ by at most this.
_AS_BAD = 0.04
#: No disturbance reduces busbw by this share: other traffic and busy processors take 8 to 30 %.
_BEYOND_CHANCE = 0.35
#: A full ring should be as fast as its slowest node or pair. A disturbance may make the ring slower, but not slower than this
#: share of that busbw.
_DISTURBED = 0.75


class Suspects(Slowness):
    """Nodes and pairs that are slow without a known cause, and the nodes that are beyond doubt.

    In a lone round, so few pairs run that they almost never share a link; `lone` has the samples of these rounds.

    Attributes:
        blamed: the nodes to blame, and whether each is slow only at times.
        levels: the busbw of each blamed node, as a share of healthy busbw.
        open: the pairs with slow samples that no blamed node explains.
        links: the open pairs whose link is to blame.
        clean: the nodes beyond doubt.
    """

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
        """Return the nodes that are slow with at least two known-good partners, and whether each is slow only at times."""
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
            for pair in self.partners[node]:  # pairs that `node` explains do not count against its partners
                other = other_of(pair, node)
                if other in scores:
                    scores[other] = self._blame(other, blamed)

    def _blame(self, node: int, blamed: Dict[int, bool]) -> Optional[Tuple[bool, int, int]]:
        """Return the score of `node`; None if the node is innocent. The node with the highest score is blamed first.

        The score is (whether the node is always slow, number of good partners with which it is slow, -node).
        """
        pairs = [pair for pair in self.partners[node] if not self.is_explained_by(pair, blamed)]
        slow = self._as_slow([pair for pair in pairs if self.slow[pair] and other_of(pair, node) in self.good])
        is_steady = all(self.is_steady(pair) for pair in pairs)
        is_mixed = not all(self.is_steady(pair) for pair in slow)
        if is_mixed and not self._node_flaps(pairs):
            slow = [pair for pair in slow if self.is_steady(pair)]
            is_mixed = False
        # If a node is slow with two partners and fine with other partners, two bad links may be the cause. If one of the two
        # links is slow only at times, or if the node is slow with three partners, the node is at fault.
        return (is_steady, len(slow), -node) if len(slow) > (1 if is_steady or is_mixed else 2) else None

    def _node_flaps(self, pairs: List[Pair]) -> bool:
        """Tell whether a node has more slow trials than causes outside the node explain, even without its worst partner."""
        doubtful = sum(1 for count in self.slow.values() if count) - sum(1 for pair in pairs if self.slow[pair])
        enough = math.log(_ODDS * max(1, doubtful))
        if sum(1 for pair in pairs if self.lone_evidence([pair]) >= enough) > 1:
            return True  # if two links of a node are slow and one is intermittent, the node is at fault
        worst = max(pairs, key=lambda pair: self.slow[pair])
        others = [pair for pair in pairs if pair != worst]
        return (
            self.may_flap(pairs) and self.lone_evidence(pairs) >= enough and self.evidence(others) >= math.log(_ODDS_OF_OTHERS)
        )

    def may_flap(self, pairs: List[Pair]) -> bool:
        """Tell whether a node may be intermittently slow: not all of its slow trials are with one partner."""
        slow, tried = sum(self.slow[pair] for pair in pairs), sum(len(self.pairs[pair]) for pair in pairs)
        if slow < _FLAPS or slow * 4 < tried:
            return False
        worst = max(pairs, key=lambda pair: self.slow[pair])
        others = [pair for pair in pairs if pair != worst and not (self.is_steady(pair) and self.slow[pair] >= _FLAPS)]
        return any(self.slow[pair] for pair in others) and self.evidence(others) > _INNOCENT

    def own(self, node: int) -> List[Pair]:
        """Return the pairs of `node` that neither a blamed node nor an island explains."""
        return [pair for pair in self.partners[node] if not self.is_explained_by(pair, self.blamed)]

    def crossings(self) -> List[int]:
        """Return the nodes that several slow pairs have in common; trials with other partners decide whether to blame them."""
        ends = [node for pair in self.open for node in pair]
        if self.has_cause():
            ends = [node for pair in self.open if not self.is_passing(pair) for node in pair]
        found = {
            node for node in ends if ends.count(node) > 1 and node not in self.blamed and self.trials_of(node) < NODE_TRIALS
        }
        return sorted(node for node in found if not any(node in pair and self._is_apart(pair, node) for pair in self.open))

    def _is_apart(self, pair: Pair, node: int) -> bool:
        """Tell whether new trials of `pair` come before new trials of `node`, an end of `pair` and of other slow pairs.

        If the pair was fine at times, trials of the node come first. If all of several trials of the pair were slow, trials of
        the pair come first. If the pair was slow in its only trial, trials of the pair come first, too, with one exception.

        In this exception, trials of the node come first: another pair of the node was equally slow, so the node is probably the
        cause of both. In addition, all slow pairs must contain the node, or the pair must be slower than a disturbance can make
        it.
        """
        if not self.is_always_open(pair) or len(self.open[pair]) > 1:
            return self.is_always_open(pair)
        others = [other for other in self.open if other != pair and node in other]
        as_bad = any(abs(self.drop_of(other) - self.drop_of(pair)) <= _AS_BAD for other in others)
        is_alone = all(node in other for other in self.open)
        return not as_bad or not (is_alone or self.drop_of(pair) >= _BEYOND_CHANCE)

    def has_doubtful_end(self, pair: Pair) -> bool:
        """Tell whether one end of a pair may be intermittently slow and has had too few trials to decide."""
        ends = [node for node in pair if node not in self.blamed and self.trials_of(node) < NODE_TRIALS]
        beside = [other for other in self.open if other != pair and not set(other).isdisjoint(ends)]
        unsettled = any(
            not self.is_always_open(other) and not self.is_settled(other) and not self.is_passing(other) for other in beside
        )
        return unsettled or any(self.may_flap(self.own(node)) for node in ends)

    def flaps(self, pair: Pair) -> bool:
        """Tell whether slow trials of a pair, also in lone rounds, are enough evidence of a fault of its own."""
        # If a known cause explains the full ring, the full ring is no reason to suspect these pairs more than other pairs. So
        # every pair counts as a suspect.
        enough = math.log(_ODDS * len(self.pairs)) if self.has_cause() else self.enough()
        return len(self.open.get(pair, ())) >= _FLAPS and self.lone_evidence([pair]) >= enough

    def has_cause(self) -> bool:
        """Tell whether a node or a pair that is always slow explains the result of the full ring."""
        levels = self._steady_levels()
        return bool(levels) and (self.whole is None or self.whole >= _DISTURBED * min(levels) * (self.healthy or 0.0))

    def is_whole_doubtful(self) -> bool:
        """Tell whether the full ring was much slower than the slowest node or pair that is always slow.

        The ring may have been disturbed.
        """
        return bool(self._steady_levels()) and not self.has_cause()

    def _steady_levels(self) -> List[float]:
        levels = [self.levels[node] for node, at_times in self.blamed.items() if not at_times]
        return levels + [
            self.ratio(slow) for pair, slow in self.open.items() if self.is_always_open(pair) and self.is_sure(pair)
        ]

    def is_passing(self, pair: Pair) -> bool:
        """Tell whether a slow pair was fine so often that it gets no more trials, provided that there is another cause.

        The pair needs as many fine trials as slow trials, but two fine trials are always enough. This number doubles if the
        pair shares a node with a pair that is always slow, because that node may make both pairs slow.

        The search begins with the ring's edges and with pairs of node i and node i XOR 2^k. After about twice as many rounds as
        these pairs take, every intermittently slow pair counts as fine often enough.
        """
        slow = len(self.open[pair])
        if self.is_late and not self.is_always_open(pair):
            return True
        always = [other for other in self.open if other != pair and self.is_always_open(other) and self.is_sure(other)]
        beside = any(set(other) & set(pair) for other in always)
        return len(self.pairs[pair]) - slow >= min(slow, 2) * (2 if beside else 1)

    def enough(self) -> float:
        """Return the evidence that is enough to blame a pair; the more suspects there are, the more evidence is needed."""
        # Pairs that were slow only while many pairs ran are suspects, too.
        return math.log(_ODDS * max(1, len(self.open) + len(self.company)))

    def is_sure(self, pair: Pair) -> bool:
        """Tell whether a pair that was always slow has had enough trials.

        The first trial is no evidence: it only made the pair one of several suspects.
        """
        return (len(self.open[pair]) - 1) * _SLOW_SAYS >= self.enough()

    def lone_evidence(self, pairs: Iterable[Pair]) -> float:
        """Return the evidence of those trials of `pairs` that ran in lone rounds."""
        fresh = [(pair, sample) for pair in pairs for sample in self.lone.get(pair, ())]
        slow = sum(sample in self.open[pair] if pair in self.open else self.is_slow(sample) for pair, sample in fresh)
        return slow * _SLOW_SAYS + (len(fresh) - slow) * _FINE_SAYS

    def evidence_since(self, pair: Pair) -> float:
        """Return `evidence` of a pair from its first slow trial on; a fault may have begun then."""
        samples = self.pairs[pair]
        first = next(index for index, sample in enumerate(samples) if self.is_slow(sample))
        return self.unexplained(pair) * _SLOW_SAYS + (len(samples) - first - self.unexplained(pair)) * _FINE_SAYS

    def is_slow_apart(self, pairs: Iterable[Pair]) -> bool:
        """Tell whether any of `pairs` was slow in a lone round."""
        return any(self.is_slow(sample) for pair in pairs for sample in self.lone.get(pair, ()))

    def is_node_slow_apart(self, node: int) -> bool:
        """Tell whether `node` was slow in a lone round, not counting trials with blamed partners."""
        return self.is_slow_apart(pair for pair in self.partners[node] if other_of(pair, node) not in self.blamed)

    def unexplained(self, pair: Pair) -> int:
        """Return how often a pair was slow, not counting what blamed nodes explain."""
        return len(self.open[pair]) if pair in self.open else self.slow[pair]

    def evidence(self, pairs: Iterable[Pair]) -> float:
        """Return the log-likelihood ratio of all trials of `pairs`: an intermittent fault against disturbances."""
        counts = [(self.unexplained(pair), len(self.pairs[pair])) for pair in pairs]
        return sum(slow * _SLOW_SAYS + (tried - slow) * _FINE_SAYS for slow, tried in counts)

    def _as_slow(self, pairs: List[Pair]) -> List[Pair]:
        """Return `pairs` without those that are slow only at times and lose far less busbw than pairs that are always slow.

        Far less means less than half of the largest drop of a pair that is always slow. A pair with so small a drop must have
        another cause.
        """
        steady = [pair for pair in pairs if self.is_steady(pair)]
        deepest = max([self.drop_of(pair) for pair in steady] or [0.0])
        return [pair for pair in pairs if pair in steady or self.drop_of(pair) >= deepest / 2]

    def is_settled(self, pair: Pair) -> bool:
        """Tell whether more trials of an intermittently slow pair would change nothing."""
        return self.flaps(pair) or self.is_innocent(pair) or len(self.pairs[pair]) >= _MIXED_TRIALS

    def is_innocent(self, pair: Pair) -> bool:
        """Tell whether a pair has been fine so often after its first slow trial that it has no fault of its own."""
        return self.evidence_since(pair) <= _INNOCENT

    def drop_of(self, pair: Pair) -> float:
        """Return how far the slow trials of a pair are below healthy busbw, as a share of healthy busbw."""
        return 1 - self.ratio(sample for sample in self.pairs[pair] if self.is_slow(sample))

    def is_explained_by(self, pair: Pair, blamed: Dict[int, bool]) -> bool:
        """Tell whether a node in `blamed`, or an island, explains that a pair is slow."""
        return pair[0] in blamed or pair[1] in blamed or any(len(island & set(pair)) == 1 for island in self.islands)

    def _node_level(self, node: int) -> float:
        return self.ratio(self.slow_samples(node))

    def trials_of(self, node: int) -> int:
        """Return the number of trials of `node`."""
        return sum(len(self.pairs[pair]) for pair in self.partners[node])

    def slow_samples(self, node: int) -> List[Sample]:
        """Return the slow samples of `node` with partners that are not blamed themselves."""
        pairs = [pair for pair in self.partners[node] if other_of(pair, node) not in self.blamed]
        return [sample for pair in pairs for sample in self.pairs[pair] if self.is_slow(sample)]

    # links

    def _open(self) -> Dict[Pair, List[Sample]]:
        """Return, by pair, the slow samples that neither a blamed node nor an island explains.

        A blamed node explains no sample that is far slower (`DEEPER`) than the node.
        """
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
        """Tell whether to blame the link of a pair.

        The pair must be slow repeatedly, and also in lone rounds. Each of its two nodes must be fine with other nodes, or be
        blamed itself.
        """
        return self.is_slow_together(pair) and (self.is_slow_apart([pair]) if self.is_always_open(pair) else self.flaps(pair))

    def is_always_open(self, pair: Pair) -> bool:
        """Tell whether every trial of a pair was slower than any known cause explains."""
        return len(self.open[pair]) == len(self.pairs[pair])

    def is_slow_together(self, pair: Pair) -> bool:
        """Tell whether a pair meets those conditions for blaming its link that need no lone round."""
        between_good = all(node in self.good or node in self.blamed for node in pair)
        often = self.is_sure(pair) if self.is_always_open(pair) else len(self.open[pair]) > 1
        return self.nodes > PAIR and between_good and often and not self.has_doubtful_end(pair)

    def is_steady(self, pair: Pair) -> bool:
        """Tell whether every trial of a pair was slow."""
        return self.slow[pair] == len(self.pairs[pair])

    def good_samples(self, node: int) -> int:
        """Return the number of fine trials of `node`."""
        return sum(len(self.pairs[pair]) - self.slow[pair] for pair in self.partners[node])
