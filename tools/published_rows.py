"""Write docs/published-rows.md: what others published for healthy machines, and how busbar judges it.

python -m tools.published_rows > docs/published-rows.md
"""

from __future__ import annotations

import sys

from benchmarks.plan.fractions import fraction, rack
from benchmarks.plan.gate import gate
from benchmarks.plan.steps import over_nvlink
from catalogue.published import ROWS, Published
from config import judgeable
from config.accept import Accept
from config.measure import Measure, Sizes

_HEAD = """# Published bandwidths and the gate

Bus bandwidths in decimal GB/s that others published for healthy machines, and how busbar judges each number: the gate that it
would have to reach, or the sentence with which a preview refuses the measurement. The gate's fractions
(`benchmarks/plan/fractions.py`) are chosen from these rows, which `catalogue/published.py` lists with their sources.
`tests/unit/test_published.py` judges each row that a preview accepts: as a complete measurement, and again in variants with one
fault. A row of several machines over rails has four: half of its rails, TCP, no GPUDirect RDMA, a slow node. A row of one
machine has two: half of its NVLinks, or main memory instead of NVLink. All these variants are short, and the reason names the
rails, the interface, the connections, the node, NVLink or the path. `python -m tools.published_rows` writes this page.

Inside one machine, the required share of NVLink's rate depends on the collective and on the generation of NVLink: A100 has the
third, H100 and H200 the fourth, B200, B300, GB200 and GB300 the fifth. Nobody has published numbers for V100, or for every
collective of A100 and H100; without a number there is no gate, and a preview says so. The gate is 6 to 12 % below the published
number, so a machine with half of its NVLinks is short.

Whether the NVLink switch reduces (NVLS) is judged on a single machine, by its run with NCCL's own choice of algorithm. The
published numbers are 480 GB/s (H100), 482 (H200) and 846 (B200) if the switch reduces; if it does not, the run is as fast as a
ring. Nobody has published that run for B300, or for four GB200 or GB300 (Azure's number for GB200 comes from a ring): preview
and verdict say `unknown`. Between machines NVLS cannot be seen and hardly matters, because the rails limit both algorithms
(p5en on 4 nodes: 369 by NCCL's choice, 365 by a ring, in the table).

Where NVLink connects the nodes of a rack (GB200, GB300), two things are measured: the rails, by a plan that restricts NCCL to
them, and NVLink between the nodes, by the run `nvl`. Rows of the run `nvl` are compared with a share of one GPU's NVLink rate:
0.85 for all-reduce, 0.63 for all-gather and 0.59 for all-to-all.

Where switches between the nodes reduce (SHARP), the rails carry half of a ring's bytes, so the ring's gate would pass rails at
half of their rate. Such a run is recognised by NCCL's log and by the byte counters, and must also reach 0.53 of what the rails
and NVLink allow then (H100: 418 GB/s on 8 nodes).

On two nodes NCCL's own choice is a tree, which sends fewer bytes over the rails than a ring does: its busbw can exceed the rate
of the rails, so it says little about them. busbar therefore requests a ring on two nodes, and refuses another algorithm unless
the stack sets its own gate. Oracle's tutorial (seed 000) shows 87.2 GB/s at 1 GiB on two machines with 200 GB/s of rails each,
which is 44 % of the line rate: that is short by this gate, which requires 160.

| machines | nodes | collective | size | busbw | gate | source |
| --- | --- | --- | --- | --- | --- | --- |
"""


def plan(row: Published) -> Measure:
    """Return the plan of the measurement in `row`."""
    size = row.size_bytes // 4 * 4
    sizes = Sizes(from_bytes=size, to_bytes=size)
    return Measure(collectives=(row.collective,), sizes=sizes, exports=dict(row.exports))  # type: ignore[arg-type]


def refusal(row: Published) -> str:
    """Return why a preview refuses the measurement in `row`; empty if it does not."""
    asked = plan(row)
    breaches = [
        *judgeable.exports(asked, Accept()),
        *judgeable.machine("the shape", row.shape, asked, row.nodes),
        *judgeable.in_network(row.shape, asked, Accept()),
    ]
    if breaches:
        return "; ".join(f"{path} {text}" for path, text in breaches)
    if is_over_nvlink(row):
        return ""
    bound = gate(asked, row.shape, row.nodes)
    return f"no gate: {bound.why}" if bound.limit_gb_s is None else ""


def is_over_nvlink(row: Published) -> bool:
    """Tell whether `row` measures NVLink between the nodes of a rack, which has a separate run."""
    return over_nvlink(plan(row), row.shape, row.nodes)


def page() -> str:
    """Return the page."""
    lines = []
    for row in ROWS:
        limit = gate(plan(row), row.shape, row.nodes).limit_gb_s
        if is_over_nvlink(row):
            limit = (row.shape.nvlink_gbytes_per_s or 0.0) * (fraction(row.size_bytes, rack(row.collective)) or 0.0)
        outcome = refusal(row) or f"{limit:.4g}"
        size = f"{row.size_bytes / 1024**3:.3g} GiB"
        lines.append(
            f"| {row.where} | {row.nodes} | {row.collective} | {size} | {row.busbw_gb_s:g} | {outcome} | {row.source} |\n"
        )
    return _HEAD + "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())
