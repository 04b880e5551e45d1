"""Finds the smallest set of causes (culprits) that explains the numbers of the trials, and the evidence for each cause."""

from statistics import median
from typing import Dict, Iterable, List, Optional, Set, Tuple

from benchmarks.search.rails import Rails
from benchmarks.search.suspects import DEEPER
from benchmarks.search.trials import PAIR, Culprit, Pair, Sample, level_of, of_rail, other_of

#: If all rails of a node are slow, the node is blamed. A rail is blamed in addition to the node only if that rail's busbw is
#: less than this share of the busbw of the node's median rail.
_BESIDES = 0.75
#: When a bisection has found a slow group, the group runs this many times more. It is blamed only if it is slow each time,
#: because an intermittent fault can mislead a bisection.
GROUP_REPEATS = 4


class Reading(Rails):
    """The interpretation of the samples so far: the culprits, and the suspects that are not proven."""

    def __init__(
        self, nodes: int, rails: int, rounds: List[List[Sample]], pair_limit: Optional[float], whole: Optional[float]
    ) -> None:
        super().__init__(nodes, rails, rounds, pair_limit, whole)
        self.culprits = self._culprits()
        self.suspects = (set(self.open) - self.links) | self._suspect_groups()

    @property
    def blames(self) -> List[Culprit]:
        """All culprits except those of kind `between`, because pairs that are slow only while many pairs run have no fault."""
        return [one for one in self.culprits if one.kind != "between"]

    def is_explained(self) -> bool:
        """Tell whether the culprits found so far explain the busbw of the full ring."""
        if not self.healthy or self.whole is None:
            return bool(self.blames) or not self.healthy
        if not self.blames:
            beside = self._ring_in_company()
            return self.whole >= self.healthy * ((1 - self.drop) if beside is None else DEEPER * beside)
        ratio = min([1.0] + [one.ratio for one in self.blames if one.kind not in ("group", "rail_plane")])
        return self.whole >= DEEPER * ratio * self.healthy

    def _ring_in_company(self) -> Optional[float]:
        """Return the busbw (share of healthy) of ring edges that are slow only while many pairs run; None without such edges.

        With small leaf switches, most edges of the ring connect two leaves. All edges of a ring are busy at the same time, so
        the full ring is as slow as these edges.
        """
        edges = [one for one in self.company if (one.trial.nodes[0] - one.trial.nodes[1]) % self.nodes in {1, self.nodes - 1}]
        return self.ratio(edges) if edges else None

    def are_in_company(self, nodes: Iterable[int]) -> bool:
        """Tell whether each of `nodes` has a pair that is slow only in company, which means while many pairs run.

        Then a ring over `nodes` may be slow although no node and no link has a fault.
        """
        return set(nodes) <= {node for sample in self.company for node in sample.trial.nodes}

    def beyond_doubt(self) -> Tuple[int, ...]:
        """Return the nodes that no culprit of `blames` includes, in ring order."""
        guilty = {node for one in self.blames for node in one.nodes}
        return tuple(node for node in range(self.nodes) if node not in guilty)

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
            alone = self.lone_bridges(island)
            if self.is_crowded and not (alone and all(alone)):
                continue
            samples = [s for pair in self.bridges(island) for s in self.pairs[pair]]
            found.append(Culprit("group", tuple(sorted(island)), (), self.ratio(samples), False, tuple(samples), 0.9))
        flapping = sorted(node for node, flaps in self.blamed.items() if flaps)
        if len(flapping) > max(3, self.nodes // 4):  # so many intermittently slow nodes are blamed as one group
            samples = [sample for node in flapping for sample in self.slow_samples(node)]
            found.append(Culprit("group", tuple(flapping), (), self.ratio(samples), True, tuple(samples), 0.6))
            steady = sorted(node for node, flaps in self.blamed.items() if not flaps)
        else:
            steady = sorted(self.blamed)
        for node in steady:
            if self.is_node_slow_apart(node):
                found.extend(self._of_node(node))
        found.extend(self._of_link(pair) for pair in sorted(self.links))
        found.extend(self._of_groups({node for one in found for node in one.nodes} if found else set()))
        if self.company:
            nodes = tuple(sorted({node for sample in self.company for node in sample.trial.nodes}))
            evidence = tuple(self.company)
            found.append(Culprit("between", nodes, (), self.ratio(evidence), False, evidence, _sureness(len(evidence))))
        return found

    def _of_two(self) -> List[Culprit]:
        """Return the culprit in a cluster of two nodes: their link or some of its rails.

        The trials cannot tell which of the two nodes is at fault.
        """
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
        tried = [s for p in self.partners[node] if other_of(p, node) not in self.blamed for s in self.pairs[p]]
        flapping = self.blamed[node] and self._comes_and_goes(tried, self.levels[node])
        share = len(slow) / len(tried) if flapping else 1.0
        sure = _sureness(len(partners)) * max(0.5, share)
        tables = self.tables_of(node)
        tables = self.showing(tables) if flapping else tables
        rails = {
            rail: ratio
            for rail, ratio in self.slow_rails(tables, self.blamed[node]).items()
            if rail not in self.planes or ratio < DEEPER * self.planes[rail]
        }
        found = [
            Culprit("rail", (node,), (rail,), ratio, flapping, tuple(slow) + of_rail(tables, rail), sure)
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
        """Tell whether even the median rail in `tables` is slow, compared with the median rail of pairs beyond doubt."""
        own = [level_of(table) for table in tables]
        others = [level_of(table) for pair in self.references() for table in self.tables[pair]]
        return bool(own and others) and median(own) < DEEPER * median(others)

    def _comes_and_goes(self, samples: List[Sample], level: float) -> bool:
        """Tell whether a fault is intermittent.

        A fault is intermittent if the busbw of some `samples` is nearer to healthy busbw than to `level` times healthy busbw.
        """
        middle = (1 + level) / 2 * (self.healthy or 0.0)
        return any(sample.busbw_gb_s is not None and sample.busbw_gb_s > middle for sample in samples)

    def _of_link(self, pair: Pair) -> Culprit:
        slow = self.open[pair]
        level = self.ratio(slow)
        flapping = self._comes_and_goes(self.pairs[pair], level) or self.is_away_at_times(pair)
        tables = self.tables.get(pair, [])
        tables = self.showing(tables) if flapping else tables
        known = set(self.planes).union(*(self.slow_rails(self.tables_of(node), flapping=False) for node in pair))
        rails = [rail for rail in self.slow_rails(tables, flapping) if rail not in known]
        fine = [self.pairs[p][0] for n in pair for p in [p for p in self.partners[n] if not self.slow[p]][:2]]
        evidence = tuple(self.pairs[pair]) + tuple(fine) + tuple(s for rail in rails for s in of_rail(tables, rail))
        sure = _sureness(len(slow)) * max(0.5, len(slow) / len(self.pairs[pair]))
        return Culprit("link", pair, tuple(rails), level, flapping, evidence, sure)

    def _of_groups(self, guilty: Set[int]) -> List[Culprit]:
        """Return the groups to blame: the shortest stretches of the ring that are slow.

        A stretch of more than four nodes is blamed only if another stretch, which shares nodes with it, is fine.
        """
        doubtful = [set(pair) for pair in self.open if not self.is_innocent(pair)]
        slow = [group for group in self.groups if self.is_group_slow(group) and not guilty & set(group)]
        slow = [group for group in slow if not self.are_in_company(group)]
        found = []
        for group in slow:
            fine = [o for o in self.groups if o not in slow and len(set(o) & set(group)) * 2 >= len(group) - 1]
            if any(set(other) < set(group) for other in slow) or not (fine or len(group) <= 4):  # noqa: PLR2004 - halves are pairs
                continue
            tried = self.groups[group]
            if len(tried) <= GROUP_REPEATS or any(pair <= set(group) for pair in doubtful):
                continue  # if a pair in the group is intermittently slow, the group may be slow by chance
            evidence = tuple(tried) + tuple(sample for other in fine for sample in self.groups[other])
            found.append(Culprit("group", group, (), self.ratio(tried), False, evidence, _sureness(len(tried))))
        return found

    def _suspect_groups(self) -> Set[Tuple[int, ...]]:
        """Return the shortest slow stretches that no culprit explains yet."""
        if self.blames:
            return set()
        slow = [set(group) for group in self.groups if self.is_group_slow(group)]
        return {tuple(sorted(group)) for group in slow if not any(other < group for other in slow)}

    def _rail_evidence(self, pairs: List[Pair], rail: int) -> Tuple[Sample, ...]:
        return tuple(sample for pair in pairs for sample in of_rail(self.tables[pair], rail))


def _sureness(agreeing: int) -> float:
    """Return a confidence from 0 to 1: each independent trial that agrees halves the doubt."""
    return min(0.99, 1 - 0.5 ** (agreeing + 1))
