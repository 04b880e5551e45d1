"""The share of a ceiling that a healthy machine reaches, by collective, link and message size; published results only.

Rows and their sources are in docs/published-rows.md.
"""

from __future__ import annotations

from benchmarks.plan.ceiling import NVLINK, RAILS

Rows = tuple[tuple[int, float], ...]

_MIB = 1024**2
#: Share of the rails' ring ceiling, all-reduce: below every healthy published row of RoCE, InfiniBand and EFA but those that
#: NVLink limits, and far above every broken one (TCP fallback 0.16, congestion 0.40, one rail of four 0.41).
ALL_REDUCE: Rows = ((4096 * _MIB, 0.85), (1024 * _MIB, 0.80), (512 * _MIB, 0.70))
#: Share of one GPU's NVLink rate, ring all-reduce: healthy machines reach 0.77 to 0.82 at 4 GiB and more (A100 235 of 300,
#: H200 345 to 368 of 450 GB/s), 0.73 at 1 GiB, 0.67 at 256 MiB; H100 across nodes 331 and 339. A pair that fell back
#: to PCIe reaches 0.1.
ALL_REDUCE_NVLINK: Rows = ((4096 * _MIB, 0.72), (1024 * _MIB, 0.65), (256 * _MIB, 0.55))
#: All-gather: 0.82 (A3 Ultra), 0.846 (p5), 0.94 (A3 Mega), 0.956 (GB200 without NVLink between nodes), at 8 GiB and more.
_ALL_GATHER: Rows = ((4096 * _MIB, 0.80),)
#: All-to-all: 0.844 (p5), 0.93 (GB200 without NVLink between nodes), at 16 GB.
_ALL_TO_ALL: Rows = ((4096 * _MIB, 0.75),)
_PUBLISHED: dict[tuple[str, str], Rows] = {
    ("all_reduce", RAILS): ALL_REDUCE,
    ("all_reduce", NVLINK): ALL_REDUCE_NVLINK,
    ("all_gather", RAILS): _ALL_GATHER,
    ("alltoall", RAILS): _ALL_TO_ALL,
}
#: Share of its own ceiling that any collective must reach at 1 GiB and more. It is low because little is published; half the
#: rails, or a fallback to TCP, stays below it because other losses come on top.
FLOOR: Rows = ((1024 * _MIB, 0.3),)
#: Share of the published busbw of a machine that reduces in its NVLink switch; Azure/azurehpc-health-checks wants 0.89 to 0.96.
NVLS: Rows = ((4096 * _MIB, 0.93),)
#: Share of one GPU's NVLink rate for all-reduce over NVLink in a rack, whose switches reduce: 0.93 (GB200, 18 nodes),
#: 0.98 (GB200, 4), 1.03 to 1.04 (GB300, 8, 16 and 18), at 16 GB. A ring without such reduction reaches 0.78; rails reach 0.4.
RACK: Rows = ((16 * 10**9, 0.85),)
#: A rehearsal's scale is not a power of two, so 1 MiB at 1/4000 counts as 4 GiB although it is 2 % less.
_ROUNDING = 1.03


def published(name: str, part: str) -> Rows:
    """Return the rows (smallest size in bytes, share) for collective `name` where `part` limits it; empty if there are none."""
    return _PUBLISHED.get((name, part), ())


def fraction(size_bytes: float, rows: Rows, scale: int = 1) -> float | None:
    """Return the fraction of a ceiling that `rows` require at `size_bytes`; None below the smallest size.

    `scale` is the divisor of line rates that a rehearsal states: sizes count as that many times larger.
    """
    stands_for = size_bytes * scale * (_ROUNDING if scale != 1 else 1)
    return next((share for at_least, share in rows if stands_for >= at_least), None)
