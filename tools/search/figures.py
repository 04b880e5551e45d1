"""Print how well the fault search does on simulated fabrics; `python -m tools.search.figures` takes some minutes.

Every run is seeded, so all figures are reproducible except the planning time. tests/unit/test_search.py has limits
for these figures.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tools.search.simulate import Fabric, Score, planted, score

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Busbw that a search is told for a full ring that is too slow, as a share of the busbw of a healthy ring.
_SHORT = 0.7
#: Rounds of a test that tries all pairs of 8 nodes one after the other.
ALL_PAIRS_OF_EIGHT = 28
CAUSES = ("link", "node", "rail")
#: The thresholds of the search were tuned only on seeds below this number.
FRESH = 2_000_000


@dataclass(frozen=True)
class Case:
    """Many seeded searches: each of `runs` searches has its own fabric of `nodes` nodes.

    The number of a fabric's faults is drawn from `counts`, and the faults' kinds are drawn from `kinds`. Fields that `Fabric`
    has, too, mean the same as there. If `short` is true, each search is told that the full ring was short, even if the ring
    was not short. If `off_ring` is true, each search is told that an all-to-all was short although the ring was not short.
    `first` is the first seed: thresholds were tuned on seeds below `FRESH`, and the figures use seeds from `FRESH` on.
    """

    nodes: int
    runs: int
    counts: tuple[int, ...]
    kinds: tuple[str, ...] = CAUSES
    rails: int = 8
    noise: float = 0.02
    active: float = 1.0
    disturbed: float = 0.0
    leaf: int = 0
    spine: float = 1.0
    ecmp: float = 0.0
    short: bool = False
    off_ring: bool = False
    first: int = 0

    def scores(self) -> list[Score]:
        """Return the score of a search on each fabric; each search is given the result of the full ring."""
        seeds = range(self.first, self.first + self.runs)
        return [self._one(random.Random(seed * 7919 + self.nodes)) for seed in seeds]  # noqa: S311 - noise

    def _one(self, dice: random.Random) -> Score:
        seed = dice.randrange(2**32)
        bare = Fabric(self.nodes, self.rails, (), self.noise, seed=seed, disturbed=self.disturbed)
        bare = replace(bare, leaf=self.leaf, spine=self.spine, ecmp=self.ecmp)
        fabric = planted(dice, bare, dice.choice(self.counts), self.kinds, self.active)
        whole = _SHORT * fabric.healthy() if self.short else fabric.whole()
        for _ in range(100 if fabric.faults and not self.off_ring else 0):
            if whole < fabric.gate_gb_s():
                break  # a real search starts only after a short run
            whole = fabric.whole()
        return score(fabric, whole_gb_s=whole, off_ring=self.off_ring)


def figures(say: Callable[[str, str], None]) -> None:
    """Call `say` with the name and the text of every figure."""
    large = _fresh(Case(256, 300, (1, 2, 3)))
    say("search, 256 nodes, 1-3 faults, 2 % noise, 300 runs", _quality(large))
    say("search, most rounds of these (2 log2 256 is 16)", str(_rounds(large)))
    eight = _fresh(Case(8, 300, (1,)))
    say("search, 8 nodes, 1 fault, 2 % noise, 300 runs", _quality(eight))
    say(f"search, most rounds of these (all pairs: {ALL_PAIRS_OF_EIGHT})", str(_rounds(eight)))
    say("search, 8 nodes, 1 fault, 2 % of trials disturbed, 300 runs", _quality(_fresh(Case(8, 300, (1,), disturbed=0.02))))
    say("search, 64 nodes, a slow rail plane, 100 runs", _quality(_fresh(Case(64, 100, (1,), ("rail_plane",)))))
    say("search, 64 nodes, slow only as a group, 100 runs", _quality(_fresh(Case(64, 100, (1,), ("group",)))))
    for kinds, name in ((("link",), "a link"), (("node",), "a node"), (CAUSES, "a fault")):
        scores = _fresh(Case(64, 100, (1,), kinds, active=0.5))
        say(f"search, 64 nodes, {name} that is slow half of the time, 100 runs", _quality(scores))
    for nodes in (8, 16, 64):
        scores = _fresh(Case(nodes, 100, (1,), ("far link",), off_ring=True))
        name = f"search, {nodes} nodes, a slow link that no ring crosses, all-to-all short, 100 runs"
        say(name, f"{_quality(scores)}, at most {_rounds(scores)} rounds")
    healthy = [one for nodes in (8, 256) for one in _fresh(Case(nodes, 100, (0,)))]
    say("search, false alarms in 200 healthy clusters", str(sum(one.wrong for one in healthy)))


#: Healthy fabrics: name, then `spine`, `ecmp` and `disturbed` of `Fabric`.
_HEALTHY = (("spine 1:2", 0.5, 0.0, 0.0), ("ECMP on 10 %", 1.0, 0.1, 0.0), ("2 % disturbed", 1.0, 0.0, 0.02))
#: Small leaves: one node fills a leaf's uplinks. `leaf` and `spine` of `Fabric`, and `spine` as text.
_SMALL_LEAVES = ((4, 0.25, "1:4"), (2, 0.5, "1:2"))


def in_company(say: Callable[[str, str], None]) -> None:
    """Call `say` with the figures of fabrics that have shared links, disturbances or many faults."""
    for nodes in (8, 64, 256):
        spine = _fresh(Case(nodes, 40, (1,), ("node",), leaf=min(nodes // 2, 32), spine=0.5, short=True))
        name = f"search, {nodes} nodes, one bad node, spine 1:2, 40 runs"
        say(name, f"{_quality(spine)}, at most {_rounds(spine)} rounds (2 log2 n + 6 is {2 * (nodes - 1).bit_length() + 6})")
    for nodes in (64, 256):  # most partners of a node are on other leaves, so most rounds are slow
        small = _fresh(Case(nodes, 40, (1,), ("node", "link"), leaf=8, spine=0.5, short=True))
        name = f"search, {nodes} nodes on leaves of 8, one bad node or link, spine 1:2, 40 runs"
        say(name, f"{_quality(small)}, at most {_rounds(small)} rounds (2 log2 n + 6 is {2 * (nodes - 1).bit_length() + 6})")
    for leaf, share, ratio in _SMALL_LEAVES:
        healthy = _fresh(Case(64, 40, (0,), leaf=leaf, spine=share, short=True))
        say(f"search, 64 healthy nodes on leaves of {leaf}, spine {ratio}, false alarms in 40 runs", str(_blamed(healthy)))
        scores = _fresh(Case(64, 40, (1,), ("node",), leaf=leaf, spine=share, short=True))
        say(f"search, 64 nodes on leaves of {leaf}, one bad node, spine {ratio}, 40 runs", _quality(scores))
    noisy = _fresh(Case(256, 100, (1,), ("node",), disturbed=0.03))
    say(
        "search, 256 nodes, one bad node, 3 % of trials disturbed, 100 runs",
        f"{_quality(noisy)}, at most {_rounds(noisy)} rounds (2 log2 n + 6 is 22)",
    )
    for nodes in (8, 64, 256):
        for name, share, ecmp, disturbed in _HEALTHY:
            leaf = min(nodes // 2, 32)
            case = Case(nodes, 100, (0,), disturbed=disturbed, leaf=leaf, spine=share, ecmp=ecmp, short=True)
            say(f"search, {nodes} healthy nodes, {name}, false alarms in 100 runs", str(_blamed(_fresh(case))))
    (many,) = _fresh(Case(4096, 1, (123,), ("node",)))
    planned = f"{many.planning_s:.1f} s of planning in {many.rounds} rounds, {_quality([many])}"
    say("search, 4096 nodes, 3 % of them bad", planned)


def _fresh(case: Case) -> list[Score]:
    return replace(case, first=FRESH).scores()


def _quality(scores: Iterable[Score]) -> str:
    scores = list(scores)
    return f"precision {Score.precision(scores):.4f}, recall {Score.recall(scores):.4f}"


def _blamed(scores: Iterable[Score]) -> int:
    return sum(bool(one.wrong) for one in scores)


def _rounds(scores: Iterable[Score]) -> int:
    return max(one.rounds for one in scores)


if __name__ == "__main__":
    for part in (figures, in_company):
        part(lambda name, figure: print(f"{name:<80} {figure}", flush=True))  # noqa: T201 - printing is its purpose
