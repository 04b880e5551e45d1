"""Write docs/published-rows.md: bus bandwidths that others published for healthy machines, and how busbar judges each of them.

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

The table lists bus bandwidths, in decimal GB/s, of healthy machines, and shows how busbar judges each number. The rows of two
H200 were measured for busbar; other people published all other rows. The column *gate* has the busbw that the measurement would
have to reach, or why a preview refuses the measurement. The rows and their sources come from `catalogue/published.py`. The
gate's fractions
(`benchmarks/plan/fractions.py`) were chosen from these rows. `python -m tools.published_rows` writes this page.

`tests/unit/test_published.py` takes each row that a preview accepts, and judges it as a complete measurement. Then the test
judges variants of the row with one fault each:

- A row of several machines over rails has four variants: half of its rails, TCP, no GPUDirect RDMA, and a slow node.
- A row of one machine has two variants: half of its NVLinks, and main memory instead of NVLink.

All these variants are short, and the reason names the rails, the interface, the connections, the node, NVLink or the path.

**Inside one machine**, the required share of NVLink's rate depends on the collective and on the generation of NVLink. A100 has
the third generation, H100 and H200 have the fourth, and B200, B300, GB200 and GB300 have the fifth. Nobody has published
numbers for V100, or for every collective of A100 and H100. Without a number there is no gate, and a preview says so. The gate
is 6 to 12 % below the published number, so a machine with half of its NVLinks is short.

**Reduction in the NVLink switch (NVLS)** is judged on a single machine, by its run with NCCL's own choice of algorithm. If the
switch does the reduction, the published numbers are 480 GB/s (H100), 482 (H200) and 846 (B200). If it does not, the run is
only as fast as a ring. Nobody has published a run with NVLS for B300, or for four GB200 or GB300; Azure's number for GB200
comes from a ring. For these machines preview and result say so, and the check `nvls` is skipped. Between machines, NVLS cannot
be seen and hardly matters, because the rails limit both algorithms. In the table, p5en on 4 nodes reaches 369 by NCCL's choice
and 365 by a ring.

**On racks where NVLink connects the nodes** (GB200, GB300), two things are measured. All steps except `nvl`
measure the rails, and the run `nvl` measures NVLink between the nodes. Rows of the run `nvl` are compared with a share of one
GPU's NVLink rate: 0.85 for all-reduce, 0.63 for all-gather and 0.59 for all-to-all.

**If switches between the nodes do the reduction (SHARP)**, the rails carry half of a ring's bytes, so rails at half of their
rate would still pass the ring's gate. NCCL's log and the byte counters show such a run. The run must also reach 0.53 of what
the rails and NVLink allow in this case (H100: 417 GB/s on 8 nodes).

**On two nodes** NCCL's own choice is a tree, which sends fewer bytes over the rails than a ring does. The busbw of a tree can
exceed the rate of the rails, so it says little about them. busbar therefore requests a ring on two nodes, and refuses another
algorithm unless the stack sets its own gate. A tutorial of oracle-japan/ocitutorials shows 87.2 GB/s at 1 GiB on
two machines with 200 GB/s of rails each, which is 44 % of the line rate. The gate requires 160, so the tutorial's result is
short.

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
    """Tell whether `row` measures NVLink between the nodes of a rack; busbar measures this NVLink in a separate run."""
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
