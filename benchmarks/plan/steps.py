"""Turns a plan into steps, in the order in which they run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.plan.collectives import collective
from catalogue import gpus

if TYPE_CHECKING:
    from catalogue import Shape
    from config.measure import Measure

#: Below this many nodes the ring is forced. NCCL might choose a tree, which moves fewer bytes over the rails, so busbw would
#: flatter the fabric: a two-node all-reduce on H100 then shows 1.12 to 1.22 times the highest busbw of a ring.
RING_BELOW_NODES = 4
#: Message size of the run inside each node: large enough for NVLink's full rate, small enough to finish quickly.
_NODE_BYTES = 1024**3
#: Number of timed operations that the median of a group or of a trial needs, because a busy processor disturbs individual
#: operations.
MEDIAN_ITERATIONS = 12
#: GPUs on a full board with NVLink switches.
_BOARD = 8
#: The first NVLink generation (H100) whose switches can reduce (NVLS).
_REDUCING = 4
#: Size of one float, which is the smallest message.
_FLOAT_BYTES = 4

NODE, RAILS, ALL, SPREAD, FREE, LOOKS, NVL = "node", "rails", "all", "spread", "free", "looks", "nvl"
#: NCCL's variable that enables NVLink between nodes (multi-node NVLink).
MNNVL = "NCCL_MNNVL_ENABLE"
#: Message size of the step that uses NVLink between nodes; published results of such runs are for messages of 16 GB.
_NVL_BYTES = 16 * 1024**3
#: A plan whose largest size is below this gets no run of 16 GiB over NVLink. Such a small plan is usually a rehearsal's; on
#: real hardware, its verdict would stay unknown.
LEAST_FOR_NVL_BYTES = 512 * 1024**2
#: Names of the two steps that take looks (short measurements of the deciding size): one early, one at the end.
LOOK_STEPS = (f"{LOOKS}_early", f"{LOOKS}_late")
#: At most this many operations are timed in one look.
_LOOK_ITERATIONS = 5
#: A retest takes this many times as many looks as the first measurement.
_MORE_LOOKS = 3


@dataclass(frozen=True)
class Step:
    """One run of one test program.

    Attributes:
        name: unique within the plan; letters, digits and underscores.
        stage: `node` runs one group inside each node, all groups at once. `rails` runs one group for each GPU index, over
            that GPU of every node, all groups at once. `all` runs over all ranks. `spread` is like `all`, but times every
            operation. `free` lets NCCL choose the algorithm (on 2 and 3 nodes, the result is only information; on one node, it
            shows whether the NVLink switch reduces). `looks` measures the deciding size many times. `nvl` uses NVLink between
            nodes (all other steps between nodes use only the rails).
        collective: the collective that runs.
        begin_bytes: smallest size.
        end_bytes: largest size.
        split: value of NCCL_TESTS_SPLIT; None for one group of all ranks.
        groups: how many groups run at once.
        iterations: timed operations per size.
        warmup: untimed operations before the timed ones.
        cycles: how often each size is measured.
        one_by_one: whether every operation is timed individually (`-I 1`).
    """

    name: str
    stage: str
    collective: str
    begin_bytes: int
    end_bytes: int
    split: str | None
    groups: int
    iterations: int
    warmup: int
    cycles: int = 1
    one_by_one: bool = False


def steps(plan: Measure, shape: Shape, nodes: int) -> tuple[Step, ...]:
    """Return the steps of `plan` on `nodes` nodes of `shape`, in the order in which they run."""
    found = []
    if nodes > 1 and shape.gpus > 1:
        found += [_inside_nodes(plan, shape, nodes), _by_rail(plan, shape)]
    for name in plan.collectives:
        if collective(name).runs_on(nodes * shape.gpus):
            whole = Step(name, ALL, name, plan.begin_bytes, plan.end_of(name), None, 1, plan.iterations, plan.warmup)
            found.append(replace(whole, cycles=plan.cycles))
            if name == plan.collective:
                found += _looks(plan, LOOK_STEPS[0], plan.looks - plan.looks // 2)
    largest = Step(
        SPREAD, SPREAD, plan.collective, plan.end_bytes, plan.end_bytes, None, 1, plan.spread_iterations, 1, one_by_one=True
    )
    if plan.spread_iterations:
        found.append(largest)
    if 1 < nodes < RING_BELOW_NODES or (nodes == 1 and may_reduce_inside(shape, plan)):
        found.append(replace(largest, name=FREE, stage=FREE, iterations=plan.iterations, warmup=plan.warmup, one_by_one=False))
    if over_nvlink(plan, shape, nodes):
        found.append(replace(largest, name=NVL, stage=NVL, begin_bytes=_NVL_BYTES, end_bytes=_NVL_BYTES, one_by_one=False))
        found[-1] = replace(found[-1], iterations=plan.iterations, warmup=plan.warmup)
    return (*found, *_looks(plan, LOOK_STEPS[1], plan.looks // 2))


def over_nvlink(plan: Measure, shape: Shape, nodes: int) -> bool:
    """Tell whether NVLink between nodes is measured too.

    NVLink must join the nodes, the nodes must fit in one rack, a limit for the plan's collective must be known, and the plan's
    largest size must be 512 MiB or more.
    """
    whole = plan.collective in gpus.RACK_SHARES and plan.end_bytes >= LEAST_FOR_NVL_BYTES
    return is_joined(plan, shape, nodes) and nodes * shape.gpus <= gpus.RACK and whole


def is_joined(plan: Measure, shape: Shape, nodes: int) -> bool:
    """Tell whether NVLink may join the nodes: their GPUs support this, and the plan does not disable it."""
    return nodes > 1 and gpus.spans_nodes(shape.gpu) and plan.exports.get(MNNVL) != "0"


def _looks(plan: Measure, name: str, count: int) -> list[Step]:
    """Return a step that takes `count` looks at the gate's size, one in each cycle; return no step if `count` is 0."""
    size, timed = plan.sizes_bytes[-1], min(plan.iterations, _LOOK_ITERATIONS)
    step = Step(name, LOOKS, plan.collective, size, size, None, 1, timed, min(plan.warmup, 1), cycles=count)
    return [step] if count else []


