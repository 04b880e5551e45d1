"""Chooses the trials that settle open questions: repeats, other partners, sparse rounds (few pairs at once), single rails."""

from typing import Iterable, List, Set

from benchmarks.search.causes import Reading
from benchmarks.search.shared_links import few_at_once, lone_at_once
from benchmarks.search.suspects import NODE_TRIALS
from benchmarks.search.trials import PAIR, Pair, Trial, other_of, pair_of

#: How many slow trials are wanted of a blamed node, and how many fine trials (with other nodes) are wanted of each end of a
#: slow pair.
_STEADY_TRIALS, _GOOD_TRIALS = 3, 3
#: Number of trials in sparse rounds for one node, and for a pair that was always slow while many pairs ran.
_LONE_TRIALS, _LONE_STEADY = 8, 3
#: An island is a set of nodes that are slow only with nodes outside the set. This many pairs between an island and other nodes
#: are tried in sparse rounds, each pair once.
_LONE_BRIDGES = 2


class Round:
    """The pairs of one round; no two of them share a node."""

    def __init__(self) -> None:
        self.pairs = []  # type: List[Pair]
        self.busy = set()  # type: Set[int]

    def take(self, pair: Pair) -> None:
        """Add `pair` unless one of its nodes is busy."""
        if not self.busy & set(pair):
            self.pairs.append(pair)
            self.busy |= set(pair)

    def take_with(self, node: int, partners: Iterable[int]) -> None:
        """Add the pair of `node` and the first free partner among `partners`."""
        partner = next((other for other in partners if other != node and other not in self.busy), None)
        if node not in self.busy and partner is not None:
            self.take(pair_of(node, partner))


def doubts(reading: Reading) -> List[Trial]:
    """Return the trials that would settle open questions."""
    asked = Round()
    lonely = []
    has_cause = reading.has_cause()
    for node in reading.crossings():
        asked.take_with(node, _fresh_first(reading, node))
    # the slowest pairs come first, because they say most about the cause
    for pair in sorted(reading.open, key=lambda pair: (-reading.drop_of(pair), pair)):
        tried, slow = len(reading.pairs[pair]), len(reading.open[pair])
        is_mixed = slow < tried
        if has_cause and reading.is_passing(pair):
            continue
        is_open = not (reading.is_settled(pair) if is_mixed else reading.is_sure(pair))
        if is_open:
            asked.take(pair)
        if slow > 1 or not is_mixed or is_open:
            ends = [node for node in pair if node not in reading.blamed]
            lonely += [node for node in ends if is_mixed or reading.good_samples(node) < _GOOD_TRIALS]
    lonely += [node for node in reading.blamed if len(reading.slow_samples(node)) < _STEADY_TRIALS]
    lonely = [*_never_sparse(reading), *lonely]
    for node in lonely:
        if reading.trials_of(node) < NODE_TRIALS:
            asked.take_with(node, _fresh_first(reading, node))
    if asked.pairs:  # if only few pairs were fine, the fine pairs run again in this round, for comparison
        fine = sorted(pair for pair, count in reading.slow.items() if not count)
        for pair in fine if len(fine) < 4 else ():  # noqa: PLR2004
            asked.take(pair)
    return [Trial(pair, ()) for pair in _at_most(asked.pairs, reading)]


def _fresh_first(reading: Reading, node: int) -> List[int]:
    """Return the nodes beyond doubt, as partners for `node`; nodes that have not run with `node` yet come first."""
    known = {other_of(pair, node) for pair in reading.partners[node]}
    return sorted(reading.clean, key=lambda other: other in known)


