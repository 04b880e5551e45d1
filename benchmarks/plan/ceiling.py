"""Computes ceilings from line rates, and predicts what a healthy run reaches of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.plan.collectives import collective

if TYPE_CHECKING:
    from catalogue import Shape

#: Time of the smallest all-reduce on a healthy machine, us: 12 on one H200 server over NVLink, 35 on two A100 nodes over RoCE.
#: A tree is one level deeper each time the nodes double, so each doubling adds what the step from one node to two adds.
_LATENCY_US = (12.0, 23.0)

#: Median of the published healthy large-message all-reduce fractions of the ring ceiling on RoCE with the ring algorithm
#: (OCI A100 0.93, 0.93 and 0.95 on two nodes, about 1.0 on 64; DGX A100 0.96; H200 0.92).
HEALTHY_FRACTION = 0.95
#: The same for a ring inside one machine, of one GPU's NVLink rate (A100 235 of 300 GB/s, H200 346 to 368 of 450).
HEALTHY_NVLINK_FRACTION = 0.78


def ring_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that a ring over all rails cannot exceed; None if no rail is used or known.

    Every byte of a ring enters and leaves each node once for each of its channels, so busbw is at most the node's summed
    line rate in one direction. `scale` divides line rates, as a rehearsal states it.
    """
    if nodes < 2 or shape.rdma is None:  # noqa: PLR2004 - one node has no wire
        return None
    return shape.rdma.node_gbytes_per_s / scale


def hierarchical_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that a tree or NVLSTree may reach over the same rails: above the ring's for few nodes.

    With g GPUs in each of k nodes it is NIC x (gk - 1) / (g (k - 1)): 1.875 x the ring's for two nodes of eight.
    """
    ring = ring_gb_s(shape, nodes, scale)
    if ring is None:
        return None
    return ring * (shape.gpus * nodes - 1) / (shape.gpus * (nodes - 1))


def collective_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that the rails allow collective `name`, None if no such bound is known."""
    ring = ring_gb_s(shape, nodes, scale)
    share = collective(name).wire_share
    return None if ring is None or share is None else ring * share(nodes * shape.gpus, shape.gpus)


def bound_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that the slowest part allows: NVLink on one node, the rails on more."""
    return nvlink_gb_s(shape, scale) if nodes == 1 else collective_gb_s(name, shape, nodes, scale)


def nvlink_gb_s(shape: Shape, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that a ring inside one machine cannot exceed; None if no NVLink is known.

    Every byte of a ring enters and leaves each GPU once, so busbw is at most one GPU's NVLink rate in one direction. Reduction
    in the switch (NVLS) moves less and can exceed it.
    """
    rate = shape.nvlink_gbytes_per_s
    return None if rate is None else rate / scale


def latency_us(nodes: int) -> float:
    """Return the time in us of a healthy smallest all-reduce on `nodes` nodes."""
    return _LATENCY_US[0] + _LATENCY_US[1] * math.log2(nodes)


def predicted_curve(shape: Shape, nodes: int, sizes_bytes: tuple[int, ...], name: str = "all_reduce") -> dict[int, float]:
    """Return the busbw in GB/s of a healthy run of `name` by size in bytes; empty if no ceiling is known.

    A message of wire time x takes T + x + sqrt(T x) with the latency T: within a sixth of every size from 1 MiB up in two real
    transcripts (2 x H200 over NVLink; 16 A100 over RoCE).
    """
    bound = bound_gb_s(name, shape, nodes)
    if bound is None:
        return {}
    ranks, waiting_us = nodes * shape.gpus, latency_us(nodes)
    curve = {}
    for size in sizes_bytes:
        moved = size * collective(name).busbw_factor(ranks)
        wire_us = moved / (bound * _healthy(nodes) * 1e3)
        curve[size] = moved / ((waiting_us + wire_us + math.sqrt(waiting_us * wire_us)) * 1e3)
    return curve


def predicted_gb_s(shape: Shape, nodes: int) -> float | None:
    """Return the busbw in GB/s of a healthy all-reduce at large sizes on real hardware; None if no ceiling is known."""
    bound = bound_gb_s("all_reduce", shape, nodes)
    return None if bound is None else bound * _healthy(nodes)


def _healthy(nodes: int) -> float:
    return HEALTHY_NVLINK_FRACTION if nodes == 1 else HEALTHY_FRACTION
