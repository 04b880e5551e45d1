"""What the wire allows: busbw factors and ceilings computed from line rates instead of memorised numbers.

It deliberately knows no measured value except the one healthy fraction that predictions use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catalogue import Shape

#: Median of the published healthy large-message all-reduce fractions of the ring ceiling on RoCE with the ring algorithm
#: (OCI A100 0.93, 0.93 and 0.95 on two nodes, about 1.0 on 64; DGX A100 0.96; H200 0.92).
HEALTHY_FRACTION = 0.95

_BUSBW_FACTORS: dict[str, Callable[[int], float]] = {"all_reduce": lambda ranks: 2 * (ranks - 1) / ranks}


def busbw_factor(collective: str, ranks: int) -> float:
    """Return busbw / algbw of `collective` over `ranks` ranks, as nccl-tests defines it.

    Raises:
        ValueError: the collective is not one that is measured here.
    """
    try:
        return _BUSBW_FACTORS[collective](ranks)
    except KeyError:
        msg = f"collective {collective!r} is not known; known are {', '.join(_BUSBW_FACTORS)}"
        raise ValueError(msg) from None


def ring_gbps(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that a ring over all rails cannot exceed, None where no rail is involved or known.

    Every byte of a ring enters and leaves each node once for each of its channels, so busbw is at most the node's summed
    line rate in one direction. `scale` divides line rates, as a rehearsal states it.
    """
    if nodes < 2 or shape.rdma is None:  # noqa: PLR2004 - one node has no wire
        return None
    return shape.rdma.node_gbytes_per_s / scale


def hierarchical_gbps(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that a tree or NVLSTree may reach over the same rails: above the ring's for few nodes.

    With g GPUs in each of k nodes it is NIC x (gk - 1) / (g (k - 1)): 1.875 x the ring's for two nodes of eight.
    """
    ring = ring_gbps(shape, nodes, scale)
    if ring is None:
        return None
    return ring * (shape.gpus * nodes - 1) / (shape.gpus * (nodes - 1))


def predicted_gbps(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s of a healthy run at large sizes, None where no rail is involved or known."""
    ring = ring_gbps(shape, nodes, scale)
    return None if ring is None else ring * HEALTHY_FRACTION