def unproven(reading: Reading) -> List[Trial]:
    """Return the next sparse round: trials of nodes and pairs that will be blamed if they are slow in this round, too."""
    asked = Round()
    has_cause = reading.has_cause()
    for node in [*reading.blamed, *_may_flap(reading)]:
        tried = sum(len(reading.lone.get(pair, ())) for pair in reading.partners[node])
        if tried < _LONE_TRIALS and not (node in reading.blamed and reading.is_node_slow_apart(node)):
            asked.take_with(node, _fresh_first(reading, node))
    for island in reading.islands if reading.is_crowded else ():
        alone = reading.lone_bridges(island)
        if all(alone) and len(alone) < _LONE_BRIDGES:
            asked.take(reading.bridges(island)[len(alone)])
    for pair in sorted(reading.open, key=lambda pair: (-reading.drop_of(pair), pair)):
        if not reading.is_slow_together(pair) or pair in reading.links or (has_cause and reading.is_passing(pair)):
            continue
        tried = len(reading.lone.get(pair, ()))
        if tried < _LONE_STEADY if reading.is_always_open(pair) else not reading.is_settled(pair):
            asked.take(pair)
    return [Trial(pair, ()) for pair in asked.pairs[: lone_at_once(reading.nodes, is_packed=reading.is_packed)]]


def _may_flap(reading: Reading) -> List[int]:
    """Return the nodes that are in slow pairs and may themselves be intermittently slow."""
    ends = {node for pair in reading.open if pair not in reading.links for node in pair if node not in reading.blamed}
    return sorted(node for node in ends if reading.may_flap(reading.own(node)))


def _never_sparse(reading: Reading) -> List[int]:
    """Return the nodes that would be blamed only because of trials that were slow while many pairs ran."""
    ran = {node for pair in reading.sparse for node in pair}
    return [node for node in reading.blamed if node not in ran] if reading.is_crowded else []


def _at_most(pairs: List[Pair], reading: Reading) -> List[Pair]:
    """Return `pairs`; if pairs of a round slow each other down, return only every n-th pair.

    The result then has at most as many pairs as a sparse round.
    """
    few = few_at_once(reading.nodes)
    return pairs[:: -(-len(pairs) // few)] if reading.is_crowded and len(pairs) > few else pairs


def single_rails(reading: Reading) -> List[Trial]:
    """Return the trials that narrow a cause down to its rails: for each pair one trial per rail, all at the same time."""
    asked = Round()
    for pair in sorted(reading.links):
        if reading.is_undecided(reading.tables.get(pair, []), reading.is_away_at_times(pair)):
            asked.take(pair)
    offset = len(reading.clean) // 2  # the middle of the list comes first, because neighbours may share a fault
    for node, flapping in sorted(reading.blamed.items()):
        if reading.is_undecided(reading.tables_of(node), flapping):
            asked.take_with(node, reading.clean[offset:] + reading.clean[:offset])
    beside = bool(asked.pairs)
    for pair in _reference_pairs(reading, asked.busy):
        undecided = reading.is_undecided(reading.tables.get(pair, []), flapping=False)
        if beside or (undecided and _asks_for_planes(reading)):
            asked.take(pair)
    return [Trial(pair, (rail,)) for pair in asked.pairs for rail in range(reading.rails)]


def _asks_for_planes(reading: Reading) -> bool:
    """Tell whether one rail may be slow on all nodes.

    That is possible if there are only two nodes, if all pairs are slow, if a rail of a good pair was slow, or if there is no
    culprit. If there is no culprit, a second condition is that the ring of all nodes was not measured, or was about as fast as
    its pairs.
    """
    stood_out = any(reading.standouts(table) for pair in reading.references() for table in reading.tables[pair])
    if reading.nodes == PAIR or reading.is_all_slow() or stood_out:
        return True
    return not reading.culprits and (reading.whole is None or reading.is_explained())


def _reference_pairs(reading: Reading, busy: Set[int]) -> List[Pair]:
    """Return up to two pairs beyond doubt, for comparison.

    In a cluster of three nodes, any two pairs share a node, so all three pairs are returned if all nodes are beyond doubt. In a
    cluster of two nodes, the only pair is returned, even if this pair is in doubt.
    """
    if reading.nodes == PAIR:
        return [(0, 1)]
    if reading.nodes == PAIR + 1:
        return [(0, 1), (1, 2), (0, 2)] if len(reading.clean) == 3 else []  # noqa: PLR2004
    clean = set(reading.clean) - busy
    free = [pair for pair in sorted(reading.slow) if clean.issuperset(pair) and not reading.slow[pair]]
    chosen = Round()
    for pair in sorted(free, key=lambda pair: pair not in reading.tables):
        chosen.take(pair)
    return chosen.pairs[:2]
