"""Computes the gate: the busbw that a cluster must reach, and why.

If no rule covers the size or the machine, there is no gate, and the verdict is `unknown`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.plan import ceiling
from benchmarks.plan.fractions import NVLS, fraction, published
from benchmarks.plan.size_text import size_text
from benchmarks.plan.steps import nvls_gb_s
from config.accept import Limit

if TYPE_CHECKING:
    from catalogue import Shape
    from config.measure import Measure

#: Wording in messages for each link that can limit busbw.
_WHOSE = {ceiling.RAILS: "the ring ceiling", ceiling.NVLINK: "NVLink's", ceiling.PCIE: "PCIe's"}
#: With a user's limit below this share of the ceiling, a cluster with half its fabric would pass.
_LAX = 0.5


@dataclass(frozen=True)
class Gate:
    """What the measurement must reach.

    Attributes:
        collective: the collective that decides.
        size_bytes: the message size that decides (out-of-place result).
        limit_gb_s: busbw in GB/s that must be reached; None if no rule applies.
        why: where the limit comes from, or why there is none.
        notes: warnings about the limit.
    """

    collective: str
    size_bytes: int
    limit_gb_s: float | None
    why: str
    notes: tuple[str, ...] = ()


def gate(plan: Measure, shape: Shape, nodes: int, *, scale: int = 1, minimum_gb_s: float | None = None) -> Gate:
    """Return the gate of `plan` on `nodes` nodes of `shape`.

    Args:
        plan: its first collective at its largest size decides.
        shape: each kind of its links (rails, NVLink, PCIe) may have a limit, and the lowest limit applies. If no limit is
            published for the slowest kind, the gate has no limit.
        nodes: number of machines. The ring's ceiling applies to any number of machines. On one, two or three machines, the
            plan forces the ring unless the stack sets NCCL_ALGO.
        scale: divisor of line rates in a rehearsal. Over rails 4000 times slower, a message of 1 MiB takes as long as a message
            of 4 GiB over real rails, so sizes count as multiplied by the scale.
        minimum_gb_s: the user's own limit in GB/s on real hardware; it replaces the rule.
    """
    size, name = plan.sizes_bytes[-1], plan.collective
    if minimum_gb_s is not None:
        own = user_gate(Limit(name, size, minimum_gb_s), shape, nodes, scale=scale)
        return Gate(name, size, own.limit_gb_s, own.why, own.notes)
    parts = ceiling.parts(name, shape, nodes, scale)
    if not parts:
        return Gate(name, size, None, f"no ceiling for {name} is known for {nodes} node(s) of {shape.name}")
    least, _ = min(parts, key=lambda one: one[1])
    if not published(name, least, shape):
        which = f"{least} of generation {shape.nvlink_generation}" if least == ceiling.NVLINK else least
        why = (
            f"no source publishes what a healthy {name} reaches where {which} is the bottleneck; the stack may set its own "
            "limit, accept.gate"
        )
        return Gate(name, size, None, why)
    limits = _limits(name, size, shape, nodes, scale)
    if not limits:
        needed = size_text(smallest_bytes(plan, shape, nodes) or 0)
        real = f", or 1/{scale} of that in this rehearsal" if scale != 1 else ""
        return Gate(name, size, None, f"the largest size is {size_text(size)}, but the gate needs at least {needed}{real}")
    limit, share, part, bound = min(limits)
    scaled = f", scaled by 1/{scale}" if scale != 1 else ""
    why = f"{share:g} of {_WHOSE[part]} {bound:g} GB/s ({nodes} x {shape.name}{scaled})"
    return Gate(name, size, limit, why)


def limit_gb_s(name: str, size_bytes: int, shape: Shape, nodes: int, scale: int = 1) -> float | None:
    """Return the busbw in GB/s that `name` must reach at `size_bytes`, without a user's limit; None if no rule applies."""
    return min((limit for limit, *_ in _limits(name, size_bytes, shape, nodes, scale)), default=None)


def _limits(name: str, size_bytes: int, shape: Shape, nodes: int, scale: int) -> list[tuple[float, float, str, float]]:
    """Return limit (GB/s), share, link and ceiling (GB/s) for each link with a rule; empty if the slowest link has none."""
    parts = ceiling.parts(name, shape, nodes, scale)
    ruled = [(fraction(size_bytes, published(name, part, shape), scale), part, bound) for part, bound in parts]
    limits = [(share * bound, share, part, bound) for share, part, bound in ruled if share is not None]
    least = min(parts, key=lambda one: one[1])[0] if parts else ""
    return limits if least in {part for _, _, part, _ in limits} else []


def nvls_unknown(shape: Shape, plan: Measure) -> str:
    """Return why no published busbw covers a machine whose NVSwitch can reduce (NVLS); empty if such a busbw is published."""
    if nvls_gb_s(shape, plan) is None:
        return (
            f"nobody publishes what a healthy machine of {shape.gpus} x {shape.gpu} reaches if its NVLink switch reduces "
            "(NVLS), so it is unknown whether the switch reduces"
        )
    if fraction(plan.end_bytes, NVLS) is None:
        least = size_text(NVLS[-1][0])
        machine = f"a healthy machine of {shape.gpus} x {shape.gpu}"
        return f"nobody publishes what {machine} reaches below {least} with NVLS, so it is unknown whether NCCL used NVLS"
    return ""


def smallest_bytes(plan: Measure, shape: Shape, nodes: int) -> int | None:
    """Return the smallest message size, on real rails, for which a rule gives a gate for `plan`; None if no rule does."""
    parts = ceiling.parts(plan.collective, shape, nodes)
    rows = published(plan.collective, min(parts, key=lambda one: one[1])[0], shape) if parts else ()
    return rows[-1][0] if rows else None


def user_gate(limit: Limit, shape: Shape, nodes: int, *, scale: int = 1) -> Gate:
    """Return the gate for a user's own limit, with a note if that limit is above the ceiling or below half the ceiling."""
    bound = ceiling.bound_gb_s(limit.collective, shape, nodes, scale)
    own = limit.busbw_gb_s / scale
    notes = []
    if bound is not None and own > bound:
        notes.append(f"the limit of {own:.4g} GB/s is above the ceiling of {bound:.4g} GB/s: no ring reaches it")
    if bound is not None and own < _LAX * bound:
        notes.append(f"the limit of {own:.4g} GB/s is below half the ceiling of {bound:.4g} GB/s: half a fabric would pass")
    scaled = f", scaled by 1/{scale}" if scale != 1 else ""
    flagged = "".join(f"; {note}" for note in notes)
    why = f"the stack asks for {limit.busbw_gb_s:g} GB/s{scaled}{flagged}"
    return Gate(limit.collective, limit.size_bytes, own, why, tuple(notes))
