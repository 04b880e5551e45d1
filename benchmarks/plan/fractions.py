"""The share of a ceiling that a healthy machine reaches, by collective, link and message size; published results only.

Rows and their sources are in docs/published-rows.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.plan.ceiling import NVLINK, RAILS
from catalogue import gpus

if TYPE_CHECKING:
    from catalogue import Shape

Rows = tuple[tuple[int, float], ...]

_MIB = 1024**2
#: Share of the rails' ring ceiling that an all-reduce must reach. This share is below every published row of a healthy run over
#: RoCE, InfiniBand or EFA, except the rows that NVLink limits. It is far above every published row of a broken fabric (TCP
#: fallback 0.16, congestion 0.40, one rail of four 0.41).
ALL_REDUCE: Rows = ((4096 * _MIB, 0.85), (1024 * _MIB, 0.80), (512 * _MIB, 0.70))
#: Share of one GPU's NVLink rate that a run must reach, by collective and NVLink generation. It applies inside one machine, and
#: where NVLink limits a run between nodes. Each share is 6 to 9 % below the lowest single-machine value in
#: `catalogue.published`; the comments between the entries give the published shares. An entry is missing where nothing is
#: published: for all collectives of V100 (generation 2), and for some collectives of A100 (generation 3), H100 and H200
#: (generation 4). A pair of GPUs that fell back to PCIe reaches a share of 0.1.
_OVER_NVLINK: dict[tuple[str, int], Rows] = {
    # 0.77 to 0.78 at 4 GiB and more, 0.76 at 1 GiB, 0.71 at 256 MiB.
    ("all_reduce", 3): ((4096 * _MIB, 0.72), (1024 * _MIB, 0.70), (256 * _MIB, 0.65)),
    # 0.81 to 0.82 at 4 GiB and more, but 0.77 on two GPUs and 0.74 across nodes; two GPUs reach 0.73 at 1 GiB, 0.66 at 256 MiB.
    ("all_reduce", 4): ((4096 * _MIB, 0.72), (1024 * _MIB, 0.68), (256 * _MIB, 0.61)),
    # 0.75 at 4 GiB and more, 0.72 at 1 GiB, 0.66 at 256 MiB.
    ("all_reduce", 5): ((4096 * _MIB, 0.70), (1024 * _MIB, 0.67), (256 * _MIB, 0.61)),
    ("all_gather", 4): ((4096 * _MIB, 0.75),),  # 0.80
    ("all_gather", 5): ((4096 * _MIB, 0.69),),  # 0.74
    # 0.80 at 4 GiB and more, 0.78 at 1 GiB, 0.74 at 256 MiB.
    ("reduce_scatter", 4): ((4096 * _MIB, 0.74), (1024 * _MIB, 0.72), (256 * _MIB, 0.68)),
    ("reduce_scatter", 5): ((4096 * _MIB, 0.71),),  # 0.77
    ("alltoall", 5): ((4096 * _MIB, 0.68),),  # 0.73
    ("broadcast", 5): ((4096 * _MIB, 0.69),),  # 0.75
    ("reduce", 5): ((4096 * _MIB, 0.71),),  # 0.77
    ("gather", 5): ((4096 * _MIB, 0.74),),  # 0.80
    ("scatter", 5): ((4096 * _MIB, 0.74),),  # 0.80
    ("sendrecv", 3): ((1024 * _MIB, 0.60),),  # 0.65
    ("sendrecv", 5): ((4096 * _MIB, 0.68),),  # 0.73
}
#: Published shares of all-gather, at 8 GiB and more, without NVLink between nodes: 0.82 (A3 Ultra), 0.846 (p5), 0.91 (GB300),
#: 0.956 (GB200).
_ALL_GATHER: Rows = ((4096 * _MIB, 0.80),)
#: Published shares of all-to-all, at 16 GB, without NVLink between nodes: 0.773 (GB300), 0.844 (p5), 0.93 (GB200).
_ALL_TO_ALL: Rows = ((4096 * _MIB, 0.75),)
_OVER_RAILS: dict[str, Rows] = {"all_reduce": ALL_REDUCE, "all_gather": _ALL_GATHER, "alltoall": _ALL_TO_ALL}
#: At 1 GiB and more, every collective must reach this share of its own ceiling. The share is low because little is published; a
#: run that fell back to TCP stays below the share.
FLOOR: Rows = ((1024 * _MIB, 0.3),)
#: A machine that reduces in its NVLink switch must reach this share of the busbw that is published for such machines.
#: Azure/azurehpc-health-checks requires a share of 0.89 to 0.96.
NVLS: Rows = ((4096 * _MIB, 0.93),)
#: If switches between the nodes reduce an all-reduce, the all-reduce is judged from this size on.
_IN_NETWORK_BYTES = 4096 * _MIB
#: A rack's runs over NVLink between its nodes are judged from this size on.
_RACK_BYTES = 16 * 10**9
#: Factor for message sizes in a rehearsal. A rehearsal's scale is not a power of two: at scale 4000, a message of 1 MiB
#: represents 4000 MiB, which are 2 % less than 4 GiB, but must count as 4 GiB.
_ROUNDING = 1.03


def published(name: str, part: str, shape: Shape) -> Rows:
    """Return the rows (smallest size in bytes, share) for `name` if `part` of `shape` limits it; empty if there are none."""
    if part == RAILS:
        return _OVER_RAILS.get(name, ())
    generation = shape.nvlink_generation if part == NVLINK else None
    return () if generation is None else _OVER_NVLINK.get((name, generation), ())


def in_network(shape: Shape) -> Rows:
    """Return the rows (smallest size in bytes, share) for an all-reduce on `shape` if switches between the nodes reduce it."""
    share = gpus.in_network_share(shape.gpu)
    return () if share is None else ((_IN_NETWORK_BYTES, share),)


def rack(name: str) -> Rows:
    """Return the rows (smallest size in bytes, share) for `name` over NVLink between the nodes of a rack."""
    share = gpus.RACK_SHARES.get(name)
    return () if share is None else ((_RACK_BYTES, share),)


def fraction(size_bytes: float, rows: Rows, scale: int = 1) -> float | None:
    """Return the fraction of a ceiling that `rows` require at `size_bytes`; None below the smallest size.

    `scale` is a rehearsal's divisor of line rates. A message counts as `scale` times larger than it is.
    """
    stands_for = size_bytes * scale * (_ROUNDING if scale != 1 else 1)
    return next((share for at_least, share in rows if stands_for >= at_least), None)
