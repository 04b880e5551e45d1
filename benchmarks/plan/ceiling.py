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

#: Printed numbers may be this much above what the wire allows; more means another wire.
ABOVE = 1.05
#: The parts that bound a busbw.
RAILS, NVLINK, PCIE = "rails", "NVLink", "PCIe"
#: Tests that NCCL carries out as rings, so that all bytes pass every GPU; those with a root that sends or takes all; and those
#: that fewer bytes than a ring's may leave each node for, if nodes gather inside first.
_RINGS = frozenset({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
_ROOTED = frozenset({"gather", "scatter"})
_HIERARCHICAL = frozenset({"all_reduce", "all_gather", "reduce_scatter"})

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
    """Return the busbw in GB/s that all rails together allow collective `name`, None if no such bound is known."""
    ring = ring_gb_s(shape, nodes, scale)
    share = collective(name).wire_share
    return None if ring is None or share is None else ring * share(nodes * shape.gpus, shape.gpus)


def rails_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that the rails that NCCL uses for `name` allow; None if no such bound is known.

    A rooted test, and a ring of sends and receives, leave a node through the rails of one GPU (NCCL's point-to-point transfers
    use the devices near it); all others use every rail.
    """
    ring = ring_gb_s(shape, nodes, scale)
    if ring is None or shape.rdma is None or name == "hypercube":  # nobody has published what its steps leave on the wire
        return None
    one_gpu = ring / min(shape.gpus, shape.rdma.ports) if shape.gpus else ring
    if name == "sendrecv":
        return one_gpu
    ranks = nodes * shape.gpus
    return one_gpu * (ranks - 1) / (ranks - shape.gpus) if name in _ROOTED else collective_gb_s(name, shape, nodes, scale)


def inside_gb_s(name: str, shape: Shape, scale: int = 1) -> tuple[float | None, str]:
    """Return the busbw in GB/s that one GPU's own link allows `name`, and what that link is: NVLink or PCIe.

    Every byte of a ring passes every GPU. Without NVLink all bytes of any test pass PCIe, also those for the rails.
    """
    if shape.gpus > 1 and (nvlink := nvlink_gb_s(shape, scale)) is not None:
        return (nvlink if name in _RINGS else None), NVLINK
    rate = shape.pcie_gbytes_per_s
    return (None if rate is None else rate / scale), PCIE


def parts(name: str, shape: Shape, nodes: int, scale: int = 1) -> tuple[tuple[str, float], ...]:
    """Return every part that bounds the busbw of `name`, with its bound in GB/s; empty if none is known."""
    rails = rails_gb_s(name, shape, nodes, scale)
    link, what = inside_gb_s(name, shape, scale)
    if nodes > 1 and rails is None:
        return ()  # the wire between the nodes is the least part, and it is not known
    known = ((RAILS, rails), (what, link))
    return tuple((part, bound) for part, bound in known if bound is not None)


def bound_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that the slowest part allows: rails, NVLink or PCIe."""
    return min((bound for _, bound in parts(name, shape, nodes, scale)), default=None)


def most_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1, *, ring: bool) -> float | None:
    """Return the busbw in GB/s that no algorithm exceeds on these wires, or no ring if `ring` says that it was forced.

    None where no such bound is known, and inside a rehearsed machine, where memory takes the place of NVLink.
    """
    ranks = nodes * shape.gpus
    if nodes == 1:
        link, _ = inside_gb_s(name, shape)
        in_switch = name == "all_reduce" and not ring
        return None if link is None or scale != 1 else link * (2 * (ranks - 1) / ranks if in_switch else 1)
    wire = ring_gb_s(shape, nodes, scale)
    if wire is None or name == "hypercube":
        return None
    if name in _HIERARCHICAL and not ring:
        return hierarchical_gb_s(shape, nodes, scale)
    return wire if name == "sendrecv" else collective_gb_s(name, shape, nodes, scale)


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
    healthy = predicted_gb_s(shape, nodes, name)
    if healthy is None:
        return {}
    ranks, waiting_us = nodes * shape.gpus, latency_us(nodes)
    curve = {}
    for size in sizes_bytes:
        moved = size * collective(name).busbw_factor(ranks)
        wire_us = moved / (healthy * 1e3)
        curve[size] = moved / ((waiting_us + wire_us + math.sqrt(waiting_us * wire_us)) * 1e3)
    return curve


def predicted_gb_s(shape: Shape, nodes: int, name: str = "all_reduce") -> float | None:
    """Return the busbw in GB/s of a healthy run at large sizes on real hardware; None if no ceiling is known."""
    shares = {RAILS: HEALTHY_FRACTION, NVLINK: HEALTHY_NVLINK_FRACTION, PCIE: HEALTHY_NVLINK_FRACTION}
    return min((bound * shares[part] for part, bound in parts(name, shape, nodes)), default=None)
