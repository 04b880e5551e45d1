"""Judges what the gate does not judge: the floors of the other collectives, and each collective's curve and in-place result.

The other collectives matter, too: a ring uses few paths between leaf switches, but all-to-all loads the spine.
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
#: Results are judged only at these sizes and above: the first size is for real machines, the second for rehearsals. Below the
#: first size, latency dominates. Below the second size, bursts dominate: each rehearsed wire is a token bucket, whose saved-up
#: tokens carry much of a message. A rehearsed size is multiplied by the rehearsal's scale before it is compared with the second
#: size, because a rehearsal divides line rates by this scale.
_FROM_BYTES, _FROM_REHEARSED_BYTES = 16 * _MIB, 15 * 1024 * _MIB
#: A rehearsed run may exceed its wires' rate by this factor. While ranks wait for each other, the buckets of 16 rails (64 KiB
#: each) save up tokens for 1 MiB. At a scale of 4000, the smallest judged run moves 4 MiB, so these tokens can add a quarter to
#: its rate. The busier the machine is, the longer the ranks wait.
_REHEARSED_MOST_EXCESS = 1.3
#: The busbw at a size must reach this share of its prediction; real transcripts differ from their predictions by at most a
#: sixth.
_PREDICTED = 0.25
#: The busbw at a size must reach this share of the busbw at any smaller size. At the largest size, the in-place busbw must
#: reach this share of the out-of-place busbw. Healthy published curves dip to 0.85 where NCCL changes protocol (248 nodes of
#: H200: from 350 GB/s to just under 300 at 512 MiB).
_DIP = 0.5


def judge(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield a check for every collective's curve, and a check for the floor of each collective that has one.

    Three kinds of collectives have no floor: the gate's collective, collectives without a known bound, and collectives with
    small messages. On one rehearsed node, no collective has a floor.
    """
    for name in asked.plan.collectives:
        run = found.runs.get(name)
        if run is None or not run.rows or run.failed:
            continue  # the check `collectives` reports such a run
        if name != asked.plan.collective:
            yield from _floor(run, asked, found.scale)
        judged = len(_beyond_bursts(run, found.scale))
        good = (
            f"{judged} of {len(run.rows)} sizes were judged: none is far below its prediction or far slower than a smaller size"
        )
        yield check(f"curve {name}", _odd(run, asked, found.scale), good=(good,))


def is_a_burst(size_bytes: int, scale: int) -> bool:
    """Tell whether a rehearsed message is so small that its wires' saved-up tokens (token bucket) carry much of the message."""
    return scale != 1 and size_bytes * scale < _FROM_REHEARSED_BYTES


def most_above(scale: int) -> float:
    """Return the factor by which a measured number may exceed what the wires allow."""
    return ceiling.ABOVE if scale == 1 else _REHEARSED_MOST_EXCESS


def _floor(run: Run, asked: Asked, scale: int) -> Iterable[Check]:
    size, reached = run.rows[-1]["size_bytes"], busbw(run.rows[-1])
    # The plan's size is looked up. The measured size may be smaller: nccl-tests rounds the plan's size down to get equal parts.
    share = fraction(asked.plan.sizes_of(run.name)[-1], FLOOR, scale)
    bound = ceiling.bound_gb_s(run.name, asked.shape, asked.nodes, scale)
    if bound is None or share is None or _is_one_rehearsed_node(asked, scale):
        return
    sentence = (
        f"{run.name} reached {reached:.4g} GB/s at {size_text(size)}; its floor is {share:g} of the {bound:.4g} GB/s that the "
        "wires allow"
    )
    yield check(f"floor {run.name}", [sentence] if reached < share * bound else [], good=(sentence,))


def _is_one_rehearsed_node(asked: Asked, scale: int) -> bool:
    """Tell whether a run is on one node of a rehearsal. Such a run has no usable bound: a rehearsal does not imitate NVLink."""
    return asked.nodes == 1 and scale != 1


def _odd(run: Run, asked: Asked, scale: int) -> Iterable[str]:
    """Yield a reason for the first size that is far too slow.

    Yield another reason if the in-place result of the largest size is far below the out-of-place result.
    """
    rows = _beyond_bursts(run, scale)
    sizes = tuple(row["size_bytes"] * scale for row in rows)
    predicted = {} if _is_one_rehearsed_node(asked, scale) else _predicted(run.name, asked, sizes)
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
    in_place = rows[-1]["in_place"] if rows else None
    if in_place is not None and in_place["busbw_gb_s"] < _DIP * busbw(rows[-1]):
        yield f"{run.name} in place reached {in_place['busbw_gb_s']:.4g} GB/s, but {busbw(rows[-1]):.4g} out of place"


def _beyond_bursts(run: Run, scale: int) -> list[dict[str, Any]]:
    """Return the rows that are judged: the rows with messages large enough to show a wire's rate."""
    rows = [row for row in run.rows if not is_a_burst(row["size_bytes"], scale)]
    return [row for row in rows if row["size_bytes"] * scale >= _FROM_BYTES]


def _predicted(name: str, asked: Asked, sizes: tuple[int, ...]) -> dict[int, float]:
    return ceiling.predicted_curve(asked.shape, asked.nodes, sizes, name)
