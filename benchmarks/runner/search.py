"""Finds what makes a fabric slow: asks for trials that may run at once, reads their numbers, names the culprits.

Nodes and rails are indices here; `benchmarks.runner.search_run` runs the trials.

Order of trials: the ring's own edges (a ring crosses no others, so a bad link that made it short is among them), then partners
i XOR 2^k, then repeats where one number is not enough, then single rails, then halves of the ring when every pair is fine.
Rule of blame, as NCCL's maintainers give it (NVIDIA/nccl issue 325): slow with every known-good partner is the node, slow
only together is the link between the two. Pairs that run at once share the links between leaves, so where many of a round are
slow some are run again nearly alone: those that are fine then were slow in company, which is no fault of theirs. Nobody is
blamed who was not slow in a run nearly alone, and how often grows with the number of suspects: of a thousand pairs, some are
disturbed twice.
"""

import math
from itertools import chain
from statistics import median, median_high
from typing import Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

#: Numbers within this share of the healthy median are never slow: repeats of one pair on a healthy fabric differ by some
#: percent.
FLOOR = 0.08
#: The same with fewer than `_FEW` numbers.
FLOOR_OF_FEW = 0.10
_FEW = 12
#: A number this far below what is already explained has a cause of its own.
DEEPER = 0.85
#: A rail of a node that is slow on its other rails, too, is named beside the node if it is this much slower than they are.
_BESIDES = 0.75
#: The smallest ring; one that is larger is called a group here.
PAIR = 2
_MAD_TO_SD = 1.4826
_WIDEST = 0.4
#: How often a slow pair is run before it counts as always slow; how often at most when it comes and goes, and how often where
#: something else explains the run already; how often it must have been slow to be more than disturbed; how many fine trials
#: with others each of its ends must have; and how many trials of one node are enough whatever they say.
_STEADY_TRIALS = 3
_MIXED_TRIALS = 14
_FLAPS = 3
_GOOD_TRIALS = 3
_NODE_TRIALS = 16
_GROUP_REPEATS = 4  # a group is named only if it never was fine: what comes and goes misleads any halving
_CONFIRM_ROUNDS = 12
#: What a slow and a fine trial say for a fault that shows in 40 % of trials, and against 3 % of disturbed ones; how much
#: likelier it must be than that one of so many suspects was disturbed, and when a pair is innocent.
_SLOW_SAYS, _FINE_SAYS, _ODDS, _INNOCENT = math.log(0.4 / 0.03), math.log(0.6 / 0.97), 50, 0.7
#: The same for what a node's other partners must say beside its worst one.
_ODDS_OF_OTHERS = 10
#: So many slow pairs of one round may have a link in common, and so many of them that are fine nearly alone show it.
_COMPANY, _CLEARED = 3, 2
_NARROW_ROUNDS = 6
#: What a whole ring that was disturbed once keeps of what its slowest part allows.
_DISTURBED = 0.75
#: How many single-rail runs of a pair that comes and goes are enough.
_TABLES = 5
#: How often the ring's edges are looked at once more where nothing was found.
_AGAIN = 3
#: Rounds of runs nearly alone, trials of one node in them, and of a pair that always was slow in company.
_LONE_ROUNDS, _LONE_TRIALS, _LONE_STEADY = 10, 8, 3

Pair = Tuple[int, int]


class Trial(NamedTuple):
    """One run: `nodes` as indices in ring order (two or more), `rails` as indices, the only ones used; () for all at once."""

    nodes: Tuple[int, ...]
    rails: Tuple[int, ...]


class Sample(NamedTuple):
    """What a trial gave: `busbw_gb_s` (GB/s, None if it gave no number) and `why` not."""

    trial: Trial
    busbw_gb_s: Optional[float]
    why: str


class Culprit(NamedTuple):
    """One cause.

    `kind` says what the rest holds. node: one node. rail: one node and one rail. link: its two ends, and the rails that are
    slow between them, () for all. rail_plane: all nodes and one rail. group: nodes that are slow together, or with all others
    else, which no smaller set explains. between: nodes whose pairs are slow when many of them run at once, and fine nearly
    alone. `ratio` is measured over healthy, 0.0 where nothing arrived; `flapping` says that some of its trials were fine;
    `confidence` grows from 0 to 1 with the trials that agree.
    """

    kind: str
    nodes: Tuple[int, ...]
    rails: Tuple[int, ...]
    ratio: float
    flapping: bool
    evidence: Tuple[Sample, ...]
    confidence: float


class Finding(NamedTuple):
    """What is known now.

    `healthy_gb_s` is what a healthy pair gives, `exhausted` says that nothing is left to ask, and `suspects` are nodes that
    were slow together without a cause that is proven.
    """

    culprits: Tuple[Culprit, ...]
    healthy_gb_s: Optional[float]
    rounds: int
    trials: int
    exhausted: bool
    summary: str
    suspects: Tuple[Tuple[int, ...], ...]


