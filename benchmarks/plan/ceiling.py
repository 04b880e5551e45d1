"""Computes ceilings of busbw from line rates, and predicts the busbw of a healthy run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.plan.collectives import collective

if TYPE_CHECKING:
    from catalogue import Shape

#: The first number is the time in us of the smallest all-reduce on one healthy node; the second is what each doubling of the
#: number of nodes adds to it. One H200 server took 12 us over NVLink, and two A100 nodes took 35 us over RoCE. Each doubling
#: makes the tree one level deeper, and every level is assumed to take the same time.
_LATENCY_US = (12.0, 23.0)

#: A measured busbw may be up to this many times the ceiling of a link. If it is higher, the bytes took another path.
ABOVE = 1.05
#: The links that can limit busbw.
RAILS, NVLINK, PCIE = "rails", "NVLink", "PCIe"
#: Tests that NCCL can run as a ring, where all bytes pass through every GPU.
_RINGS = frozenset({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
#: Tests whose root rank sends or receives everything.
_ROOTED = frozenset({"gather", "scatter"})
#: Tests where the GPUs of a node may combine their data first, so that fewer bytes leave the node than in a ring.
_HIERARCHICAL = frozenset({"all_reduce", "all_gather", "reduce_scatter"})
#: Tests whose GPUs send directly to each other. On one node, each GPU's own link carries all that the GPU sends or receives.
_DIRECT = frozenset({"alltoall", "gather", "scatter", "sendrecv"})

#: The busbw of a healthy ring all-reduce of large messages over RoCE, as a fraction of the ring's ceiling: a typical value of
#: published results (OCI A100: 0.93, 0.93 and 0.95 on two nodes, about 1.0 on 64; DGX A100: 0.96; H200: 0.92).
HEALTHY_FRACTION = 0.95
#: The busbw of a healthy ring all-reduce on one node, as a fraction of one GPU's NVLink rate. The first fraction is for NVLink
#: up to generation 4 (A100: 235 of 300 GB/s; H200: 346 to 368 of 450), the second for generation 5 (GB200: 680 of 900).
HEALTHY_NVLINK_FRACTION = 0.78
_HEALTHY_NVLINK_5_FRACTION = 0.75
_NEWEST_NVLINK = 5
#: From this NVLink generation on, NVSwitch can reduce data itself (NVLink SHARP, NVLS).
_NVLS_FROM = 4


def ring_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of a ring over all rails; None for one node, and if the shape has no rails.

    On each channel, the ring enters and leaves each node once, so busbw is at most the sum of the line rates of the node's
    rails in one direction. `scale` divides line rates; it is a rehearsal's scale.
    """
    if nodes < 2 or shape.rdma is None:  # noqa: PLR2004 - one node uses no rails
        return None
    return shape.rdma.node_gbytes_per_s / scale


def hierarchical_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s if the GPUs of a node combine their data before it leaves the node (Tree, NVLSTree).

    This bound is higher than the ring's, most of all for few nodes. For k nodes with g GPUs each, it is the ring's bound times
    (gk - 1) / (g (k - 1)): 1.875 times for two nodes of eight GPUs.
    """
    ring = ring_gb_s(shape, nodes, scale)
    if ring is None:
        return None
    return ring * (shape.gpus * nodes - 1) / (shape.gpus * (nodes - 1))


def in_network_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of an all-reduce in which the network's switches reduce (SHARP); None without rails.

    Each node sends the message to the switches once and receives the sum once. So algbw is at most the sum of
    the line rates of the node's rails, and on n ranks busbw is 2 (n - 1) / n times algbw.

    NVLink may be the bottleneck. In a node of g GPUs, each GPU sends 2 (g - 1) / g times the message. If NVSwitch reduces as
    well, each GPU sends 1 + 1/g times the message: the message once, which NVSwitch adds to the other GPUs' messages, and a
    share of 1/g of the sum, which this GPU multicasts.
    """
    rails = ring_gb_s(shape, nodes, scale)
    if rails is None:
        return None
    link, _ = inside_gb_s("all_reduce", shape, nodes, scale)
    nvls = (shape.nvlink_generation or 0) >= _NVLS_FROM
    sent = 1 + 1 / shape.gpus if nvls else 2 * (shape.gpus - 1) / shape.gpus
    inside = link / sent if link is not None and sent else math.inf
    ranks = nodes * shape.gpus
    return min(rails, inside) * 2 * (ranks - 1) / ranks


def collective_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of the test `name` over all rails; None if there are none or they are no limit."""
    ring = ring_gb_s(shape, nodes, scale)
    share = collective(name).wire_share
    return None if ring is None or share is None else ring * share(nodes * shape.gpus, shape.gpus)


def rails_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of the test `name` over the rails that NCCL uses for it; None if no such bound is known.

    In gather, scatter and sendrecv, only the rails of one GPU carry a node's bytes, because NCCL's point-to-point transfers use
    the devices near the GPU. All other tests use every rail.
    """
    ring = ring_gb_s(shape, nodes, scale)
    if ring is None or shape.rdma is None or name == "hypercube":  # no source gives a hypercube's bytes between nodes
        return None
    one_gpu = ring / min(shape.gpus, shape.rdma.ports) if shape.gpus else ring
    if name == "sendrecv":
        return one_gpu
    ranks = nodes * shape.gpus
    return one_gpu * (ranks - 1) / (ranks - shape.gpus) if name in _ROOTED else collective_gb_s(name, shape, nodes, scale)


