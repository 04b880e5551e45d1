"""Judges what the gate does not look at: every other collective, every size of each, and the run in place.

A ring crosses few paths between leaves, so all-to-all is the only run that loads the middle of a fabric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.judge.checks import Check, check
from benchmarks.judge.measurement import busbw
from benchmarks.plan import ceiling
from benchmarks.plan.fractions import FLOOR, fraction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.measurement import Measurement, Run
    from benchmarks.plan.asked import Asked

_MIB = 1024**2
#: From these sizes on a run is no question of latency: on real machines, and where wires are scaled but latencies are not.
#: A rehearsed wire is a token bucket, which lets what has gathered in it pass at once: below the second, that is much of a run.
_FROM_BYTES, _FROM_REHEARSED_BYTES = 16 * _MIB, 15 * 1024 * _MIB
#: A rehearsed run may exceed its wires by this factor: 16 rails, each with a bucket of 64 KiB, save 1 MiB while ranks wait for
#: each other, a quarter of the smallest run that is judged. On a busy machine they wait longer, so it shows there first.
_REHEARSED_ABOVE = 1.3
#: A size must reach this share of its prediction, which real transcripts follow within a sixth.
_PREDICTED = 0.25
#: A larger size, or the run in place, must reach this share of a smaller size, or of the run out of place. Published healthy
#: curves dip to 0.85 where NCCL changes protocol (H200 on 248 nodes: 350 GB/s, below 300 at 512 MiB).
_DIP = 0.5


def judge(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield a floor for each collective that does not decide, and a check of every collective's curve."""
    for name in asked.plan.collectives:
        run = found.runs.get(name)
        if run is None or not run.rows or run.failed:
            continue  # the check `collectives` says so
        if name != asked.plan.collective:
            yield from _floor(run, asked, found.scale)
        judged = len(_beyond_bursts(run, found.scale))
        good = f"of {judged} sizes that are judged none is far below its prediction, or slower than a smaller one"
        yield check(f"curve {name}", _odd(run, asked, found.scale), good=(good,))


def is_a_burst(size_bytes: int, scale: int) -> bool:
    """Say whether a rehearsed message is so small that what its wires have saved up carries much of it."""
    return scale != 1 and size_bytes * scale < _FROM_REHEARSED_BYTES


def most_above(scale: int) -> float:
    """Return the factor by which a measured number may exceed what the wires allow."""
    return ceiling.ABOVE if scale == 1 else _REHEARSED_ABOVE


def _floor(run: Run, asked: Asked, scale: int) -> Iterable[Check]:
    size, reached = run.rows[-1]["size_bytes"], busbw(run.rows[-1])
    bound, share = ceiling.bound_gb_s(run.name, asked.shape, asked.nodes, scale), fraction(size, FLOOR, scale)
    if bound is None or share is None or (asked.nodes == 1 and scale != 1):
        return
    sentence = f"{run.name} reached {reached:.4g} GB/s at {size} B; every collective must reach {share:g} of its {bound:.4g}"
    yield check(f"floor {run.name}", [sentence] if reached < share * bound else [], good=(sentence,))


def _odd(run: Run, asked: Asked, scale: int) -> Iterable[str]:
    """Yield the first size that is far below its prediction, or slower than a smaller one, and a slow run in place."""
    rows = _beyond_bursts(run, scale)
    sizes = tuple(row["size_bytes"] * scale for row in rows)
    predicted = {} if scale != 1 and asked.nodes == 1 else _predicted(run.name, asked, sizes)
    most, at = 0.0, 0
    for row in rows:
        size, reached = row["size_bytes"], busbw(row)
        expected = predicted.get(size * scale, 0.0) / scale
        if reached < _PREDICTED * expected:
            yield f"{run.name} reached {reached:.4g} GB/s at {size} B, and a healthy fabric gives about {expected:.4g}"
            break
        if reached < _DIP * most:
            yield f"{run.name} reached {reached:.4g} GB/s at {size} B, and {most:.4g} at {at} B, although that is smaller"
            break
        most, at = max((most, at), (reached, size))
    for row in rows[-1:]:
        inside = row["in_place"]
        if inside is not None and inside["busbw_gb_s"] < _DIP * busbw(row):
            yield f"{run.name} in place reached {inside['busbw_gb_s']:.4g} GB/s, and {busbw(row):.4g} out of place"


def _beyond_bursts(run: Run, scale: int) -> list[dict[str, Any]]:
    """Return the rows that are judged: of messages that are large enough for a wire's rate to show."""
    rows = [row for row in run.rows if not is_a_burst(row["size_bytes"], scale)]
    return [row for row in rows if row["size_bytes"] * scale >= _FROM_BYTES]


def _predicted(name: str, asked: Asked, sizes: tuple[int, ...]) -> dict[int, float]:
    return ceiling.predicted_curve(asked.shape, asked.nodes, sizes, name)
