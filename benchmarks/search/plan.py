"""Finds what makes a fabric slow: requests trials, many of which can run at once, reads their numbers, names the culprits.

Nodes and rails are indices here; `benchmarks.runner.search_run` runs the trials.

Order of trials: first come the edges of the ring. The ring uses only these links, so a bad link that made the ring slow is
among them. Then come pairs of node i with node i XOR 2^k, then repeats where one number is not enough, then single rails, and
finally, if every pair is fine, halves of the ring.

The rule of blame comes from NCCL's maintainers (NVIDIA/nccl issue 325): a node is to blame if it is slow with every known-good
partner, and a link is to blame if its two nodes are slow only together.

Pairs that run at once share the links between leaf switches, and may slow each other down. So if many pairs of a round are
slow, some of these pairs run again in sparse rounds, which have few pairs. If a pair is fine in a sparse round, the pair was
slow only "in company", while many pairs ran, and is not to blame. A node or link is blamed only if it was slow in a sparse
round. The more suspects there are, the more slow trials each suspect needs, because some of a thousand healthy pairs are
disturbed twice.
"""

from itertools import chain
from typing import Iterator, List, Optional, Tuple

from benchmarks.search.causes import GROUP_REPEATS, Reading
from benchmarks.search.next_trials import Round, doubts, single_rails, unproven
from benchmarks.search.sentences import summary
from benchmarks.search.shared_links import few_at_once
from benchmarks.search.trials import PAIR, Finding, Sample, Trial, checked, pair_of, trial_of

#: Largest numbers of rounds: sparse rounds that repeat pairs of crowded rounds, rounds that repeat unclear pairs, sparse rounds
#: of suspects, and rounds that narrow a cause down to its rails.
_SPARSE_ROUNDS, _CONFIRM_ROUNDS, _LONE_ROUNDS, _NARROW_ROUNDS = 8, 12, 10, 8
#: How often the ring's edges are measured again if the search found nothing, or found only groups of nodes.
_AGAIN = 3