def may_reduce_inside(shape: Shape, plan: Measure) -> bool:
    """Tell whether NVLink switches may reduce the plan's all-reduce on one machine.

    The machine must be a full board or a node of a rack that NVLink joins, and the plan must not prevent the reduction.
    """
    off = plan.exports.get("NCCL_NVLS_ENABLE") == "0" or "NCCL_ALGO" in plan.exports
    whole = shape.gpus == _BOARD or (gpus.spans_nodes(shape.gpu) and shape.gpus > 1)
    able = (shape.nvlink_generation or 0) >= _REDUCING and whole
    return able and plan.collective == "all_reduce" and not off


def nvls_gb_s(shape: Shape, plan: Measure) -> float | None:
    """Return the published busbw (GB/s) of one machine that reduces in its NVLink switch; None if none is published."""
    known = may_reduce_inside(shape, plan) and shape.gpus == _BOARD
    return gpus.nvls_gbytes_per_s(shape.gpu) if known else None


def repeated(step: Step) -> Step:
    """Return the step that the retest runs instead of `step`: it takes more looks, or times enough operations for a median."""
    if step.stage == LOOKS:
        return replace(step, cycles=_MORE_LOOKS * step.cycles)
    if step.stage not in {NODE, RAILS}:
        return step
    return replace(step, iterations=max(step.iterations, MEDIAN_ITERATIONS))


def _inside_nodes(plan: Measure, shape: Shape, nodes: int) -> Step:
    size = min(plan.end_bytes, _NODE_BYTES)
    split = f"DIV {shape.gpus}"
    return Step(NODE, NODE, "all_reduce", size, size, split, nodes, plan.iterations, 1, one_by_one=True)


def _by_rail(plan: Measure, shape: Shape) -> Step:
    """Return the step with one group per GPU index.

    A group has 1/gpus of the rails, so a message has 1/gpus of the plan's size.
    """
    size = max(plan.end_bytes // shape.gpus // _FLOAT_BYTES, 1) * _FLOAT_BYTES
    split = f"MOD {shape.gpus}"
    return Step(RAILS, RAILS, "all_reduce", size, size, split, shape.gpus, plan.iterations, plan.warmup, one_by_one=True)