class Search:
    """A search over `nodes` (two or more) with `rails` each; call `next_round` and `record` in turn, `finding` at any moment.

    `pair_limit_gb_s` is what a healthy pair must reach, if that is known; without it a cluster whose pairs are all slow alike
    cannot be told from a healthy one. `whole_gb_s` is what the whole ring gave. Both are in the unit of the samples.
    """

    def __init__(
        self,
        nodes: int,
        rails: int,
        pair_limit_gb_s: Optional[float] = None,
        whole_gb_s: Optional[float] = None,
        max_rounds: Optional[int] = None,
    ) -> None:
        if nodes < PAIR or rails < 1:
            raise ValueError(f"a search needs at least 2 nodes and 1 rail, given were {nodes} and {rails}")
        self._nodes = nodes
        self._rails = rails
        self._pair_limit = pair_limit_gb_s
        self._whole = whole_gb_s
        bits = (nodes - 1).bit_length()
        self._max_rounds = 4 * bits + 12 if max_rounds is None else max_rounds
        self._rounds = []  # type: List[List[Sample]]
        self._asked = []  # type: List[Trial]
        self._done = False
        self._steps = self._plan()

    def next_round(self) -> List[Trial]:
        """Return the trials to run at once, an empty list if there is nothing more to try."""
        if self._done or len(self._rounds) >= self._max_rounds:
            return []
        self._asked = next(self._steps, [])
        self._done = not self._asked
        return list(self._asked)

    def record(self, samples: List[Sample]) -> None:
        """Take what the trials of the last round gave; one that is left out counts as not run.

        Raises:
            ValueError: a sample of a trial that was not asked for.
        """
        asked = set(self._asked)
        for sample in samples:
            if sample.trial not in asked:
                raise ValueError(f"{sample.trial} was not asked for in this round")
        self._rounds.append([_checked(sample) for sample in samples])
        self._asked = []

    def finding(self) -> Finding:
        """Return what the trials so far say."""
        reading = self._read()
        culprits = tuple(sorted(reading.culprits, key=lambda one: (-one.confidence, one.ratio, one.nodes)))
        trials = sum(len(samples) for samples in self._rounds)
        suspects = tuple(sorted(reading.suspects))
        return Finding(
            culprits,
            reading.healthy,
            len(self._rounds),
            trials,
            self._done,
            _summary(culprits, suspects, reading, trials),
            suspects,
        )

    def _read(self) -> "_Reading":
        return _Reading(self._nodes, self._rails, self._rounds, self._pair_limit, self._whole)

    def _plan(self) -> Iterator[List[Trial]]:
        yield from chain(self._edges(), self._partners(), self._nearly_alone(), self._confirm(), self._alone(), self._narrow())
        if self._nodes > PAIR and not self._read().blames:
            yield from self._without_culprit()
        if self._read().blames and not self._read().is_explained():
            yield [Trial(tuple(range(self._nodes)), ())]
        reading = self._read()
        clean = reading.beyond_doubt()
        if not reading.is_explained() and len(clean) > PAIR:
            yield from self._bisect(clean)
            for _ in range(_AGAIN):
                if not self._read().blames:  # it comes and goes
                    yield from self._again()

    def _without_culprit(self) -> Iterator[List[Trial]]:
        """Yield trials when every pair is fine, or all are equally slow: the ring as a whole, and its edges again."""
        if self._read().whole is None:
            yield [Trial(tuple(range(self._nodes)), ())]
        if not self._read().is_explained():
            yield from self._again()

    def _again(self) -> Iterator[List[Trial]]:
        """Yield the ring's edges once more, for faults that come and go."""
        yield from chain(self._edges(), self._confirm(), self._alone(), self._narrow())

    def _edges(self) -> Iterator[List[Trial]]:
        """Yield every edge of the ring in two rounds; the closing edge of an odd ring comes later."""
        count = self._nodes
        yield [_trial(node, node + 1) for node in range(0, count - 1, 2)]
        if count > PAIR:
            closing = [] if count % 2 else [_trial(0, count - 1)]
            yield [_trial(node, node + 1) for node in range(1, count - 1, 2)] + closing

    def _partners(self) -> Iterator[List[Trial]]:
        """Yield partners i XOR 2^k for growing k; a node without such a partner gets any free one."""
        count = self._nodes
        tried = {_pair(node, (node + 1) % count) for node in range(count)}
        first = [(0, count - 1)] if count % 2 else []  # the closing edge of an odd ring was not run yet
        for bit in range(1, (count - 1).bit_length()):
            pairs = first
            busy = {node for pair in pairs for node in pair}
            for node in range(count):
                pair = (node, node ^ (1 << bit))
                if node < pair[1] < count and pair not in tried and not busy & set(pair):
                    pairs = [*pairs, pair]
                    busy |= set(pair)
            free = [node for node in range(count) if node not in busy]
            while free:
                node = free.pop(0)
                partner = next((other for other in free if (node, other) not in tried), None)
                if partner is not None:
                    free.remove(partner)
                    pairs = [*pairs, (node, partner)]
            tried |= set(pairs)
            first = []
            if pairs:
                yield [Trial(pair, ()) for pair in pairs]

    def _nearly_alone(self) -> Iterator[List[Trial]]:
        """Run some slow pairs of each round that had many again, few at once and spread over the cluster."""
        healthy, drop = _baseline([n for samples in self._rounds for n in _numbers(_whole_pairs(samples))])
        limit = (healthy or 0.0) * (1 - drop)
        crowded = _crowded(self._rounds, self._nodes, lambda one: one.busbw_gb_s is None or one.busbw_gb_s < limit)
        asked, few = _Round(), _few_at_once(self._nodes)
        for slow in crowded:
            picked = max(few // len(crowded), 1)
            for sample in slow[:: max(len(slow) // picked, 1)][:picked]:
                asked.take(_pair(*sample.trial.nodes))
        if asked.pairs:
            yield [Trial(pair, ()) for pair in asked.pairs]

    def _confirm(self) -> Iterator[List[Trial]]:
        """Repeat what one number does not settle, and give suspects known-good partners."""
        for _ in range(_CONFIRM_ROUNDS):
            trials = _doubts(self._read())
            if not trials:
                return
            yield trials

    def _alone(self) -> Iterator[List[Trial]]:
        """Run what would be blamed nearly alone, before it is."""
        for _ in range(_LONE_ROUNDS):
            trials = _unproven(self._read())
            if not trials:
                return
            yield trials

    def _narrow(self) -> Iterator[List[Trial]]:
        """Yield trials of each culprit's single rails, all at once, beside pairs that are known to be good."""
        for _ in range(_NARROW_ROUNDS if self._rails > 1 else 0):
            trials = _single_rails(self._read())
            if not trials:
                return
            yield trials

    def _bisect(self, group: Tuple[int, ...]) -> Iterator[List[Trial]]:
        """Halve `group`, which is slow together, until no half is slow by itself; then trim both ends."""
        half = len(group) // 2
        halves = [part for part in (group[:half], group[half:]) if len(part) > PAIR]
        if halves:
            yield [Trial(part, ()) for part in halves]
        slow = [part for part in halves if self._read().is_group_slow(part)]
        if slow:
            yield from _at_once([self._bisect(part) for part in slow])
            return
        if not self._read().is_group_slow(group):
            yield [Trial(group, ())]  # never tried, or only as the whole run: is it slow now?
            if not self._read().is_group_slow(group):
                return
        yield from self._trim(group)

    def _trim(self, group: Tuple[int, ...]) -> Iterator[List[Trial]]:
        """Find the shortest stretch of `group` that is still slow: the latest start, then the earliest end."""
        half = len(group) // 2
        start, fine = 0, half
        while fine - start > 1:
            middle = (start + fine) // 2
            yield [Trial(group[middle:], ())]
            start, fine = (middle, fine) if self._read().is_group_slow(group[middle:]) else (start, middle)
        group = group[start:]
        fine, end = max(2, half - start), len(group)
        while end - fine > 1:
            middle = (fine + end) // 2
            yield [Trial(group[:middle], ())]
            fine, end = (fine, middle) if self._read().is_group_slow(group[:middle]) else (middle, end)
        for _ in range(_GROUP_REPEATS):
            if self._read().is_group_slow(group[:end]):
                yield [Trial(group[:end], ())]


class _Reading:
    """What the samples so far say: a baseline, which pairs are slow, and the fewest causes that explain them."""

    def __init__(
        self, nodes: int, rails: int, rounds: List[List[Sample]], pair_limit: Optional[float], whole: Optional[float]
    ) -> None:
        self.nodes = nodes
        self.rails = rails
        self.pair_limit = pair_limit
        self.pairs = {}  # type: Dict[Pair, List[Sample]]
        self.tables = {}  # type: Dict[Pair, List[Dict[int, Sample]]]
        self.groups = {}  # type: Dict[Tuple[int, ...], List[Sample]]
        self.is_late = len(rounds) > 2 * (nodes - 1).bit_length() + 1
        for samples in rounds:
            self._sort(samples)
        self.healthy, self.drop = _baseline([n for each in self.pairs.values() for n in _numbers(each)])
        self.alone = {}  # type: Dict[Pair, List[Sample]]
        # ^ samples of rounds of few pairs
        self.lone = _lone(rounds, nodes)
        self.is_crowded = False
        self.company = self._in_company(rounds)
        self.slow = {}  # type: Dict[Pair, int]
        self.partners = {}  # type: Dict[int, List[Pair]]
        for pair, tried in self.pairs.items():
            self.slow[pair] = sum(self.is_slow(sample) for sample in tried)
            for node in pair:
                self.partners.setdefault(node, []).append(pair)
        self.good = {node for pair, count in self.slow.items() if not count for node in pair}
        self.whole = self._whole(whole)
        self.islands = self._islands()
        self.open = {}  # type: Dict[Pair, List[Sample]]
        self.blamed = self._blamed()
        self.levels = {node: self._node_level(node) for node in self.blamed}
        self.open = self._open()
        self.links = {pair for pair in self.open if self._is_link(pair)}
        in_doubt = {node for pair in self.open for node in pair} | set(self.blamed)
        self.clean = sorted(self.good - in_doubt)
        self.planes = self._planes()
        self.culprits = self._culprits()
        self.suspects = (set(self.open) - self.links) | self._suspect_groups()

    def _sort(self, samples: List[Sample]) -> None:
        tables = {}  # type: Dict[Pair, Dict[int, Sample]]
        for sample in samples:
            nodes, rails = sample.trial
            if len(nodes) > PAIR:
                self.groups.setdefault(nodes, []).append(sample)
            elif rails:
                tables.setdefault(_pair(*nodes), {})[rails[0]] = sample
            else:
                self.pairs.setdefault(_pair(*nodes), []).append(sample)
        for pair, table in tables.items():
            self.tables.setdefault(pair, []).append(table)

    def _in_company(self, rounds: List[List[Sample]]) -> List[Sample]:
        """Take out, and return, slow samples of rounds whose slow pairs are fine nearly alone."""
        few = _few_at_once(self.nodes)
        for samples in rounds:
            tried = _whole_pairs(samples)
            for sample in tried if len(tried) <= few else ():
                self.alone.setdefault(_pair(*sample.trial.nodes), []).append(sample)
        found = []  # type: List[Sample]
        for slow in _crowded(rounds, self.nodes, self.is_slow):
            self.is_crowded = True
            again = [sample for sample in slow if _pair(*sample.trial.nodes) in self.alone]
            guilty = [sample for sample in again if any(map(self.is_slow, self.alone[_pair(*sample.trial.nodes)]))]
            if len(again) - len(guilty) >= max(_CLEARED, 3 * len(guilty)):
                found += [sample for sample in slow if sample not in guilty]
        for sample in found:
            pair = _pair(*sample.trial.nodes)
            self.pairs[pair].remove(sample)
            if not self.pairs[pair]:
                del self.pairs[pair]
        return found

    @property
    def blames(self) -> List[Culprit]:
        """The causes that are nodes, rails, links or groups: what is slow in company only is nobody's."""
        return [one for one in self.culprits if one.kind != "between"]

    def is_slow(self, sample: Sample) -> bool:
        return sample.busbw_gb_s is None or sample.busbw_gb_s < (self.healthy or 0.0) * (1 - self.drop)

    def ratio(self, samples: Iterable[Sample]) -> float:
        numbers = _numbers(samples)
        return median(numbers) / self.healthy if numbers and self.healthy else 0.0

    def is_all_slow(self) -> bool:
        """Say whether even the healthiest pairs miss what a pair must reach."""
        if not self.pairs:
            return False
        return not self.healthy or (self.pair_limit is not None and self.healthy < self.pair_limit)

    # groups

    def _whole(self, whole: Optional[float]) -> Optional[float]:
        tried = [sample.busbw_gb_s or 0.0 for sample in self.groups.get(tuple(range(self.nodes)), ())]
        if whole is not None:
            return max([whole, *tried])  # once it may have been disturbed
        return min(tried) if tried else None

    def _is_short(self, busbw_gb_s: Optional[float]) -> bool:
        """Tell whether a ring is short: nearer to the short whole ring than to a healthy pair."""
        if busbw_gb_s is None or not self.healthy:
            return busbw_gb_s is None
        limit = self.healthy * (1 - self.drop)
        if self.whole is not None and self.whole < limit:
            limit = (self.whole + self.healthy) / 2
        return busbw_gb_s < limit

    def is_group_slow(self, group: Tuple[int, ...]) -> bool:
        tried = [self._is_short(sample.busbw_gb_s) for sample in self.groups.get(group, ())]
        return bool(tried) and all(tried)

    def is_explained(self) -> bool:
        """Say whether the causes named so far suffice for what the whole ring gave."""
        if not self.healthy or self.whole is None:
            return bool(self.blames) or not self.healthy
        if not self.blames:
            return self.whole >= self.healthy * (1 - self.drop)
        ratio = min([1.0] + [one.ratio for one in self.blames if one.kind not in ("group", "rail_plane")])
        return self.whole >= DEEPER * ratio * self.healthy

    def beyond_doubt(self) -> Tuple[int, ...]:
        """Return the nodes that no named cause touches, in ring order."""
        guilty = {node for one in self.blames for node in one.nodes}
        return tuple(node for node in range(self.nodes) if node not in guilty)

    def _islands(self) -> List[Set[int]]:
        """Return sets of nodes that are good among themselves and slow with every one of the largest such set."""
        parent = list(range(self.nodes))

        def root(node: int) -> int:
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            return node

        for (one, other), count in self.slow.items():
            if not count:
                parent[root(one)] = root(other)
        members = {}  # type: Dict[int, Set[int]]
        for node in range(self.nodes):
            members.setdefault(root(node), set()).add(node)
        whole_sets = sorted(members.values(), key=lambda island: (-len(island), min(island)))
        found = []
        for island in whole_sets[1:]:
            if len(island) == 1:
                break  # and all after it
            bridges = [pair for node in island for pair in self.partners.get(node, ()) if _other(pair, node) in whole_sets[0]]
            if len(bridges) > 2:  # noqa: PLR2004 - two bad links are enough to cut a ring in two
                found.append(island)
        return found

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
                other = _other(pair, node)
                if other in scores:
                    scores[other] = self._blame(other, blamed)

    def _blame(self, node: int, blamed: Dict[int, bool]) -> Optional[Tuple[bool, int, int]]:
        """Return whether `node` is always slow, with how many good partners, and its negative; None if it is not to blame."""
        pairs = [pair for pair in self.partners[node] if not self.is_explained_by(pair, blamed)]
        slow = self._as_slow([pair for pair in pairs if self.slow[pair] and _other(pair, node) in self.good])
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
        found = {
            node for node in ends if ends.count(node) > 1 and node not in self.blamed and self.trials_of(node) < _NODE_TRIALS
        }
        return sorted(node for node in found if not any(node in pair and self.is_always_open(pair) for pair in self.open))

    def has_doubtful_end(self, pair: Pair) -> bool:
        """Say whether one of the ends may be what comes and goes, and was not tried often enough to say."""
        ends = [node for node in pair if node not in self.blamed and self.trials_of(node) < _NODE_TRIALS]
        beside = [other for other in self.open if other != pair and not set(other).isdisjoint(ends)]
        unsettled = any(
            not self.is_always_open(other) and not self.is_settled(other) and not self.is_passing(other) for other in beside
        )
        return unsettled or any(self.may_flap(self.own(node)) for node in ends)

    def flaps(self, pair: Pair) -> bool:
        """Say whether slow numbers of a pair are too many to be of other causes: those that it gave nearly alone."""
        # Where something else explains the run already, none of so many pairs is likelier than another.
        enough = math.log(_ODDS * len(self.pairs)) if self.has_cause() else self.enough()
        return len(self.open.get(pair, ())) >= _FLAPS and self.lone_evidence([pair]) >= enough

    def has_cause(self) -> bool:
        """Say whether a node or a pair that always is slow explains what the whole ring gave."""
        levels = [self.levels[node] for node, at_times in self.blamed.items() if not at_times]
        levels += [self.ratio(slow) for pair, slow in self.open.items() if self.is_always_open(pair) and self.is_sure(pair)]
        return bool(levels) and (self.whole is None or self.whole >= _DISTURBED * min(levels) * (self.healthy or 0.0))

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
        return math.log(_ODDS * max(1, len(self.open)))

    def is_sure(self, pair: Pair) -> bool:
        """Say whether a pair that always was slow was so often enough."""
        return (len(self.open[pair]) - 1) * _SLOW_SAYS >= self.enough()

    def lone_evidence(self, pairs: Iterable[Pair]) -> float:
        """Return `evidence` of what ran nearly alone."""
        fresh = [(pair, sample) for pair in pairs for sample in self.lone.get(pair, ())]
        slow = sum(sample in self.open[pair] if pair in self.open else self.is_slow(sample) for pair, sample in fresh)
        return slow * _SLOW_SAYS + (len(fresh) - slow) * _FINE_SAYS

    def evidence_since(self, pair: Pair) -> float:
        """Return `evidence` of a pair from its first slow number on: what was fine before was fine before it began."""
        samples = self.pairs[pair]
        first = next(index for index, sample in enumerate(samples) if self.is_slow(sample))
        return self.unexplained(pair) * _SLOW_SAYS + (len(samples) - first - self.unexplained(pair)) * _FINE_SAYS

    def is_slow_alone(self, pairs: Iterable[Pair]) -> bool:
        """Say whether any of `pairs` was slow in a run nearly alone."""
        return any(self.is_slow(sample) for pair in pairs for sample in self.lone.get(pair, ()))

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
        return self.flaps(pair) or self.evidence_since(pair) <= _INNOCENT or len(self.pairs[pair]) >= _MIXED_TRIALS

    def drop_of(self, pair: Pair) -> float:
        return 1 - self.ratio(sample for sample in self.pairs[pair] if self.is_slow(sample))

    def is_explained_by(self, pair: Pair, blamed: Dict[int, bool]) -> bool:
        return pair[0] in blamed or pair[1] in blamed or any(len(island & set(pair)) == 1 for island in self.islands)

    def _node_level(self, node: int) -> float:
        return self.ratio(self.slow_samples(node))

    def trials_of(self, node: int) -> int:
        """Return how many trials `node` was part of."""
        return sum(len(self.pairs[pair]) for pair in self.partners[node])

    def slow_samples(self, node: int) -> List[Sample]:
        """Return the slow samples of `node` with partners that are not to blame themselves."""
        pairs = [pair for pair in self.partners[node] if _other(pair, node) not in self.blamed]
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
        """Slow together more than once, nearly alone too; both ends are good with others, or bad so that it explains less."""
        return self.is_slow_together(pair) and (self.is_slow_alone([pair]) if self.is_always_open(pair) else self.flaps(pair))

    def is_always_open(self, pair: Pair) -> bool:
        """Say whether every number of a pair is slower than anything explains."""
        return len(self.open[pair]) == len(self.pairs[pair])

    def is_slow_together(self, pair: Pair) -> bool:
        """Say whether a pair is a link to blame if it is slow nearly alone, too."""
        between_good = all(node in self.good or node in self.blamed for node in pair)
        often = self.is_sure(pair) if self.is_always_open(pair) else len(self.open[pair]) > 1
        return self.nodes > PAIR and between_good and often and not self.has_doubtful_end(pair)

    def is_steady(self, pair: Pair) -> bool:
        return self.slow[pair] == len(self.pairs[pair])

    def good_samples(self, node: int) -> int:
        """Return how many trials of `node` were fine."""
        return sum(len(self.pairs[pair]) - self.slow[pair] for pair in self.partners[node])

    # rails

    def tables_of(self, node: int) -> List[Dict[int, Sample]]:
        """Return the single-rail runs of `node` with partners beyond doubt."""
        found = [(pair, tables) for pair, tables in self.tables.items() if node in pair]
        return [table for pair, tables in found if _other(pair, node) in self.clean for table in tables]

    def standouts(self, table: Dict[int, Sample]) -> Dict[int, float]:
        """Return the rails that are slower than their siblings of one round, with their share of the siblings' level."""
        values = {rail: sample.busbw_gb_s or 0.0 for rail, sample in table.items()}
        level = median_high(values.values()) if values else 0.0
        if level <= 0:
            return {}
        deviation = median([abs(value - level) for value in values.values()]) * _MAD_TO_SD / level
        drop = max(self.drop, min(_WIDEST, _deviations(len(values)) * deviation))
        return {rail: value / level for rail, value in values.items() if value < level * (1 - drop)}

    def slow_rails(self, tables: List[Dict[int, Sample]], flapping: bool) -> Dict[int, float]:
        """Return the rails that stand out in enough of `tables`, with their median share."""
        shares = {}  # type: Dict[int, List[float]]
        for table in tables:
            for rail, share in self.standouts(table).items():
                shares.setdefault(rail, []).append(share)
        most = max([len(found) for found in shares.values()] or [0])
        needed = 1 if len(tables) == 1 or (flapping and most == 1) else 2
        return {rail: median(found) for rail, found in sorted(shares.items()) if len(found) >= needed}

    def is_undecided(self, tables: List[Dict[int, Sample]], flapping: bool) -> bool:
        """Say whether one more round of single rails could change what `tables` say."""
        counts = {}  # type: Dict[int, int]
        for table in tables:
            for rail in self.standouts(table):
                counts[rail] = counts.get(rail, 0) + 1
        if flapping:
            return len(tables) < 5 and max(counts.values(), default=0) < 2  # noqa: PLR2004
        return not tables or (len(tables) < 3 and 1 in counts.values())  # noqa: PLR2004

    def are_silent(self, pair: Pair) -> bool:
        """Say whether every single-rail run of a slow pair was as fast as others': it was fine then, and tells no rail."""
        others = [_level(table) for other in self.references() for table in self.tables[other]]
        limit = (1 - self.drop) * median(others) if others else 0.0
        tables = self.tables.get(pair, [])
        return (
            bool(others)
            and len(tables) < _TABLES
            and all(_level(table) >= limit and not self.standouts(table) for table in tables)
        )

    def references(self) -> List[Pair]:
        """Return the pairs beyond doubt whose single rails were run."""
        clean = set(self.clean)
        return [pair for pair in self.tables if clean.issuperset(pair)]

    def _planes(self) -> Dict[int, float]:
        """Return the rails that are slow between pairs that share no node, so on all nodes."""
        pairs = self.references()
        if not pairs or set(pairs[0]).intersection(*pairs):
            return {}
        found = [self.slow_rails(self.tables[pair], flapping=False) for pair in pairs]
        return {rail: min(each[rail] for each in found) for rail in found[0] if all(rail in each for each in found)}

    # the causes

    def _culprits(self) -> List[Culprit]:
        if self.nodes == PAIR:
            return self._of_two()
        everybody = tuple(range(self.nodes))
        found = [
            Culprit("rail_plane", everybody, (rail,), share, False, self._rail_evidence(self.references(), rail), 0.95)
            for rail, share in self.planes.items()
        ]
        if self.is_all_slow() and not found:
            share = self.healthy / self.pair_limit if self.healthy and self.pair_limit else 0.0
            evidence = tuple(sample for pair in sorted(self.pairs)[:8] for sample in self.pairs[pair])
            found.append(Culprit("group", everybody, (), share, False, evidence, 0.9))
        for island in self.islands:
            samples = [s for pair in self.pairs if len(island & set(pair)) == 1 for s in self.pairs[pair]]
            found.append(Culprit("group", tuple(sorted(island)), (), self.ratio(samples), False, tuple(samples), 0.9))
        flapping = sorted(node for node, flaps in self.blamed.items() if flaps)
        if len(flapping) > max(3, self.nodes // 4):  # slow pairs everywhere without a pattern: no single culprit
            samples = [sample for node in flapping for sample in self.slow_samples(node)]
            found.append(Culprit("group", tuple(flapping), (), self.ratio(samples), True, tuple(samples), 0.6))
            steady = sorted(node for node, flaps in self.blamed.items() if not flaps)
        else:
            steady = sorted(self.blamed)
        for node in steady:
            if self.is_slow_alone(self.partners[node]):
                found.extend(self._of_node(node))
        found.extend(self._of_link(pair) for pair in sorted(self.links))
        found.extend(self._of_groups({node for one in found for node in one.nodes} if found else set()))
        if self.company:
            nodes = tuple(sorted({node for sample in self.company for node in sample.trial.nodes}))
            evidence = tuple(self.company)
            found.append(Culprit("between", nodes, (), self.ratio(evidence), False, evidence, _sureness(len(evidence))))
        return found

    def _of_two(self) -> List[Culprit]:
        """Return the cause between two nodes, whose ends cannot be told apart: the pair, or one rail between them."""
        tried = self.pairs.get((0, 1), [])
        tables = self.tables.get((0, 1), [])
        flapping = 0 < self.slow.get((0, 1), 0) < len(tried)
        rails = self.slow_rails(tables, flapping)
        failed = [sample for sample in tried if sample.busbw_gb_s is None]
        if rails:
            evidence = tuple(sample for table in tables for _, sample in sorted(table.items()))
            return [Culprit("link", (0, 1), tuple(rails), min(rails.values()), flapping, evidence, _sureness(len(tables)))]
        if self.is_all_slow() or (self.links or failed):
            share = self.healthy / self.pair_limit if self.healthy and self.pair_limit else self.ratio(failed)
            return [Culprit("link", (0, 1), (), share, flapping, tuple(tried), _sureness(len(tried)))]
        return []

    def _of_node(self, node: int) -> List[Culprit]:
        slow = self.slow_samples(node)
        partners = {sample.trial.nodes for sample in slow}
        tried = [s for p in self.partners[node] if _other(p, node) not in self.blamed for s in self.pairs[p]]
        flapping = self.blamed[node] and self._comes_and_goes(tried, self.levels[node])
        share = len(slow) / len(tried) if flapping else 1.0
        sure = _sureness(len(partners)) * max(0.5, share)
        tables = self.tables_of(node)
        rails = {
            rail: ratio
            for rail, ratio in self.slow_rails(tables, self.blamed[node]).items()
            if rail not in self.planes or ratio < DEEPER * self.planes[rail]
        }
        found = [
            Culprit("rail", (node,), (rail,), ratio, flapping, tuple(slow) + _of_rail(tables, rail), sure)
            for rail, ratio in rails.items()
        ]
        if not rails or self._is_slow_besides(tables):
            found = [
                one for one in found if one.ratio < _BESIDES and all(one.rails[0] in self.standouts(table) for table in tables)
            ]
            evidence = tuple(slow) + tuple(sample for table in tables for sample in table.values())
            found.append(Culprit("node", (node,), (), self.levels[node], flapping, evidence, sure))
        return found

    def _is_slow_besides(self, tables: List[Dict[int, Sample]]) -> bool:
        """Say whether the rails that do not stand out are slow as well, against those of pairs beyond doubt."""
        own = [_level(table) for table in tables]
        others = [_level(table) for pair in self.references() for table in self.tables[pair]]
        return bool(own and others) and median(own) < DEEPER * median(others)

    def _comes_and_goes(self, samples: List[Sample], level: float) -> bool:
        """Say whether some of `samples` are nearer to healthy than to `level`."""
        middle = (1 + level) / 2 * (self.healthy or 0.0)
        return any(sample.busbw_gb_s is not None and sample.busbw_gb_s > middle for sample in samples)

    def _of_link(self, pair: Pair) -> Culprit:
        slow = self.open[pair]
        level = self.ratio(slow)
        flapping = self._comes_and_goes(self.pairs[pair], level)
        tables = self.tables.get(pair, [])
        known = set(self.planes).union(*(self.slow_rails(self.tables_of(node), flapping=False) for node in pair))
        rails = [rail for rail in self.slow_rails(tables, flapping) if rail not in known]
        fine = [self.pairs[p][0] for n in pair for p in [p for p in self.partners[n] if not self.slow[p]][:2]]
        evidence = tuple(self.pairs[pair]) + tuple(fine) + tuple(s for rail in rails for s in _of_rail(tables, rail))
        sure = _sureness(len(slow)) * max(0.5, len(slow) / len(self.pairs[pair]))
        return Culprit("link", pair, tuple(rails), level, flapping, evidence, sure)

    def _of_groups(self, guilty: Set[int]) -> List[Culprit]:
        """Return the smallest stretches of the ring that are slow together while some part of them is not."""
        slow = [group for group in self.groups if self.is_group_slow(group) and not guilty & set(group)]
        found = []
        for group in slow:
            fine = [o for o in self.groups if o not in slow and len(set(o) & set(group)) * 2 >= len(group) - 1]
            if any(set(other) < set(group) for other in slow) or not (fine or len(group) <= 4):  # noqa: PLR2004 - halves are pairs
                continue
            tried = self.groups[group]
            if len(tried) <= _GROUP_REPEATS:
                continue
            evidence = tuple(tried) + tuple(sample for other in fine for sample in self.groups[other])
            found.append(Culprit("group", group, (), self.ratio(tried), False, evidence, _sureness(len(tried))))
        return found

    def _suspect_groups(self) -> Set[Tuple[int, ...]]:
        """Return the smallest slow stretches, which nothing named so far explains."""
        if self.blames:
            return set()
        slow = [set(group) for group in self.groups if self.is_group_slow(group)]
        return {tuple(sorted(group)) for group in slow if not any(other < group for other in slow)}

    def _rail_evidence(self, pairs: List[Pair], rail: int) -> Tuple[Sample, ...]:
        return tuple(sample for pair in pairs for sample in _of_rail(self.tables[pair], rail))


class _Round:
    """Pairs that share no node, for one round."""

    def __init__(self) -> None:
        self.pairs = []  # type: List[Pair]
        self.busy = set()  # type: Set[int]

    def take(self, pair: Pair) -> None:
        """Add `pair` unless one of its nodes is busy."""
        if not self.busy & set(pair):
            self.pairs.append(pair)
            self.busy |= set(pair)

    def take_with(self, node: int, partners: Iterable[int]) -> None:
        """Add `node` with the first of `partners` that is free."""
        partner = next((other for other in partners if other != node and other not in self.busy), None)
        if node not in self.busy and partner is not None:
            self.take(_pair(node, partner))


def _doubts(reading: _Reading) -> List[Trial]:
    """Return the trials that would settle what is not settled."""
    asked = _Round()
    lonely = []
    has_cause = reading.has_cause()
    for node in reading.crossings():
        asked.take_with(node, _fresh_first(reading, node))
    for pair in sorted(reading.open, key=lambda pair: (-reading.drop_of(pair), pair)):  # the worst says most
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
    lonely = [*_never_alone(reading), *lonely]
    for node in lonely:
        if reading.trials_of(node) < _NODE_TRIALS:
            asked.take_with(node, _fresh_first(reading, node))
    if asked.pairs:  # a baseline of one or two numbers is repeated beside
        fine = sorted(pair for pair, count in reading.slow.items() if not count)
        for pair in fine if len(fine) < 4 else ():  # noqa: PLR2004
            asked.take(pair)
    return [Trial(pair, ()) for pair in _at_most(asked.pairs, reading)]


def _fresh_first(reading: _Reading, node: int) -> List[int]:
    """Return the partners beyond doubt for `node`, those first that it did not run with yet."""
    known = {_other(pair, node) for pair in reading.partners[node]}
    return sorted(reading.clean, key=lambda other: other in known)


def _unproven(reading: _Reading) -> List[Trial]:
    """Return the next trials, few at once, of nodes and pairs that are to blame if they are slow nearly alone, too."""
    asked = _Round()
    has_cause = reading.has_cause()
    for node in [*reading.blamed, *_may_flap(reading)]:
        tried = sum(len(reading.lone.get(pair, ())) for pair in reading.partners[node])
        if tried < _LONE_TRIALS and not (node in reading.blamed and reading.is_slow_alone(reading.partners[node])):
            asked.take_with(node, _fresh_first(reading, node))
    for pair in sorted(reading.open, key=lambda pair: (-reading.drop_of(pair), pair)):
        if not reading.is_slow_together(pair) or pair in reading.links or (has_cause and reading.is_passing(pair)):
            continue
        tried = len(reading.lone.get(pair, ()))
        if tried < _LONE_STEADY if reading.is_always_open(pair) else not reading.is_settled(pair):
            asked.take(pair)
    return [Trial(pair, ()) for pair in asked.pairs[: _lone_at_once(reading.nodes)]]


def _may_flap(reading: _Reading) -> List[int]:
    """Return the ends of slow pairs that may be nodes that come and go."""
    ends = {node for pair in reading.open if pair not in reading.links for node in pair if node not in reading.blamed}
    return sorted(node for node in ends if reading.may_flap(reading.own(node)))


def _lone_at_once(nodes: int) -> int:
    """Return how many pairs at once do not meet on any link that leaves share, or hardly ever."""
    return max(1, nodes // 16)


def _lone(rounds: List[List[Sample]], nodes: int) -> Dict[Pair, List[Sample]]:
    """Return the samples of pairs that ran nearly alone."""
    found = {}  # type: Dict[Pair, List[Sample]]
    for samples in rounds:
        if len(samples) <= _lone_at_once(nodes):
            for sample in _whole_pairs(samples):
                found.setdefault(_pair(*sample.trial.nodes), []).append(sample)
    return found


def _never_alone(reading: _Reading) -> List[int]:
    """Return the nodes that would be blamed by what was slow in company alone."""
    ran = {node for pair in reading.alone for node in pair}
    return [node for node in reading.blamed if node not in ran] if reading.is_crowded else []


def _at_most(pairs: List[Pair], reading: _Reading) -> List[Pair]:
    """Return as many of `pairs` as are nearly alone, spread over the cluster, where pairs at once slow each other."""
    few = _few_at_once(reading.nodes)
    return pairs[:: -(-len(pairs) // few)] if reading.is_crowded and len(pairs) > few else pairs


def _whole_pairs(samples: Iterable[Sample]) -> List[Sample]:
    """Return the samples of pairs over all rails."""
    return [one for one in samples if len(one.trial.nodes) == PAIR and not one.trial.rails]


def _crowded(rounds: List[List[Sample]], nodes: int, is_slow: Callable[[Sample], bool]) -> List[List[Sample]]:
    """Return the slow samples of each round that ran many pairs at once and has several slow ones."""
    many = [tried for tried in map(_whole_pairs, rounds) if len(tried) > _few_at_once(nodes)]
    slow = [[sample for sample in tried if is_slow(sample)] for tried in many]
    return [samples for samples in slow if len(samples) >= _COMPANY]


def _few_at_once(nodes: int) -> int:
    """Return how many pairs are nearly alone: what crosses a spine of an eighth of its leaves' rate without being slowed."""
    return max(PAIR, nodes // 16)


def _single_rails(reading: _Reading) -> List[Trial]:
    """Return the single-rail trials that would narrow the causes down, all rails of a pair at once."""
    asked = _Round()
    for pair in sorted(reading.links):
        at_times = not reading.is_always_open(pair)
        if reading.is_undecided(reading.tables.get(pair, []), at_times) or reading.are_silent(pair):
            asked.take(pair)
    offset = len(reading.clean) // 2  # far from the neighbours, which may share what is slow
    for node, flapping in sorted(reading.blamed.items()):
        if reading.is_undecided(reading.tables_of(node), flapping):
            asked.take_with(node, reading.clean[offset:] + reading.clean[:offset])
    beside = bool(asked.pairs)
    for pair in _reference_pairs(reading, asked.busy):
        undecided = reading.is_undecided(reading.tables.get(pair, []), flapping=False)
        if beside or (undecided and _asks_for_planes(reading)):
            asked.take(pair)
    return [Trial(pair, (rail,)) for pair in asked.pairs for rail in range(reading.rails)]


def _asks_for_planes(reading: _Reading) -> bool:
    """Tell whether one rail may be slow on all nodes: nothing else explains the run, or a good pair's rail was slow."""
    stood_out = any(reading.standouts(table) for pair in reading.references() for table in reading.tables[pair])
    if reading.nodes == PAIR or reading.is_all_slow() or stood_out:
        return True
    return not reading.culprits and (reading.whole is None or reading.is_explained())


def _reference_pairs(reading: _Reading, busy: Set[int]) -> List[Pair]:
    """Return up to two pairs beyond doubt; three with three nodes, where any two pairs share a node."""
    if reading.nodes == PAIR:
        return [(0, 1)]
    if reading.nodes == PAIR + 1:
        return [(0, 1), (1, 2), (0, 2)] if len(reading.clean) == 3 else []  # noqa: PLR2004
    clean = set(reading.clean) - busy
    free = [pair for pair in sorted(reading.slow) if clean.issuperset(pair) and not reading.slow[pair]]
    chosen = _Round()
    for pair in sorted(free, key=lambda pair: pair not in reading.tables):
        chosen.take(pair)
    return chosen.pairs[:2]


def _at_once(plans: List[Iterator[List[Trial]]]) -> Iterator[List[Trial]]:
    """Run several plans side by side: one round holds the next trials of each."""
    while True:
        rounds = [trials for trials in (next(plan, None) for plan in plans) if trials]
        if not rounds:
            return
        yield [trial for trials in rounds for trial in trials]


def _baseline(numbers: List[float]) -> Tuple[Optional[float], float]:
    """Return the healthy median and the share below it from which a number is slow.

    Faults only slow down, and on a small cluster they may touch most pairs: so the body is looked for at the top.
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
        deviation = median([abs(number - healthy) for number in body]) * _MAD_TO_SD
        drop = min(_WIDEST, max(floor, _deviations(len(body)) * deviation / healthy)) if healthy > 0 else floor
    return healthy, drop


def _deviations(count: int) -> float:
    """Return how many robust standard deviations down a number is slow.

    The lowest of m healthy ones is about sqrt(2 ln m) down; nothing within 0.7 of that raises an alarm.
    """
    return 0.7 + math.sqrt(2 * math.log(max(2, count)))


def _summary(culprits: Tuple[Culprit, ...], suspects: Tuple[Tuple[int, ...], ...], reading: _Reading, trials: int) -> str:
    if culprits:
        more = "" if len(culprits) == 1 else f", and {len(culprits) - 1} more"
        return f"{_sentence(culprits[0])}{more}"
    if suspects:
        listed = ", ".join(f"{nodes[0]}-{nodes[-1]}" for nodes in suspects[:8])
        return f"no cause is proven; slow at least once, by node: {listed}"
    if not trials:
        return "nothing was tried yet"
    if reading.healthy:
        return f"nothing is slow in {trials} trials; a pair gives {reading.healthy:.4g} GB/s"
    return f"no pair gave a number in {trials} trials"


def _sentence(one: Culprit) -> str:
    how = "{}slow ({:.0%} of healthy)".format("at times " if one.flapping else "", one.ratio)
    if not one.ratio:
        how = "dead at times" if one.flapping else "dead"
    rails = "on rail {}".format(", ".join(str(rail) for rail in one.rails)) if one.rails else "on all rails"
    if one.kind == "node":
        return f"node {one.nodes[0]} is {how} with every partner"
    if one.kind == "rail":
        return f"rail {one.rails[0]} of node {one.nodes[0]} is {how}"
    if one.kind == "link":
        return f"nodes {one.nodes[0]} and {one.nodes[1]} are {how} together {rails}"
    if one.kind == "rail_plane":
        return f"rail {one.rails[0]} is {how} between all nodes"
    if one.kind == "between":
        return f"pairs of {len(one.nodes)} nodes are {how} when many run at once, and fine nearly alone: nobody's own fault"
    return f"{len(one.nodes)} nodes ({one.nodes[0]} to {one.nodes[-1]}) are {how} together"


def _checked(sample: Sample) -> Sample:
    """Return `sample`, without its number if that is not a bandwidth."""
    number = sample.busbw_gb_s
    if number is None or (math.isfinite(number) and number >= 0):
        return sample
    return Sample(sample.trial, None, sample.why or f"{number} is not a bandwidth")


def _sureness(agreeing: int) -> float:
    """Each independent agreeing trial halves the doubt."""
    return min(0.99, 1 - 0.5 ** (agreeing + 1))


def _numbers(samples: Iterable[Sample]) -> List[float]:
    return [sample.busbw_gb_s for sample in samples if sample.busbw_gb_s is not None]


def _level(table: Dict[int, Sample]) -> float:
    return median_high([sample.busbw_gb_s or 0.0 for sample in table.values()])


def _of_rail(tables: List[Dict[int, Sample]], rail: int) -> Tuple[Sample, ...]:
    return tuple(table[rail] for table in tables if rail in table)


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def _trial(one: int, other: int) -> Trial:
    return Trial(_pair(one, other), ())


def _other(pair: Pair, node: int) -> int:
    return pair[1] if pair[0] == node else pair[0]
