"""Computes the gate: the busbw that a cluster must reach, and why.

A size or a machine without a rule has no gate, so its verdict is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.plan import ceiling
from config.accept import Limit

if TYPE_CHECKING:
    from catalogue import Shape
    from config.measure import Measure

_MIB = 1024**2
#: Fraction of the ring ceiling by message size: below every healthy published row but one, far above every broken one
#: (TCP fallback 0.16, congestion 0.40, one rail of four 0.41).
FRACTIONS: tuple[tuple[int, float], ...] = ((4096 * _MIB, 0.85), (1024 * _MIB, 0.80), (512 * _MIB, 0.70))
#: The same inside one machine, of one GPU's NVLink rate: healthy rings show 0.73 to 0.82 from 1 GiB (A100 235 of 300 GB/s, H200
#: 328 to 368 of 450) and 0.67 at 256 MiB; a pair that fell back to PCIe shows 0.1.
NVLINK_FRACTIONS: tuple[tuple[int, float], ...] = ((1024 * _MIB, 0.65), (256 * _MIB, 0.55))
#: A rehearsal's scale is no power of two, so 1 MiB at 1/4000 counts as 4 GiB although it is 2 % less.
_ROUNDING = 1.03
#: With a user's limit below this share of the ceiling, half a fabric would pass.
_LAX = 0.5


@dataclass(frozen=True)
class Gate:
    """What the measurement must reach.

    Attributes:
        collective: whose number decides.
        size_bytes: at which message size, out of place.
        limit_gb_s: busbw in GB/s that must be reached; None if no rule applies.
        why: where the limit comes from, or why there is none.
        notes: warnings about the limit.
    """

    collective: str
    size_bytes: int
    limit_gb_s: float | None
    why: str
    notes: tuple[str, ...] = ()


def fraction(size: float, rows: tuple[tuple[int, float], ...], scale: int = 1) -> float | None:
    """Return the fraction of a ceiling that `rows` ask for at `size` bytes; None below the smallest size."""
    stands_for = size * scale * (_ROUNDING if scale != 1 else 1)
    return next((share for at_least, share in rows if stands_for >= at_least), None)


def gate(plan: Measure, shape: Shape, nodes: int, *, scale: int = 1, minimum_gb_s: float | None = None) -> Gate:
    """Return the gate of `plan` on `nodes` nodes of `shape`.

    Args:
        plan: its first collective at its largest size is the gate's.
        shape: whose rails (or NVLink, on one node) set the ceiling.
        nodes: how many of them; on fewer than 4 the plan forces the ring, whose ceiling this is.
        scale: divisor of line rates that a rehearsal states. A message of 1 MiB over wires 4000 times slower is as large as
            one of 4 GiB over the real ones, so sizes scale by it too.
        minimum_gb_s: the user's own limit in GB/s on real hardware; it replaces the rule.
    """
    size, name = plan.sizes_bytes[-1], plan.collective
    if minimum_gb_s is not None:
        own = user_gate(Limit(name, size, minimum_gb_s), shape, nodes, scale=scale)
        return Gate(name, size, own.limit_gb_s, own.why, own.notes)
    inside = nodes == 1
    bound = ceiling.bound_gb_s(name, shape, nodes, scale)
    if bound is None:
        return Gate(name, size, None, f"no ceiling of {name} is known for {nodes} node(s) of {shape.name}")
    rows = NVLINK_FRACTIONS if inside else FRACTIONS
    share = fraction(size, rows, scale)
    if share is None:
        why = f"the largest size is {size} B, and there is no gate below {rows[-1][0]} B"
        return Gate(name, size, None, why)
    scaled = f", scaled by 1/{scale}" if scale != 1 else ""
    what = "NVLink's" if inside else "the ring ceiling"
    why = f"{share:g} of {what} {bound:g} GB/s ({nodes} x {shape.name}{scaled})"
    return Gate(name, size, bound * share, why)


def user_gate(limit: Limit, shape: Shape, nodes: int, *, scale: int = 1) -> Gate:
    """Return the gate of a user's own limit, with a note if it is above the ceiling or under half of it."""
    bound = ceiling.bound_gb_s(limit.collective, shape, nodes, scale)
    own = limit.busbw_gb_s / scale
    notes = []
    if bound is not None and own > bound:
        notes.append(f"the limit of {own:.4g} GB/s is above the ceiling of {bound:.4g} GB/s: it cannot be reached")
    if bound is not None and own < _LAX * bound:
        notes.append(f"the limit of {own:.4g} GB/s is under half of the ceiling of {bound:.4g} GB/s: half a fabric would pass")
    scaled = f", scaled by 1/{scale}" if scale != 1 else ""
    flagged = "".join(f"; {note}" for note in notes)
    why = f"the stack asks for {limit.busbw_gb_s:g} GB/s{scaled}{flagged}"
    return Gate(limit.collective, limit.size_bytes, own, why, tuple(notes))
