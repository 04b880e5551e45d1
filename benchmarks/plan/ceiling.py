"""Computes ceilings from line rates, and predicts how close a healthy run comes to them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from benchmarks.plan.collectives import collective

if TYPE_CHECKING:
    from catalogue import Shape

#: Time of the smallest all-reduce on a healthy machine, us: 12 on one H200 server over NVLink, 35 on two A100 nodes over RoCE.
#: Each doubling of the nodes makes a tree one level deeper, so it adds as much as going from one node to two does.
_LATENCY_US = (12.0, 23.0)

#: A printed number may be up to this many times what the wire allows; above that, the bytes used another wire.
ABOVE = 1.05
#: The links that can limit busbw.
RAILS, NVLINK, PCIE = "rails", "NVLink", "PCIe"
#: Tests that NCCL runs as rings, where all bytes pass through every GPU; tests whose root sends or receives everything; and
#: tests in which fewer bytes than in a ring may leave each node, if the GPUs of a node combine their data first.
_RINGS = frozenset({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"})
_ROOTED = frozenset({"gather", "scatter"})
_HIERARCHICAL = frozenset({"all_reduce", "all_gather", "reduce_scatter"})
#: Tests whose GPUs send directly to each other; inside one machine all that one of them sends or receives crosses its own link.
_DIRECT = frozenset({"alltoall", "gather", "scatter", "sendrecv"})

#: Share of the ring ceiling that a healthy all-reduce of large messages reaches on RoCE with a ring: published median
#: (OCI A100 0.93, 0.93 and 0.95 on two nodes, about 1.0 on 64; DGX A100 0.96; H200 0.92).
HEALTHY_FRACTION = 0.95
#: The same inside one machine, as a share of one GPU's NVLink rate (A100 235 of 300 GB/s, H200 346 to 368 of 450), and of the
#: newest NVLink (GB200 680 of 900).
HEALTHY_NVLINK_FRACTION = 0.78
_HEALTHY_NVLINK_5_FRACTION = 0.75
_NEWEST_NVLINK = 5
#: NVLink's switches reduce from this generation on.
_NVLS_FROM = 4


def ring_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of a ring over all rails; None if there are no rails between nodes.

    Every byte of a ring enters and leaves each node once for each of its channels, so busbw is at most the node's summed
    line rate in one direction. `scale` divides line rates, as a rehearsal states it.
    """
    if nodes < 2 or shape.rdma is None:  # noqa: PLR2004 - one node has no wire
        return None
    return shape.rdma.node_gbytes_per_s / scale


def hierarchical_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of a tree or NVLSTree over the same rails; with few nodes it is above the ring's.

    With g GPUs in each of k nodes it is NIC x (gk - 1) / (g (k - 1)): 1.875 x the ring's for two nodes of eight.
    """
    ring = ring_gb_s(shape, nodes, scale)
    if ring is None:
        return None
    return ring * (shape.gpus * nodes - 1) / (shape.gpus * (nodes - 1))


def in_network_gb_s(shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of an all-reduce that the switches between the nodes reduce; None if there are no rails.

    Each node sends the message to the switches once and gets the sum back once, so algbw is at most its summed line rate, and
    busbw 2 (n - 1) / n of that on n ranks. Inside a node of g GPUs each GPU sends 1 + 1/g messages where NVLink's switch
    reduces too (each fetches its share from all others at once, and sends it to all at once), and else 2 (g - 1) / g.
    """
    rails = ring_gb_s(shape, nodes, scale)
    if rails is None:
        return None
    link, _ = inside_gb_s("all_reduce", shape, nodes, scale)
    in_switch = (shape.nvlink_generation or 0) >= _NVLS_FROM
    sent = 1 + 1 / shape.gpus if in_switch else 2 * (shape.gpus - 1) / shape.gpus
    inside = link / sent if link is not None and sent else math.inf
    ranks = nodes * shape.gpus
    return min(rails, inside) * 2 * (ranks - 1) / ranks


def collective_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of collective `name` over all rails together; None if no such bound is known."""
    ring = ring_gb_s(shape, nodes, scale)
    share = collective(name).wire_share
    return None if ring is None or share is None else ring * share(nodes * shape.gpus, shape.gpus)


def rails_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of `name` over the rails that NCCL uses for it; None if no such bound is known.

    In a rooted test, and in sendrecv, bytes leave a node through the rails of one GPU (NCCL's point-to-point transfers
    use the devices near it); all other tests use every rail.
    """
    ring = ring_gb_s(shape, nodes, scale)
    if ring is None or shape.rdma is None or name == "hypercube":  # no source says how many bytes its steps send between nodes
        return None
    one_gpu = ring / min(shape.gpus, shape.rdma.ports) if shape.gpus else ring
    if name == "sendrecv":
        return one_gpu
    ranks = nodes * shape.gpus
    return one_gpu * (ranks - 1) / (ranks - shape.gpus) if name in _ROOTED else collective_gb_s(name, shape, nodes, scale)


