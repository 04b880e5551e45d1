"""Compares the numbers of a search with healthy numbers: finds slow pairs, slow rings, and pairs that are slow in company.

A pair is slow in company if it is slow in a crowded round, in which many pairs run, but fine in a sparse round of few pairs.
"""

from statistics import median
from typing import Dict, Iterable, List, Optional, Set, Tuple

from benchmarks.search.baseline import baseline
from benchmarks.search.shared_links import COMPANY, crowded, few_at_once, is_packed, lone_samples
from benchmarks.search.trials import PAIR, Pair, Sample, is_excused, numbers_of, other_of, pair_of, whole_pairs

#: If at least `_CLEARED` slow pairs of a crowded round are fine in sparse rounds, the pairs share a link. After `_TRIED_AGAIN`
#: pairs of a crowded round have run again, no more repeats are needed to decide whether the pairs share a link.
_CLEARED, _TRIED_AGAIN = 2, 4
#: A node is slow by itself if it is slow with at least this share of its partners.
#: An island is a set of nodes that are fine with each other but slow with other nodes. An island is slow by itself if at least
#: this share of the trials between the island and other nodes in sparse rounds is slow.
_MOSTLY = 0.75


class Slowness:
    """Samples by pair, ring and rail, compared with the healthy baseline."""

    def __init__(
        self, nodes: int, rails: int, rounds: List[List[Sample]], pair_limit: Optional[float], whole: Optional[float]
    ) -> None:
        self.nodes = nodes
        self.rails = rails
        self.pair_limit = pair_limit
        self.pairs: Dict[Pair, List[Sample]] = {}
        self.tables: Dict[Pair, List[Dict[int, Sample]]] = {}
        self.groups: Dict[Tuple[int, ...], List[Sample]] = {}
        self.is_late = len(rounds) > 2 * (nodes - 1).bit_length() + 1
        for samples in rounds:
            self._sort(samples)
        self.healthy, self.drop = baseline([n for each in self.pairs.values() for n in numbers_of(each)])
        self._least_gb_s = (self.healthy or 0.0) * (1 - self.drop)
        # `sparse` has the samples from sparse rounds; `lone` has those from rounds of so few pairs that they almost never share
        # a link.
        self.sparse: Dict[Pair, List[Sample]] = {}
        self.is_crowded = False
        # Slow samples of crowded rounds; to find out why they are slow, their pairs must be tried in sparse rounds.
        self.unclear: List[List[Sample]] = []
        self.company = self._in_company(rounds)
        self.is_packed = is_packed(rounds, nodes, self.is_slow)
        self.lone = lone_samples(rounds, nodes, is_packed=self.is_packed)
        self.slow: Dict[Pair, int] = {}
        self.partners: Dict[int, List[Pair]] = {}
        for pair, tried in self.pairs.items():
            self.slow[pair] = sum(self.is_slow(sample) for sample in tried)
            for node in pair:
                self.partners.setdefault(node, []).append(pair)
        self.good = {node for pair, count in self.slow.items() if not count for node in pair}
        self.whole = self._whole(whole)
        self.islands = self._islands()

    def _sort(self, samples: List[Sample]) -> None:
        tables: Dict[Pair, Dict[int, Sample]] = {}
        for sample in samples:
            nodes, rails = sample.trial
            if len(nodes) > PAIR:
                self.groups.setdefault(nodes, []).append(sample)
            elif rails:
                tables.setdefault(pair_of(*nodes), {})[rails[0]] = sample
            else:
                self.pairs.setdefault(pair_of(*nodes), []).append(sample)
        for pair, table in tables.items():
            self.tables.setdefault(pair, []).append(table)

    def _in_company(self, rounds: List[List[Sample]]) -> List[Sample]:
        """Return the slow samples of rounds whose slow pairs are fine in sparse rounds; remove these samples from `pairs`."""
        few = few_at_once(self.nodes)
        for samples in rounds:
            tried = whole_pairs(samples)
            for sample in tried if len(tried) <= few else ():
                self.sparse.setdefault(pair_of(*sample.trial.nodes), []).append(sample)
        slow_rounds = crowded(rounds, self.nodes, self.is_slow)
        self.is_crowded = bool(slow_rounds)
        own = self._slow_by_themselves(slow_rounds)
        found: List[Sample] = []
        for slow in slow_rounds:
            rest = [sample for sample in slow if own.isdisjoint(sample.trial.nodes)]
            again = [sample for sample in rest if pair_of(*sample.trial.nodes) in self.sparse]
            guilty = [sample for sample in again if any(map(self.is_slow, self.sparse[pair_of(*sample.trial.nodes)]))]
            needed = max(_CLEARED, 3 * len(guilty))
            if len(again) - len(guilty) >= needed:
                found += rest
            elif len(again) < _TRIED_AGAIN and len(rest) - len(guilty) >= max(needed, COMPANY):
                self.unclear.append([sample for sample in rest if sample not in again])
        for sample in found:
            pair = pair_of(*sample.trial.nodes)
            self.pairs[pair].remove(sample)
            if not self.pairs[pair]:
                del self.pairs[pair]
        return found

    def _slow_by_themselves(self, slow_rounds: List[List[Sample]]) -> Set[int]:
        """Return the nodes that are slow by themselves: they are slow in sparse rounds, and slow with most of their partners.

        Slow trials in a crowded round do not count: perhaps a shared link between leaf switches made them slow, because in half
        of the rounds a node's partner may be on another leaf switch.
        """
        suspects = {node for pair, tried in self.sparse.items() if any(map(self.is_slow, tried)) for node in pair}
        in_doubt = {id(sample) for slow in slow_rounds for sample in slow}
        counts = {node: [0.0, 0] for node in suspects}
        for pair, tried in self.pairs.items():
            counted = [self.is_slow(sample) for sample in tried if id(sample) not in in_doubt]
            for node in suspects.intersection(pair) if counted else ():
                counts[node][0] += sum(counted) / len(counted)
                counts[node][1] += 1
        return {node for node, (slow, tried) in counts.items() if slow >= _MOSTLY * tried}

    def is_slow(self, sample: Sample) -> bool:
        """Tell whether a sample is slow: it has no number, or its number is below the healthy range.

        A low number is excused if the sample names a cause outside the fabric.
        """
        number = sample.busbw_gb_s
        if number is None:
            return True
        return number < self._least_gb_s and not is_excused(sample)

    def ratio(self, samples: Iterable[Sample]) -> float:
        """Return the median busbw of `samples` as a share of healthy busbw; 0.0 if no sample has a number."""
        numbers = numbers_of(samples)
        return median(numbers) / self.healthy if numbers and self.healthy else 0.0

    def is_all_slow(self) -> bool:
        """Tell whether even the healthiest pairs miss the pair limit, or no pair has a number above 0."""
        if not self.pairs:
            return False
        return not self.healthy or (self.pair_limit is not None and self.healthy < self.pair_limit)

    # rings

    def _whole(self, whole: Optional[float]) -> Optional[float]:
        tried = [sample.busbw_gb_s or 0.0 for sample in self.groups.get(tuple(range(self.nodes)), ())]
        if whole is not None:
            return max([whole, *tried])  # a single run may have been disturbed, so the best run counts
        return min(tried) if tried else None

    def _is_short(self, sample: Sample) -> bool:
        """Tell whether a ring is short (too slow).

        A ring is short only if it is below the healthy range. If the full ring is below that range, too, there is a second
        condition: the ring's busbw must be nearer to the busbw of the full ring than to the busbw of a healthy pair.
        """
        if is_excused(sample):
            return False
        busbw_gb_s = sample.busbw_gb_s
        if busbw_gb_s is None or not self.healthy:
            return busbw_gb_s is None
        limit = self._least_gb_s
        if self.whole is not None and self.whole < limit:
            limit = min(limit, (self.whole + self.healthy) / 2)
        return busbw_gb_s < limit

    def is_group_slow(self, group: Tuple[int, ...]) -> bool:
        """Tell whether every run of a ring over `group` was short."""
        tried = [self._is_short(sample) for sample in self.groups.get(group, ())]
        return bool(tried) and all(tried)

    def _islands(self) -> List[Set[int]]:
        """Return the islands.

        Two nodes are connected if their pair is fine. Connected nodes form a set, and an island is a set of at least two nodes,
        but not the largest set. More than two pairs between the island and the largest set must have run, and all are slow.
        """
        parent = list(range(self.nodes))

        def root(node: int) -> int:
            while parent[node] != node:
                parent[node] = parent[parent[node]]
                node = parent[node]
            return node

        for (one, other), count in self.slow.items():
            if not count:
                parent[root(one)] = root(other)
        members: Dict[int, Set[int]] = {}
        for node in range(self.nodes):
            members.setdefault(root(node), set()).add(node)
        whole_sets = sorted(members.values(), key=lambda island: (-len(island), min(island)))
        found = []
        for island in whole_sets[1:]:
            if len(island) == 1:
                break  # the sets are sorted by size, so all sets after this one have a single node, too
            bridges = [pair for node in island for pair in self.partners.get(node, ()) if other_of(pair, node) in whole_sets[0]]
            if len(bridges) > 2 and self._are_slow_apart(bridges):  # noqa: PLR2004 - two bad links are enough to cut a ring in two
                found.append(island)
        return found

    def bridges(self, island: Set[int]) -> List[Pair]:
        """Return an island's bridges: the pairs that ran between the island and other nodes."""
        return sorted(pair for pair in self.pairs if len(island & set(pair)) == 1)

    def lone_bridges(self, island: Set[int]) -> List[bool]:
        """Tell, for each trial of an island's bridges in lone rounds, whether the trial was slow."""
        return [self.is_slow(sample) for pair in self.bridges(island) for sample in self.lone.get(pair, ())]

    def _are_slow_apart(self, pairs: List[Pair]) -> bool:
        """Tell whether `pairs`, which are slow, are slow by themselves, and not only in company.

        If no round was crowded, they are. Otherwise most of their trials in sparse rounds must be slow.
        """
        apart = [self.is_slow(sample) for pair in pairs for sample in self.sparse.get(pair, ())]
        return not self.is_crowded or (sum(apart) > 2 and sum(apart) >= _MOSTLY * len(apart))  # noqa: PLR2004 - as in _islands
