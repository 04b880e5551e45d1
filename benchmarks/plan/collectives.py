"""The collectives of nccl-tests: how busbw is computed, which message sizes are run, and what busbw the line rates allow.

Formulas follow nccl-tests 2.19.6 (the GetBw and GetCollByteCount functions of each test).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Where each rank has a share of the message, the test rounds that share down to a multiple of 16 bytes.
_ALIGNMENT_BYTES = 16


@dataclass(frozen=True)
class Collective:
    """One test program.

    Attributes:
        name: the test's name, without `_perf`.
        busbw_factor: busbw divided by algbw, as a function of the number of ranks.
        wire_share: highest possible busbw, as a function of the number of ranks and of the GPUs per node. The unit is the sum
            of the line rates of one node's rails, in one direction. None if this sum does not limit busbw.
        shared: whether each rank has a share of the message.
        power_of_two: whether the test runs only on 2, 4, 8 ... ranks.
        algbw_share: algbw as a share of size / time, as a function of the number of ranks.
    """

    name: str
    busbw_factor: Callable[[int], float]
    wire_share: Callable[[int, int], float] | None
    shared: bool
    power_of_two: bool = False
    algbw_share: Callable[[int], float] = lambda _ranks: 1.0

    @property
    def program(self) -> str:
        """Name of the executable."""
        return f"{self.name}_perf"

    def row_bytes(self, asked_bytes: int, ranks: int) -> int:
        """Return the size that the test prints for `asked_bytes`; 0 if a rank's share would be less than 16 bytes."""
        if not self.shared:
            return asked_bytes
        return asked_bytes // ranks // _ALIGNMENT_BYTES * _ALIGNMENT_BYTES * ranks

    def runs_on(self, ranks: int) -> bool:
        """Tell whether `ranks` ranks can run the test."""
        return not self.power_of_two or ranks & (ranks - 1) == 0


def _one(_ranks: int) -> float:
    return 1.0


def _others(ranks: int) -> float:
    return (ranks - 1) / ranks


def _ring(_ranks: int, _gpus: int) -> float:
    return 1.0


def _pairwise(ranks: int, gpus: int) -> float:
    """Each GPU of a node sends 1 / ranks of a message to every rank on other nodes.

    All GPUs of the node together send gpus x (ranks - gpus) / ranks of a message.
    """
    return (ranks - 1) / (gpus * (ranks - gpus))


def _rooted(ranks: int, gpus: int) -> float:
    """The root's node receives (or sends) the share of every rank on other nodes once."""
    return (ranks - 1) / (ranks - gpus)


#: The tests, by name.
COLLECTIVES = {
    one.name: one
    for one in (
        Collective("all_reduce", lambda ranks: 2 * (ranks - 1) / ranks, _ring, shared=False),
        Collective("all_gather", _others, _ring, shared=True),
        Collective("reduce_scatter", _others, _ring, shared=True),
        Collective("alltoall", _others, _pairwise, shared=True),
        Collective("broadcast", _one, _ring, shared=False),
        Collective("reduce", _one, _ring, shared=False),
        Collective("gather", _others, _rooted, shared=True),
        Collective("scatter", _others, _rooted, shared=True),
        # A message leaves each node once, over one GPU's rails, so the sum of all the node's rails does not limit busbw.
        Collective("sendrecv", _one, None, shared=False),
        # GetBw of hypercube counts only what a rank receives from other ranks.
        Collective("hypercube", _one, _pairwise, shared=True, power_of_two=True, algbw_share=_others),
    )
}


def collective(name: str) -> Collective:
    """Return the collective of that name.

    Raises:
        ValueError: nccl-tests has no such test.
    """
    try:
        return COLLECTIVES[name]
    except KeyError:
        msg = f"collective {name!r} is unknown; allowed are {', '.join(COLLECTIVES)}"
        raise ValueError(msg) from None