def inside_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> tuple[float | None, str]:
    """Return the highest busbw in GB/s of `name` over one GPU's own link, and the kind of that link: NVLink or PCIe.

    Every byte of a ring passes through every GPU. Without NVLink all bytes cross PCIe, including those for the rails.
    """
    if shape.gpus > 1 and (nvlink := nvlink_gb_s(shape, scale)) is not None:
        return (nvlink if name in _RINGS or (nodes == 1 and name in _DIRECT) else None), NVLINK
    rate = shape.pcie_gbytes_per_s
    return (None if rate is None else rate / scale), PCIE


def parts(name: str, shape: Shape, nodes: int, scale: int = 1) -> tuple[tuple[str, float], ...]:
    """Return every link that limits the busbw of `name`, with its bound in GB/s; empty if no bound is known."""
    rails = rails_gb_s(name, shape, nodes, scale)
    link, what = inside_gb_s(name, shape, nodes, scale)
    if nodes > 1 and rails is None:
        return ()  # the wire between the nodes is the slowest link, and its bound is unknown
    known = ((RAILS, rails), (what, link))
    return tuple((part, bound) for part, bound in known if bound is not None)


def bound_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that the slowest link allows: rails, NVLink or PCIe."""
    return min((bound for _, bound in parts(name, shape, nodes, scale)), default=None)


def most_gb_s(name: str, shape: Shape, nodes: int, scale: int = 1, *, ring: bool) -> float | None:
    """Return the highest busbw in GB/s of any algorithm on these wires, or of a ring if `ring` says that it was forced.

    It is None if no such bound is known, and inside a rehearsed machine, where memory replaces NVLink.
    """
    ranks = nodes * shape.gpus
    if nodes == 1:
        link, _ = inside_gb_s(name, shape, nodes)
        in_switch = name == "all_reduce" and not ring
        return None if link is None or scale != 1 else link * (2 * (ranks - 1) / ranks if in_switch else 1)
    wire = ring_gb_s(shape, nodes, scale)
    if wire is None or name == "hypercube":
        return None
    if name in _HIERARCHICAL and not ring:
        return hierarchical_gb_s(shape, nodes, scale)
    return wire if name == "sendrecv" else collective_gb_s(name, shape, nodes, scale)


def nvlink_gb_s(shape: Shape, scale: int = 1) -> float | None:
    """Return the highest busbw in GB/s of a ring inside one machine; None if the shape has no NVLink.

    Every byte of a ring enters and leaves each GPU once, so busbw is at most one GPU's NVLink rate in one direction. Reducing
    in the switch (NVLS) moves less and can exceed it.
    """
    rate = shape.nvlink_gbytes_per_s
    return None if rate is None else rate / scale


def latency_us(nodes: int) -> float:
    """Return the time in us of the smallest all-reduce on `nodes` healthy nodes."""
    return _LATENCY_US[0] + _LATENCY_US[1] * math.log2(nodes)


def predicted_curve(shape: Shape, nodes: int, sizes_bytes: tuple[int, ...], name: str = "all_reduce") -> dict[int, float]:
    """Return the predicted busbw in GB/s of a healthy run of `name`, by size in bytes; empty if no ceiling is known.

    A message with wire time x takes T + x + sqrt(T x), where T is the latency: within a sixth from 1 MiB up in two real
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
    """Return the predicted busbw in GB/s of a healthy run at large sizes on real hardware; None if no ceiling is known.

    It is also None for direct sends inside one machine: their curves differ from a ring's, and nobody has published them.
    """
    if nodes == 1 and name in _DIRECT:
        return None
    inside = _HEALTHY_NVLINK_5_FRACTION if shape.nvlink_generation == _NEWEST_NVLINK else HEALTHY_NVLINK_FRACTION
    shares = {RAILS: HEALTHY_FRACTION, NVLINK: inside, PCIE: HEALTHY_NVLINK_FRACTION}
    return min((bound * shares[part] for part, bound in parts(name, shape, nodes)), default=None)
