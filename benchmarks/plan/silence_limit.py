"""How long a step may print nothing before it counts as hung, derived from its slowest row on a healthy fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.plan import ceiling
from benchmarks.plan.collectives import collective

if TYPE_CHECKING:
    from benchmarks.plan.steps import Step
    from catalogue import Shape

#: A row may take this many times as long as when healthy: NCCL over TCP on machines with 3,200 Gb/s of rails reaches 0.008
#: of that rate (NVIDIA/aicr issue 2689: 3 GB/s where rails reach 489), and that must still produce a number.
_SLOWEST = 150
#: Start-up time (mpirun, NCCL's initialisation, filling buffers), and what each node adds to it, in s.
_START_S, _START_OF_A_NODE_S = 120.0, 0.5


def silence_s(step: Step, shape: Shape, nodes: int) -> float:
    """Return how many seconds `step` may print nothing; 0 where no prediction says how long a row takes."""
    size = step.end_bytes
    predicted = ceiling.predicted_curve(shape, nodes, (size,), step.collective).get(size)
    if not predicted:
        return 0.0
    ranks = nodes * shape.gpus
    operation_s = size * collective(step.collective).busbw_factor(ranks) / (predicted * 1e9)
    operations = 2 * (step.warmup + step.iterations + 1)
    return _START_S + _START_OF_A_NODE_S * nodes + _SLOWEST * operations * operation_s
