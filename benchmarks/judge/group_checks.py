"""Judges groups of ranks that ran at the same time.

A group is either all GPUs of one node, or the GPUs that have the same index on all nodes and are connected by the rails. Each
group is compared with its line rate and with the other groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.judge import outliers
from benchmarks.judge.checks import PASS, UNKNOWN, Check, check
from benchmarks.judge.measurement import Groups
from benchmarks.judge.measurement import groups as measured_groups
from benchmarks.plan import ceiling
from benchmarks.plan.fractions import ALL_REDUCE, fraction, published
from benchmarks.plan.steps import NODE, Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.measurement import Run
    from benchmarks.plan.asked import Asked

#: At most this many nodes or rails are listed, slowest first.
_NAMED = 16


def judge(run: Run, asked: Asked, step: Step, scale: int) -> Check:
    """Judge the busbw inside each node, or over each GPU's rails between nodes; unknown unless every group has a number."""
    numbered = measured_groups(run.groups, step.groups)
    if numbered is None:
        why = f"the step {step.name} has no numbers for its {step.groups} groups; nccl-tests times every rank since 2.19"
        return Check(step.stage, UNKNOWN, (why,))
    numbered, names = _by_wire(numbered, asked, step)
    bound, asks = _wire(asked, step, len(names), scale)
    slow = tuple(_slow(numbered, names, step, bound, asks))
    if slow:
        return check(step.stage, slow)
    if step.stage == NODE and scale != 1:
        why = "no group is below the limit; rehearsed groups are not compared with each other, because they use no NVLink"
        return Check(step.stage, PASS, (why,))
    odd = tuple(_odd(numbered, names, step))
    held = f"each reached {asks:g} of {bound:.4g} GB/s" if bound and asks else "no separate limit is known"
    return check(step.stage, odd, good=(f"all {numbered.count} groups are alike; {held}",))


def _by_wire(found: Groups, asked: Asked, step: Step) -> tuple[Groups, list[str]]:
    """Return the groups that are judged, and a name for each group.

    Groups of GPUs that share a rail are merged into one group, because two healthy GPUs may split their rail 55 to 45. Nothing
    is merged if `found` has only the slowest groups, because the sum for a rail needs the busbw of all its groups.
    """
    shape = asked.shape
    if step.stage == NODE:
        return found, [asked.name(index) for index in range(step.groups)]
    ports = shape.rdma.ports if shape.rdma else shape.gpus
    if ports >= shape.gpus or len(found.slowest) != found.count:
        return found, [f"the rails of GPU {index} on all nodes together" for index in range(step.groups)]
    sums = [0.0] * ports
    for index, reached in found.slowest:
        sums[index * ports // shape.gpus] += reached
    middle, mad = outliers.middle_of(sums)
    slowest = tuple(sorted(enumerate(sums), key=lambda one: one[1]))
    together = Groups(ports, slowest, max(sums), middle, mad)
    return together, [f"rail {shape.rdma.hca[index] if shape.rdma else index} on all nodes together" for index in range(ports)]


def _wire(asked: Asked, step: Step, groups: int, scale: int) -> tuple[float | None, float | None]:
    """Return the bound (GB/s) of one group and the required share of that bound; each is None if it is unknown."""
    shape = asked.shape
    if step.stage == NODE:
        return ceiling.nvlink_gb_s(shape, scale), fraction(
            step.end_bytes, published(step.collective, ceiling.NVLINK, shape), scale
        )
    ring = ceiling.ring_gb_s(shape, asked.nodes, scale)
    return (None if ring is None else ring / groups), fraction(step.end_bytes * shape.gpus, ALL_REDUCE, scale)


def _slow(found: Groups, names: list[str], step: Step, bound: float | None, asks: float | None) -> Iterable[str]:
    """Yield a sentence for each of the slowest groups below the required share of the bound.

    If all groups are below that share, yield one sentence for all groups.
    """
    if bound is None or asks is None:
        return
    limit = asks * bound
    if found.count > 1 and found.most < limit:
        what = "inside every node" if step.stage == NODE else "the rails of every GPU between nodes"
        reached = f"{found.slowest[0][1]:.4g} to {found.most:.4g} GB/s of {bound:.4g}"
        yield f"{what}: all_reduce reached {reached}; a share of {asks:g} is required"
        return
    slow = [(index, reached) for index, reached in found.slowest if reached < limit]
    where = "inside it" if step.stage == NODE else "between nodes"
    for index, its in slow[:_NAMED]:
        yield f"{names[index]}: all_reduce {where} reached {its:.4g} GB/s of {bound:.4g}; a share of {asks:g} is required"
    if len(slow) > _NAMED:
        yield f"{len(slow) - _NAMED} or more other groups are slow as well"


def _odd(found: Groups, names: list[str], step: Step) -> Iterable[str]:
    """Yield a sentence for each of the slowest groups that is an outlier among the groups, although it meets its own limit."""
    limit = outliers.limit_gb_s(found.count, found.middle, found.mad, found.most)
    odd = [(index, reached) for index, reached in found.slowest if reached < limit]
    where = "inside it" if step.stage == NODE else "between nodes"
    for index, reached in odd[:_NAMED]:
        yield (
            f"{names[index]}: all_reduce {where} reached {reached:.4g} GB/s, but the median is {found.middle:.4g} "
            f"(anything below {limit:.4g} is not chance)"
        )
