"""Judges what the gate does not cover: every other collective, all their sizes, and the in-place runs.

A ring uses few paths between leaves, so all-to-all is the only run that loads the spine of a fabric.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.judge.checks import Check, check
from benchmarks.judge.measurement import busbw
from benchmarks.plan import ceiling
from benchmarks.plan.fractions import FLOOR, fraction
from benchmarks.plan.size_text import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.measurement import Measurement, Run
    from benchmarks.plan.asked import Asked

_MIB = 1024**2
#: From these sizes on latency no longer dominates: on real machines, and in a rehearsal, which scales wires but not latencies.
#: A rehearsed wire is a token bucket, which passes its saved tokens as a burst: below the second size that is much of a run.
_FROM_BYTES, _FROM_REHEARSED_BYTES = 16 * _MIB, 15 * 1024 * _MIB
#: A rehearsed run may exceed its wires by this factor: 16 rails, each with a bucket of 64 KiB, save 1 MiB while ranks wait for
#: each other, a quarter of the smallest run that is judged. On a busy machine they wait longer, so it shows there first.
_REHEARSED_ABOVE = 1.3
#: A size must reach this share of its prediction; real transcripts stay within a sixth of theirs.
_PREDICTED = 0.25
#: A larger size must reach this share of a smaller one, and the in-place run that of the out-of-place run. Healthy published
#: curves dip to 0.85 where NCCL changes protocol (H200 on 248 nodes: 350 GB/s, below 300 at 512 MiB).
_DIP = 0.5


def judge(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield a floor for each collective that does not decide, and a check of every collective's curve."""
    for name in asked.plan.collectives:
        run = found.runs.get(name)
        if run is None or not run.rows or run.failed:
            continue  # the check `collectives` reports it
        if name != asked.plan.collective:
            yield from _floor(run, asked, found.scale)
        judged = len(_beyond_bursts(run, found.scale))
        good = f"none of the {judged} judged sizes is far below its prediction or slower than a smaller size"
        yield check(f"curve {name}", _odd(run, asked, found.scale), good=(good,))


def is_a_burst(size_bytes: int, scale: int) -> bool:
    """Tell whether a rehearsed message is so small that the tokens saved up by its wires carry much of it."""
    return scale != 1 and size_bytes * scale < _FROM_REHEARSED_BYTES


def most_above(scale: int) -> float:
    """Return the factor by which a measured number may exceed what the wires allow."""
    return ceiling.ABOVE if scale == 1 else _REHEARSED_ABOVE


def _floor(run: Run, asked: Asked, scale: int) -> Iterable[Check]:
    size, reached = run.rows[-1]["size_bytes"], busbw(run.rows[-1])
    bound, share = ceiling.bound_gb_s(run.name, asked.shape, asked.nodes, scale), fraction(size, FLOOR, scale)
    if bound is None or share is None or (asked.nodes == 1 and scale != 1):
        return
    sentence = (
        f"{run.name} reached {reached:.4g} GB/s at {size_text(size)}; every collective must reach {share:g} of {bound:.4g}"
    )
    yield check(f"floor {run.name}", [sentence] if reached < share * bound else [], good=(sentence,))


def _odd(run: Run, asked: Asked, scale: int) -> Iterable[str]:
    """Yield the first size that is far below its prediction or slower than a smaller size, and a slow in-place run."""
    rows = _beyond_bursts(run, scale)
    sizes = tuple(row["size_bytes"] * scale for row in rows)
    predicted = {} if scale != 1 and asked.nodes == 1 else _predicted(run.name, asked, sizes)
    most, at = 0.0, 0
    for row in rows:
        size, reached = row["size_bytes"], busbw(row)
        expected = predicted.get(size * scale, 0.0) / scale
        said = f"{run.name} reached {reached:.4g} GB/s at {size_text(size)}"
        if reached < _PREDICTED * expected:
            yield f"{said}, but a healthy fabric reaches about {expected:.4g}"
            break
        if reached < _DIP * most:
            yield f"{said}, but {most:.4g} at the smaller size {size_text(at)}"
            break
        most, at = max((most, at), (reached, size))
    for row in rows[-1:]:
        inside = row["in_place"]
        if inside is not None and inside["busbw_gb_s"] < _DIP * busbw(row):
            yield f"{run.name} in place reached {inside['busbw_gb_s']:.4g} GB/s, but {busbw(row):.4g} out of place"


def _beyond_bursts(run: Run, scale: int) -> list[dict[str, Any]]:
    """Return the rows that are judged: those with messages large enough to show a wire's rate."""
    rows = [row for row in run.rows if not is_a_burst(row["size_bytes"], scale)]
    return [row for row in rows if row["size_bytes"] * scale >= _FROM_BYTES]


def _predicted(name: str, asked: Asked, sizes: tuple[int, ...]) -> dict[int, float]:
    return ceiling.predicted_curve(asked.shape, asked.nodes, sizes, name)
