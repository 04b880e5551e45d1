"""Judges the run over NVLink between the nodes of a rack: its switches reduce, and the rails carry nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.judge.checks import UNKNOWN, Check, check
from benchmarks.judge.measurement import busbw
from benchmarks.plan import ceiling
from benchmarks.plan.fractions import RACK, fraction
from benchmarks.plan.steps import NVL, is_joined, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.measurement import Measurement
    from benchmarks.plan.asked import Asked


def judge(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield the check `nvl` where NVLink may join the nodes; where its run gave nothing `collectives` says so.

    A rehearsal has no NVLink, so it has no such check.
    That the limit is far above what all rails carry together proves the way: no byte counter is needed.
    """
    run = found.runs.get(NVL)
    step = next((one for one in steps(asked.plan, asked.shape, asked.nodes) if one.name == NVL), None)
    if step is None and found.scale == 1 and is_joined(asked.plan, asked.shape, asked.nodes):
        why = f"NVLink of {asked.shape.name} joins nodes, and {asked.plan.collective} over it on {asked.nodes} is not judged"
        yield Check("nvl", UNKNOWN, (f'{why}; with measure.exports.NCCL_MNNVL_ENABLE "0" only the rails are',))
    if step is None or run is None or not run.rows or run.failed:
        return
    rate, share = asked.shape.nvlink_gbytes_per_s, fraction(step.end_bytes, RACK)
    if found.scale != 1 or rate is None or share is None:
        yield Check("nvl", UNKNOWN, ("no limit of NVLink between nodes is known for what ran",))
        return
    reached, most = busbw(run.rows[-1]), rate * 2 * (asked.ranks - 1) / asked.ranks
    if reached > ceiling.ABOVE * most:
        yield Check("nvl", UNKNOWN, (f"{reached:.4g} GB/s over NVLink is more than it can carry ({most:.4g})",))
        return
    sentence = f"over NVLink between nodes all_reduce reached {reached:.4g} GB/s, and {share:g} of {rate:g} GB/s is asked"
    rails = ceiling.hierarchical_gb_s(asked.shape, asked.nodes)
    if rails is not None and reached <= ceiling.ABOVE * rails:
        sentence += (
            "; the rails carry as much, so NVLink did not join these nodes: see nvidia-imex, and whether all are of one rack"
        )
    yield check("nvl", [sentence] if reached < share * rate else [], good=(sentence,))