class Search:
    """A search over `nodes` nodes (two or more), each with `rails` rails.

    Call `next_round` and `record` in turn; `finding` may be called at any moment.

    `pair_limit_gb_s` is what a healthy pair must reach, if that is known. Without this limit, a cluster whose pairs are all
    equally slow cannot be distinguished from a healthy cluster. `whole_gb_s` is what the full ring reached. `pair_limit_gb_s`
    and `whole_gb_s` have the unit of the samples. With `off_ring`, every pair is tried if nothing was found: an all-to-all uses
    all pairs, but a ring uses only its edges.
    """

    def __init__(  # noqa: PLR0913 - what a search depends on
        self,
        nodes: int,
        rails: int,
        pair_limit_gb_s: Optional[float] = None,
        whole_gb_s: Optional[float] = None,
        max_rounds: Optional[int] = None,
        *,
        off_ring: bool = False,
    ) -> None:
        if nodes < PAIR or rails < 1:
            raise ValueError(f"a search needs at least 2 nodes and 1 rail, but was given {nodes} and {rails}")
        self._nodes = nodes
        self._rails = rails
        self._pair_limit = pair_limit_gb_s
        self._whole = whole_gb_s
        bits = (nodes - 1).bit_length()
        self._off_ring = off_ring
        self._max_rounds = 4 * bits + 12 + (nodes if off_ring else 0) if max_rounds is None else max_rounds
        self._rounds = []  # type: List[List[Sample]]
        self._reading = None  # type: Optional[Reading]
        self._asked = []  # type: List[Trial]
        self._done = False
        self._repeats = 0
        self._steps = self._plan()

    def next_round(self) -> List[Trial]:
        """Return the trials to run at once; an empty list if there is nothing more to try."""
        if self._done or len(self._rounds) >= self._max_rounds:
            return []
        self._asked = next(self._steps, [])
        self._done = not self._asked
        return list(self._asked)

    def record(self, samples: List[Sample]) -> None:
        """Store the results of the last round; a trial without a sample counts as not run.

        Raises:
            ValueError: a sample belongs to a trial that was not requested.
        """
        asked = set(self._asked)
        for sample in samples:
            if sample.trial not in asked:
                raise ValueError(f"{sample.trial} was not requested in this round")
        self._rounds.append([checked(sample) for sample in samples])
        self._reading = None
        self._asked = []

    def finding(self) -> Finding:
        """Return the finding from the trials so far."""
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
            summary(culprits, suspects, reading, trials),
            suspects,
        )

    def _read(self) -> "Reading":
        """Return the `Reading` of all rounds so far; between two rounds it is made only once, because several stages use it."""
        if self._reading is None:
            self._reading = Reading(self._nodes, self._rails, self._rounds, self._pair_limit, self._whole)
        return self._reading

    def _plan(self) -> Iterator[List[Trial]]:
        yield from chain(self._edges(), self._partners(), self._sparse(), self._confirm(), self._apart(), self._narrow())
        if self._nodes > PAIR and not self._read().blames:
            yield from self._without_culprit()
        if self._read().blames and not self._read().is_explained():
            yield [Trial(tuple(range(self._nodes)), ())]
        reading = self._read()
        clean = reading.beyond_doubt()
        if not reading.is_explained() and len(clean) > PAIR:
            if not reading.are_in_company(clean):
                yield from self._bisect(clean)
            for _ in range(_AGAIN):
                if all(one.kind == "group" for one in self._read().blames):  # one of the group's pairs may be slow at times
                    yield from self._again()

        if self._off_ring and not self._read().blames:
            yield from self._other_pairs()

    def _other_pairs(self) -> Iterator[List[Trial]]:
        """Yield rounds of the pairs that have not run yet, with each node at most once per round, until there is a culprit."""
        last = self._nodes - 1 + self._nodes % 2  # with an odd number of nodes, one node has no partner in each round
        tried = set(self._read().pairs)
        for shift in range(last):
            turned = [pair_of((shift + step) % last, (shift - step) % last) for step in range(1, (last + 1) // 2)]
            pairs = [pair for pair in [(shift, last), *turned] if pair[1] < self._nodes and pair not in tried]
            if not pairs:
                continue
            yield [Trial(pair, ()) for pair in pairs]
            if set(self._read().open) & set(pairs):
                yield from chain(self._sparse(), self._confirm(), self._apart(), self._narrow())
                if self._read().blames:
                    return

    def _without_culprit(self) -> Iterator[List[Trial]]:
        """Yield the trials for the case that all pairs are fine or equally slow: the full ring, then the ring's edges again."""
        if self._read().whole is None:
            yield [Trial(tuple(range(self._nodes)), ())]
        if not self._read().is_explained():
            yield from self._again()

    def _again(self) -> Iterator[List[Trial]]:
        """Yield the ring's edges again, to find intermittent faults.

        In a ring with an odd number of nodes, each repeat leaves out a different edge.
        """
        self._repeats += 1
        yield from chain(self._edges(self._repeats), self._confirm(), self._apart(), self._narrow())

    def _edges(self, first: int = 0) -> Iterator[List[Trial]]:
        """Yield the ring's edges in two rounds, or in one round if there are two nodes.

        The edges of a ring with an odd number of nodes do not fit into two rounds, so the edge that ends at node `first` is
        left out. If `first` is 0, this is the closing edge of the ring, which `_partners` tries.
        """
        count = self._nodes
        start = first % count if count % 2 else 0
        ring = [(start + step) % count for step in range(count)]
        yield [trial_of(ring[at], ring[at + 1]) for at in range(0, count - 1, 2)]
        if count > PAIR:
            closing = [] if count % 2 else [trial_of(0, count - 1)]
            yield [trial_of(ring[at], ring[at + 1]) for at in range(1, count - 1, 2)] + closing

    def _partners(self) -> Iterator[List[Trial]]:
        """Yield pairs of node i with node i XOR 2^k, for growing k; a node without such a partner gets any free partner."""
        count = self._nodes
        tried = {pair_of(node, (node + 1) % count) for node in range(count)}
        first = [(0, count - 1)] if count % 2 else []  # the closing edge of an odd ring has not run yet
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

    def _sparse(self) -> Iterator[List[Trial]]:
        """Yield sparse rounds that repeat some slow pairs of each round that had many slow pairs.

        The repeated pairs are spread over the cluster.
        """
        few = few_at_once(self._nodes)
        for _ in range(_SPARSE_ROUNDS):
            asked, unclear = Round(), self._read().unclear
            picked = max(few // max(len(unclear), 1), 1)
            for number, slow in enumerate(unclear[:few]):
                stride = max(len(slow) // picked, 1)
                # For each crowded round, the repeats begin at a different place. Otherwise, many of the repeated pairs could
                # be on one leaf, and would crowd the leaf's links again.
                first = number * stride // len(unclear)
                for sample in slow[first::stride][:picked]:
                    asked.take(pair_of(*sample.trial.nodes))
            if not asked.pairs:
                return
            yield [Trial(pair, ()) for pair in asked.pairs]

    def _confirm(self) -> Iterator[List[Trial]]:
        """Yield repeats of unclear pairs, and trials of suspects with known-good partners."""
        everybody = tuple(range(self._nodes))
        for number in range(_CONFIRM_ROUNDS):
            reading = self._read()
            trials = doubts(reading)
            if not trials:
                return
            if number and everybody not in reading.groups and reading.is_whole_doubtful():
                yield [Trial(everybody, ())]  # the full ring runs before rounds are spent on pairs that may not slow the ring
            else:
                yield trials

    def _apart(self) -> Iterator[List[Trial]]:
        """Yield sparse rounds with trials of every suspect, because a suspect is blamed only if it is slow in such rounds."""
        for _ in range(_LONE_ROUNDS):
            trials = unproven(self._read())
            if not trials:
                return
            yield trials

    def _narrow(self) -> Iterator[List[Trial]]:
        """Yield rounds of single-rail trials: each round has the trials of all culprits and of some known-good pairs."""
        for _ in range(_NARROW_ROUNDS if self._rails > 1 else 0):
            trials = single_rails(self._read())
            if not trials:
                return
            yield trials

    def _bisect(self, group: Tuple[int, ...]) -> Iterator[List[Trial]]:
        """Halve `group`, whose nodes are slow together, until no half is slow by itself; then trim both ends of the group."""
        half = len(group) // 2
        halves = [part for part in (group[:half], group[half:]) if len(part) > PAIR]
        if halves:
            yield [Trial(part, ()) for part in halves]
        slow = [part for part in halves if self._read().is_group_slow(part)]
        if slow:
            yield from _at_once([self._bisect(part) for part in slow])
            return
        if not self._read().is_group_slow(group):
            yield [Trial(group, ())]  # the group has not run yet, or it ran only as the full ring: is it slow now?
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
        for _ in range(GROUP_REPEATS):
            if self._read().is_group_slow(group[:end]):
                yield [Trial(group[:end], ())]


def _at_once(plans: List[Iterator[List[Trial]]]) -> Iterator[List[Trial]]:
    """Run several plans side by side: one round contains the next trials of each plan."""
    while True:
        rounds = [trials for trials in (next(plan, None) for plan in plans) if trials]
        if not rounds:
            return
        yield [trial for trials in rounds for trial in trials]
