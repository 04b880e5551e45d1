"""Write docs/expected-numbers.md: the model's expectation for every machine in the catalogue, beside published results.

python -m tools.expected_numbers > docs/expected-numbers.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from benchmarks.plan import ceiling
from benchmarks.plan.gate import gate
from catalogue import SERVERS, SHAPES, Shape
from catalogue.aws.instances import INSTANCES
from catalogue.gpus import is_nvidia
from catalogue.published import ROWS, Published
from config.measure import Measure, Sizes
from tools.published_rows import is_over_nvlink, refusal

_COLLECTIVE: Final = "all_reduce"
#: Node counts and sizes (bytes) in the table; the gate is for the largest size.
_NODES, _SIZES = (1, 2, 16), (1 << 20, 64 << 20, 1 << 30, 8 << 30)
_HEAD = """# Expected bandwidths of every machine

The table has the all-reduce busbw, in decimal GB/s, that busbar expects of a healthy fabric of each machine in `catalogue/`
(on AWS, of the types with GPUs). There is one row for each number of nodes. The row also has the ceiling that the line rates
allow, and the gate at 8 GiB. These numbers come from the model (`benchmarks/plan/ceiling.py`), not from a measurement. A
preview shows such numbers for the six largest sizes of your own stack.

The column *published* has results that others measured on machines with the same GPU model and the same total rate of rails. It
omits a result if NCCL is known to have used another algorithm than a ring. The results of all measurements on 3 or more nodes
are in the row for 16 nodes. [published-rows.md](published-rows.md) has the sources, and also rows of other algorithms and
collectives. If the catalogue does not name a machine's rails, the machine has only one row, for one node.
`python -m tools.expected_numbers` writes this page.

| machine | nodes | ceiling | 1 MiB | 64 MiB | 1 GiB | 8 GiB | gate | published |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""
_TAIL = "\nThe model has no expectation for these machines, so a preview refuses the machine or shows no gate:\n\n"


def machines() -> Iterator[Shape]:
    """Yield every machine in the catalogue; on AWS only those with GPUs."""
    yield from SHAPES.values()
    yield from (one.shape() for one in INSTANCES.values() if one.gpus)
    yield from SERVERS.values()


def why_not(shape: Shape) -> str:
    """Return why there is no expectation for `shape`; empty if there is one."""
    if not shape.gpus:
        return "it has no GPU"
    if not is_nvidia(shape.gpu):
        return f"its GPUs are {shape.gpu}, but busbar measures NCCL, which runs only on NVIDIA's GPUs"
    known = any(ceiling.bound_gb_s(_COLLECTIVE, shape, nodes) is not None for nodes in _NODES)
    return "" if known else "neither its rails nor the links of its GPUs are known"


def row(shape: Shape, nodes: int) -> str:
    """Return the table row for `nodes` machines of `shape`; empty if no ceiling is known."""
    top = ceiling.bound_gb_s(_COLLECTIVE, shape, nodes)
    if top is None:
        return ""
    expected = ceiling.predicted_curve(shape, nodes, _SIZES, _COLLECTIVE)
    plan = Measure(collectives=(_COLLECTIVE,), sizes=Sizes(from_bytes=_SIZES[0], to_bytes=_SIZES[-1]))
    limit = gate(plan, shape, nodes).limit_gb_s
    numbers = (top, *(expected[size] for size in _SIZES))
    asked = "none" if limit is None else f"{limit:.4g}"
    return f"| {shape.name} | {nodes} | {' | '.join(f'{one:.4g}' for one in numbers)} | {asked} | {beside(shape, nodes)} |\n"


def beside(shape: Shape, nodes: int) -> str:
    """Return published results of machines with the GPUs and rails of `shape`.

    The results are of exactly `nodes` machines. Only the row for 16 nodes has the results of all runs on 3 or more machines.
    """
    found = [
        f"{one.busbw_gb_s:g} ({one.where}, {one.nodes} {'node' if one.nodes == 1 else 'nodes'})"
        for one in ROWS
        if one.collective == _COLLECTIVE
        and one.shape.gpu == shape.gpu
        and _rails(one.shape) == _rails(shape)
        and (one.nodes == nodes or (one.nodes > 2 and nodes == _NODES[-1]))  # noqa: PLR2004 - a ring of 3 behaves like a ring of 16
        and uses_a_ring(one)
    ]
    return "; ".join(found)


def uses_a_ring(one: Published) -> bool:
    """Tell whether a published result is of a ring, over the rails or inside one machine. The model predicts only rings."""
    return not is_over_nvlink(one) and "NCCL_COLLNET_ENABLE" not in one.exports and not refusal(one)


def page() -> str:
    """Return the page."""
    known = [shape for shape in machines() if not why_not(shape)]
    left = [shape for shape in machines() if why_not(shape)]
    rows = "".join(row(shape, nodes) for shape in known for nodes in _NODES)
    return _HEAD + rows + _TAIL + "".join(f"- {shape.name}: {why_not(shape)}.\n" for shape in left)


def _rails(shape: Shape) -> float | None:
    return shape.rdma.node_gbytes_per_s if shape.rdma else None


if __name__ == "__main__":
    sys.stdout.write(page())