def inside_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> tuple[float | None, str]:
    """Return the highest busbw in GB/s of the test `name` over one GPU's own link, and the name of the link: NVLink or PCIe.

    The busbw is None if no such bound is known. In a ring, every byte passes through every GPU. Without NVLink, all bytes cross
    PCIe, including those for the rails.
    """
    if shape.gpus > 1 and (nvlink := nvlink_gb_s(shape, scale)) is not None:
        return (nvlink if name in _RINGS or (nodes == 1 and name in _DIRECT) else None), NVLINK
    rate = shape.pcie_gbytes_per_s
    return (None if rate is None else rate / scale), PCIE


def parts(name: str, shape: Shape, nodes: int, scale: int = 1) -> tuple[tuple[str, float], ...]:
    """Return every link that limits the busbw of `name`, with its bound in GB/s; links without a known bound are left out.

    If the bound of the rails between nodes is unknown, return nothing.
    """
    rails = rails_gb_s(name, shape, nodes, scale)
    link, what = inside_gb_s(name, shape, nodes, scale)
    if nodes > 1 and rails is None:
        return ()  # the rails are the slowest link, and their bound is unknown
    known = ((RAILS, rails), (what, link))
    return tuple((part, bound) for part, bound in known if bound is not None)


def bound_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that the slowest link allows: rails, NVLink or PCIe."""
    return min((bound for _, bound in parts(name, shape, nodes, scale)), default=None)


def most_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1, *, ring: bool) -> float | None:
    """Return the highest busbw in GB/s of any algorithm on `shape`, or of a ring if `ring` is true (NCCL must use a ring).

    The result is None if no such bound is known, and on one rehearsed node, where memory replaces NVLink.
    """
    ranks = nodes * shape.gpus
    if nodes == 1:
        link, _ = inside_gb_s(name, shape, nodes)
        nvls = name == "all_reduce" and not ring
        return None if link is None or scale != 1 else link * (2 * (ranks - 1) / ranks if nvls else 1)
    rails = ring_gb_s(shape, nodes, scale)
    if rails is None or name == "hypercube":
        return None
    if name in _HIERARCHICAL and not ring:
        return hierarchical_gb_s(shape, nodes, scale)
    return rails if name == "sendrecv" else collective_gb_s(name, shape, nodes, scale)


def nvlink_gb_s(shape: Shape, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of a ring inside one node; None if the shape has no NVLink.

    The ring enters and leaves each GPU once, so busbw is at most one GPU's NVLink rate in one direction. If NVSwitch reduces
    (NVLS), fewer bytes move, and busbw can be higher.
    """
    rate = shape.nvlink_gbytes_per_s
    return None if rate is None else rate / scale


def latency_us(nodes: int) -> float:
    """Return the time in us of the smallest all-reduce on `nodes` healthy nodes."""
    return _LATENCY_US[0] + _LATENCY_US[1] * math.log2(nodes)


def predicted_curve(shape: Shape, nodes: int, sizes_bytes: tuple[int, ...], name: str = "all_reduce") -> dict[int, float]:
    """Return the predicted busbw in GB/s of a healthy run of `name`, by message size in bytes; empty if nothing is predicted.

    A message takes T + x + sqrt(T x), where T is the latency and x the transfer time at the predicted busbw of large messages.
    From 1 MiB up, the prediction differs by at most a sixth from two real transcripts (2 H200 over NVLink; 16 A100 over RoCE).
    """
    healthy = predicted_gb_s(shape, nodes, name)
    if healthy is None:
        return {}
    ranks, least_us = nodes * shape.gpus, latency_us(nodes)
    curve = {}
    for size in sizes_bytes:
        moved = size * collective(name).busbw_factor(ranks)
        transfer_us = moved / (healthy * 1e3)
        curve[size] = moved / ((least_us + transfer_us + math.sqrt(least_us * transfer_us)) * 1e3)
    return curve


def predicted_gb_s(shape: Shape, nodes: int, name: str = "all_reduce") -> float | None:
    """Return the predicted busbw in GB/s of a healthy run of large messages on real hardware; None if no ceiling is known.

    The result is also None on one node for tests whose GPUs send directly to each other: the one-node fractions are for a ring.
    """
    if nodes == 1 and name in _DIRECT:
        return None
    inside = _HEALTHY_NVLINK_5_FRACTION if shape.nvlink_generation == _NEWEST_NVLINK else HEALTHY_NVLINK_FRACTION
    shares = {RAILS: HEALTHY_FRACTION, NVLINK: inside, PCIE: HEALTHY_NVLINK_FRACTION}
    return min((bound * shares[part] for part, bound in parts(name, shape, nodes)), default=None)
