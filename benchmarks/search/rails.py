"""Finds individual rails that are slow: on one node, between two nodes, or on all nodes."""

from statistics import median, median_high
from typing import Dict, List, Optional

from benchmarks.search.baseline import MAD_TO_SD, WIDEST, deviations
from benchmarks.search.suspects import Suspects
from benchmarks.search.trials import Pair, Sample, level_of, other_of

#: How many tables (see `Rails`) are enough to find the rails of an intermittent fault, and how many of these tables must agree.
_TABLES, _AGREEING = 8, 2


class Rails(Suspects):
    """Rails that are slow; `planes` are those that are slow in pairs without a common node, and therefore on all nodes.

    A table has the samples of a pair's single-rail runs in one round, by rail.
    """

    def __init__(
        self, nodes: int, rails: int, rounds: List[List[Sample]], pair_limit: Optional[float], whole: Optional[float]
    ) -> None:
        super().__init__(nodes, rails, rounds, pair_limit, whole)
        self.planes = self._planes()

    def tables_of(self, node: int) -> List[Dict[int, Sample]]:
        """Return the tables of `node` with partners beyond doubt."""
        found = [(pair, tables) for pair, tables in self.tables.items() if node in pair]
        return [table for pair, tables in found if other_of(pair, node) in self.clean for table in tables]

    def standouts(self, table: Dict[int, Sample]) -> Dict[int, float]:
        """Return the rails that are slower than the other rails in `table`, each with its share of the median rail's busbw."""
        values = {rail: sample.busbw_gb_s or 0.0 for rail, sample in table.items()}
        level = median_high(values.values()) if values else 0.0
        if level <= 0:
            return {}
        deviation = median([abs(value - level) for value in values.values()]) * MAD_TO_SD / level
        drop = max(self.drop, min(WIDEST, deviations(len(values)) * deviation))
        return {rail: value / level for rail, value in values.items() if value < level * (1 - drop)}

    def slow_rails(self, tables: List[Dict[int, Sample]], flapping: bool) -> Dict[int, float]:
        """Return the rails that stand out in enough of `tables`, each with the median of the shares that `standouts` gives."""
        shares = {}  # type: Dict[int, List[float]]
        for table in tables:
            for rail, share in self.standouts(table).items():
                shares.setdefault(rail, []).append(share)
        most = max([len(found) for found in shares.values()] or [0])
        once = flapping and most == 1 and all(map(self.standouts, tables))
        needed = 1 if len(tables) == 1 or once else _AGREEING
        return {rail: median(found) for rail, found in sorted(shares.items()) if len(found) >= needed}

    def is_undecided(self, tables: List[Dict[int, Sample]], flapping: bool) -> bool:
        """Tell whether one more round of single-rail runs could change what `tables` show."""
        counts = {}  # type: Dict[int, int]
        for table in tables:
            for rail in self.standouts(table):
                counts[rail] = counts.get(rail, 0) + 1
        if flapping:
            low = sum(not self.standouts(table) for table in self.showing(tables))
            return len(tables) < _TABLES and max(low, *counts.values(), 0) < _AGREEING
        return not tables or (len(tables) < 3 and 1 in counts.values())  # noqa: PLR2004

    def showing(self, tables: List[Dict[int, Sample]]) -> List[Dict[int, Sample]]:
        """Return the tables that show the fault: these are slower than tables of pairs beyond doubt, or have a slow rail."""
        others = [level_of(table) for other in self.references() for table in self.tables[other]]
        if not others:
            return tables
        limit = (1 - self.drop) * median(others)
        return [table for table in tables if level_of(table) < limit or self.standouts(table)]

    def is_away_at_times(self, pair: Pair) -> bool:
        """Tell whether a slow pair was fine at times, over all rails together or over single rails."""
        tables = self.tables.get(pair, [])
        return not self.is_always_open(pair) or len(self.showing(tables)) < len(tables)

    def references(self) -> List[Pair]:
        """Return the pairs beyond doubt whose single rails were measured."""
        clean = set(self.clean)
        return [pair for pair in self.tables if clean.issuperset(pair)]

    def _planes(self) -> Dict[int, float]:
        """Return the rails that are slow in pairs without a common node, and therefore on all nodes."""
        pairs = self.references()
        if not pairs or set(pairs[0]).intersection(*pairs):
            return {}
        found = [self.slow_rails(self.tables[pair], flapping=False) for pair in pairs]
        return {rail: min(each[rail] for each in found) for rail in found[0] if all(rail in each for each in found)}
