"""Finds the reasons why no measurement of a plan could pass, before anything is rented."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.plan.gate import gate, smallest_bytes
from benchmarks.plan.steps import LEAST_FOR_NVL_BYTES, MNNVL, is_joined, over_nvlink
from catalogue.detection import complete
from config import judgeable
from config.units import MESSAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.stack import Stack


def unpassable(stack: Stack) -> Iterator[str]:
    """Yield why `stack` could never pass; each sentence begins with the key to change.

    If the rails are detected on the machines, the gate is not checked, because the message size that a gate needs is not known
    yet.
    """
    plan, accept = stack.measure, stack.accept
    for key, wanted, check, what in (
        ("measure.spreadIterations", plan.spread_iterations, "spread", "times no individual operations"),
        ("measure.looks", plan.looks, "looks", "takes no looks"),
    ):
        if not wanted and check not in accept.allow_skipped:
            yield f"{key} is 0, so a measurement {what} and the verdict stays unknown; add {check} to accept.allowSkipped"
    path, shape, nodes = judgeable.measured(stack)
    if shape is None or not nodes:
        return
    # A rehearsal has no NVLink, so it needs no run over NVLink.
    if accept.scale == 1 and is_joined(plan, shape, nodes) and not over_nvlink(plan, shape, nodes):
        enough = MESSAGE.show(LEAST_FOR_NVL_BYTES)
        yield (
            f"measure.sizes.to is {MESSAGE.show(plan.end_bytes)}, but NVLink between nodes of {shape.name} is measured only if "
            f"it is {enough} or more, so the verdict would stay unknown; measure {enough} or more, or set "
            f'measure.exports.{MNNVL} to "0" to measure and judge only the rails'
        )
        return
    if not complete(shape, nodes):
        return
    bound = gate(plan, shape, nodes, scale=accept.scale, minimum_gb_s=accept.gate_gb_s)
    if bound.limit_gb_s is not None:
        return
    instead = "the verdict would stay unknown; set accept.gate to what you expect"
    if least := smallest_bytes(plan, shape, nodes):
        needed = MESSAGE.show(-(-least // accept.scale))
        yield (
            f"measure.sizes.to is {MESSAGE.show(plan.end_bytes)}, but no source says what busbw {nodes} x {shape.name} "
            f"reach with messages below {needed}, so {instead}, or measure {needed} or more"
        )
    else:
        yield f"{path} is {shape.name}, and {bound.why}, so {instead}"
