"""Write docs/published-rows.md: what others published of healthy machines, and what busbar makes of it.

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

Bus bandwidths in decimal GB/s that others published of healthy machines, and what busbar makes of each: the limit that it
would have to reach, or the sentence with which a preview refuses it. The gate's fractions (`benchmarks/plan/fractions.py`) are
chosen by these rows, which `catalogue/published.py` holds with their sources; `tests/unit/test_published.py` judges each as a
whole line, and again with half of its rails, over TCP, without GPUDirect RDMA and with a slow node; one machine with half of
its NVLinks and over main memory. Each of those is short, and its reason names the rails, the interface, the connections, the
node, NVLink or the path. `python -m tools.published_rows` writes this page.

Inside one machine, the share of NVLink's rate that is required belongs to the collective and to the generation of NVLink: A100
has the third, H100 and H200 the fourth, B200, B300, GB200 and GB300 the fifth. Nobody publishes V100, or A100 and H100 in every
collective: there is no gate then, and a preview says so. What is required is 6 to 12 % below what was published, so half of the
links is short.

Whether the NVLink switch reduces (NVLS) is judged on a single machine, by its run with NCCL's own choice of algorithm: 480
GB/s (H100), 482 (H200) and 846 (B200) where it does, and a ring's where it does not. Nobody publishes that run of B300, or of
four GB200 or GB300 (Azure's of GB200 is a ring): preview and verdict say `unknown`. Between machines it cannot be seen, and
hardly matters: the rails bound both ways (p5en on 4 nodes: 369 by NCCL's choice, 365 by a ring, in the table).

Where NVLink joins the nodes of a rack (GB200, GB300), two things are measured: the rails, by a plan that keeps NCCL to them,
and NVLink between the nodes, by the run `nvl`. Rows of the second are held against a share of one GPU's NVLink rate: 0.85 for
all-reduce, 0.63 for all-gather and 0.59 for all-to-all.

Where switches between the nodes reduce (SHARP), rails carry half of a ring's bytes, so the ring's gate alone would pass them at
half of their rate: such a run, known by NCCL's words and by the bytes, must also reach 0.53 of what rails and NVLink allow then
(H100: 418 GB/s on 8 nodes).

On two nodes NCCL's own choice is a tree, which leaves the rails fewer bytes than a ring: such a number is above what the rails
carry, and says little of them. busbar forces the ring there, and refuses another algorithm unless the stack sets its own limit.
Seed 000's own headline, 87.2 GB/s at 1 GiB on two machines with 200 GB/s of rails each, is 44 % of the wire: it is short by
this gate, which asks for 160.

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
    """Tell whether `row` is about NVLink between the nodes of a rack, which has a separate run."""
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
