"""Judges the run over NVLink between the nodes of a rack: NVLink switches may reduce, and rails carry no bytes of this run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.judge.checks import UNKNOWN, Check, check
from benchmarks.judge.measurement import busbw
from benchmarks.plan import ceiling
from benchmarks.plan.fractions import fraction, rack
from benchmarks.plan.steps import NVL, is_joined, steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.measurement import Measurement
    from benchmarks.plan.asked import Asked


def judge(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield the check `nvl` if NVLink may join the nodes.

    If the run over NVLink failed or returned nothing, the check `collectives` reports that run, and there is no check `nvl`.
    A rehearsal has no NVLink. So a rehearsed run over NVLink is unknown, and a rehearsal without such a run has no check `nvl`.
    The limit is far above the rate of all rails together, so a result that meets the limit proves that NVLink was used, and no
    byte counter is needed.
    """
    run = found.runs.get(NVL)
    step = next((one for one in steps(asked.plan, asked.shape, asked.nodes) if one.name == NVL), None)
    if step is None and found.scale == 1 and is_joined(asked.plan, asked.shape, asked.nodes):
        why = f"NVLink joins nodes of {asked.shape.name}, but {asked.plan.collective} on {asked.nodes} nodes is not judged"
        yield Check("nvl", UNKNOWN, (f'{why}; set measure.exports.NCCL_MNNVL_ENABLE to "0" to judge only the rails',))
    if step is None or run is None or not run.rows or run.failed:
        return
    name = step.collective
    rate, share = asked.shape.nvlink_gbytes_per_s, fraction(step.end_bytes, rack(name))
    if found.scale != 1 or rate is None or share is None:
        yield Check("nvl", UNKNOWN, ("no limit is known for this run over NVLink between nodes",))
        return
    reached = busbw(run.rows[-1])
    # If switches reduce an all_reduce, each GPU sends only about half of the bytes that busbw counts. In other tests, each GPU
    # sends or receives all bytes that busbw counts.
    most = rate * 2 * (asked.ranks - 1) / asked.ranks if name == "all_reduce" else rate
    if reached > ceiling.ABOVE * most:
        yield Check("nvl", UNKNOWN, (f"{reached:.4g} GB/s over NVLink is more than it can carry ({most:.4g})",))
        return
    sentence = f"over NVLink between nodes {name} reached {reached:.4g} GB/s; {share:g} of {rate:g} GB/s is required"
    rails = ceiling.most_gb_s(name, asked.shape, asked.nodes, ring=False)
    if rails is not None and reached <= ceiling.ABOVE * rails:
        sentence += (
            "; the rails can carry as much, so NVLink did not join these nodes: check nvidia-imex, and whether all nodes are "
            "in one rack"
        )
    yield check("nvl", [sentence] if reached < share * rate else [], good=(sentence,))
