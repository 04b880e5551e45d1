"""The number that a cluster has to reach, and why it is that number.

It deliberately measures nothing and forgives nothing: a size or a machine without a rule has no gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import ceiling

if TYPE_CHECKING:
    from benchmarks.plan import Plan
    from catalogue import Shape

_MIB = 1024**2
#: Fraction of the ring ceiling by message size: below every healthy published row but one, far above every broken one
#: (TCP fallback 0.16, congestion 0.40, one rail of four 0.41).
FRACTIONS = ((4096 * _MIB, 0.85), (1024 * _MIB, 0.80), (512 * _MIB, 0.70))


@dataclass(frozen=True)
class Gate:
    """What is asked of the measurement.

    Attributes:
        collective: whose number decides.
        size_bytes: at which message size, out of place.
        limit_gbps: busbw in GB/s that must be reached; None where no rule applies.
        why: where the limit comes from, or why there is none.
    """

    collective: str
    size_bytes: int
    limit_gbps: float | None
    why: str


def gate(plan: Plan, shape: Shape, nodes: int, *, scale: int = 1, minimum_gbps: float | None = None) -> Gate:
    """Return the gate of `plan` on `nodes` nodes of `shape`.

    Args:
        plan: its largest size is the gate's.
        shape: whose rails set the ceiling.
        nodes: how many of them.
        scale: divisor of line rates that a rehearsal states. A message of 1 MiB over wires 4000 times slower is as large as
            one of 4 GiB over the real ones, so sizes scale by it too.
        minimum_gbps: the user's own limit in GB/s on real hardware; it replaces the rule.
    """
    size = plan.sizes_bytes[-1]
    ring = ceiling.ring_gbps(shape, nodes, scale)
    scaled = f", scaled by 1/{scale}" if scale != 1 else ""
    if minimum_gbps is not None:
        limit = minimum_gbps / scale
        note = " (above the ring ceiling: it cannot be reached)" if ring is not None and limit > ring else ""
        return Gate(plan.collective, size, limit, f"the stack asks for {minimum_gbps:g} GB/s{scaled}{note}")
    if ring is None:
        return Gate(plan.collective, size, None, f"no ceiling is known for {nodes} node(s) of {shape.name}")
    for at_least, fraction in FRACTIONS:
        if size * scale >= at_least:
            why = f"{fraction:g} of the ring ceiling {ring:g} GB/s ({nodes} x {shape.name}{scaled})"
            return Gate(plan.collective, size, ring * fraction, why)
    why = f"the largest size is {size} B, and no fraction of the wire is promised below {FRACTIONS[-1][0]} B"
    return Gate(plan.collective, size, None, why)
