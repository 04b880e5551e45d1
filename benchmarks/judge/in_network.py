"""Judges a deciding all-reduce whose sums the switches between the nodes computed (SHARP).

If the switches compute the sums, the rails carry only half as many bytes as in a ring. So rails that reach only half their rate
would meet the ring's gate. This module therefore requires more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.judge import transport
from benchmarks.judge.checks import UNKNOWN, Check, check
from benchmarks.judge.measurement import busbw
from benchmarks.plan import ceiling
from benchmarks.plan.fractions import fraction, in_network
from benchmarks.plan.size_text import size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.judge.measurement import Measurement
    from benchmarks.plan.asked import Asked


def judge(found: Measurement, asked: Asked) -> Iterable[Check]:
    """Yield the check `in-network` if switches reduced, unless the user's own limit applies or no bound is known."""
    most = ceiling.in_network_gb_s(asked.shape, asked.nodes, found.scale)
    if asked.accept.gate_gb_s is not None or most is None or not transport.switches_reduced(found.line.get("transport"), asked):
        return
    size, reached = asked.plan.sizes_bytes[-1], busbw(found.rows(asked.plan.collective)[-1])
    sentence = f"where switches reduced, all_reduce reached {reached:.4g} GB/s at {size_text(size)}"
    share = fraction(size, in_network(asked.shape), found.scale)
    if share is None:
        why = f"no source publishes what a healthy run on {asked.shape.name} then reaches; the stack may set accept.gate"
        yield Check("in-network", UNKNOWN, (f"{sentence}, and {why}",))
        return
    sentence += f"; {share:g} of what rails and NVLink allow in that case ({most:.4g} GB/s) is required"
    yield check("in-network", [sentence] if reached < share * most else [], good=(sentence,))
