"""Computes what a healthy fabric reaches in each step, for the progress display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.launch.protocol import Pace
from benchmarks.plan import ceiling
from benchmarks.plan.collectives import collective
from benchmarks.plan.steps import NODE, NVL, RAILS

if TYPE_CHECKING:
    from benchmarks.plan.steps import Step
    from catalogue import Shape

#: Each size runs out of place and in place; for each placement, the program runs one more operation to check values. Looks do
#: not check values, so their time is overestimated a little.
_PLACEMENTS, _CHECKS = 2, 1


def pace(step: Step, factor: int, shape: Shape, nodes: int) -> Pace:
    """Return the pace of `step`, whose sizes grow by `factor`, on `nodes` nodes of `shape`."""
    test, ranks = collective(step.collective), nodes * shape.gpus // step.groups
    wire_gb_s = _wire_gb_s(step, shape, nodes)
    busbw_factor = test.busbw_factor(ranks) * test.algbw_share(ranks)
    operations = _PLACEMENTS * step.cycles * (step.warmup + step.iterations + _CHECKS)
    moved_bytes = busbw_factor * sum(_sizes(step, factor))
    seconds = operations * moved_bytes / (wire_gb_s * 1e9) if wire_gb_s else 0.0
    return Pace(round(busbw_factor, 6), round(wire_gb_s or 0.0, 3), round(seconds, 3))


def _wire_gb_s(step: Step, shape: Shape, nodes: int) -> float | None:
    """Return the busbw that the links of `step` allow: NVLink, one GPU's share of the rails, or all rails."""
    if step.stage == NODE:
        return ceiling.nvlink_gb_s(shape)
    if step.stage == NVL:
        return shape.nvlink_gbytes_per_s
    whole = ceiling.bound_gb_s(step.collective, shape, nodes)
    return whole / shape.gpus if whole is not None and step.stage == RAILS else whole


def _sizes(step: Step, factor: int) -> list[int]:
    sizes = [step.begin_bytes]
    while sizes[-1] * factor <= step.end_bytes:
        sizes.append(sizes[-1] * factor)
    return sizes
