"""Computes how long a step may print nothing before it counts as hung, from the step's slowest row on a healthy fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.plan import ceiling
from benchmarks.plan.collectives import collective
from benchmarks.plan.steps import RAILS

if TYPE_CHECKING:
    from benchmarks.plan.steps import Step
    from catalogue import Shape

#: A row may take this many times as long as on a healthy fabric, because even a run over TCP must produce a number. On machines
#: whose rails have 3,200 Gb/s (400 GB/s) in total, NCCL over TCP reaches a busbw of 3 GB/s (NVIDIA/aicr issue 2689). For the
#: same machines, `ceiling` predicts a healthy busbw of at most 380 GB/s, which is 127 times as much.
_SLOWEST = 150
#: Start-up time in s (mpirun, NCCL's initialisation, filling buffers), and how many s each node adds to it.
_START_S, _START_OF_A_NODE_S = 120.0, 0.5


#: If the collective of a step has no prediction, the first collective of this list that has a prediction replaces it: alltoall
#: between nodes; all_reduce inside a machine, where alltoall has none. The replacement moves at least as many bytes over each
#: link as the step's collective.
_INSTEAD = ("alltoall", "all_reduce")


def silence_s(step: Step, shape: Shape, nodes: int) -> float:
    """Return how many seconds `step` may print nothing; 0 if the time of an operation cannot be predicted."""
    known = (_operation_s(name, step.end_bytes, shape, nodes) for name in (step.collective, *_INSTEAD))
    operation_s = next((one for one in known if one), None)
    if operation_s is None:
        return 0.0
    # In the step `rails` each group of ranks has only the rails of one GPU.
    operation_s *= shape.gpus if step.stage == RAILS else 1
    operations = 2 * (step.warmup + step.iterations + 1)
    return _START_S + _START_OF_A_NODE_S * nodes + _SLOWEST * operations * operation_s


def _operation_s(name: str, size_bytes: int, shape: Shape, nodes: int) -> float | None:
    """Return the predicted time (s) of one operation on a healthy fabric; None if there is no prediction."""
    predicted = ceiling.predicted_curve(shape, nodes, (size_bytes,), name).get(size_bytes)
    return size_bytes * collective(name).busbw_factor(nodes * shape.gpus) / (predicted * 1e9) if predicted else None
