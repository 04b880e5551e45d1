"""Compare a pasted nccl-tests log, from any cluster, with a shape and a number of nodes; print a sentence and a picture.

    python -m tools.explain LOG --shape BM.GPU.H100.8 --nodes 4

No cluster or account is needed. A log by itself proves neither the transport nor a pass: it can only show that a run was as
fast as on a healthy fabric.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.judge import arithmetic
from benchmarks.plan import ceiling
from benchmarks.plan.collectives import COLLECTIVES
from benchmarks.plan.fractions import fraction, in_network
from benchmarks.plan.gate import gate
from benchmarks.plan.size_text import size_text
from benchmarks.runner.transcript import parse_text
from catalogue import SERVERS, SHAPES, nearest
from catalogue.aws.instances import INSTANCES
from config.measure import Measure, Sizes

if TYPE_CHECKING:
    from benchmarks.runner.transcript import Row, Transcript
    from catalogue import Shape

_WIDTH, _SHOWN = 40, 16
#: NCCL's log text for a connection to switches that reduce between the nodes.
_SWITCHES = "via COLLNET/"
#: nccl-tests prints two decimals: below this size, busbw has too few digits for a comparison with algbw.
_EXACT_BYTES = 1024**2


def explain(text: str, shape: Shape, nodes: int) -> str:
    """Return the meaning of the last run in `text` for `nodes` nodes of `shape`."""
    runs = [run for run in parse_text(text) if run.rows]
    if not runs:
        return "the log contains no row of nccl-tests; paste the whole table with its header"
    run = runs[-1]
    name = run.collective or "all_reduce"
    if name not in COLLECTIVES:
        return f"the log is of {name}, a collective that busbar does not know"
    rows = [row for row in run.rows if row.out_of_place is not None]
    odd = [*run.problems, *_contradictions(run, rows, name, nodes * shape.gpus)]
    switches = _SWITCHES in text
    lines = [_sentence(rows[-1], name, shape, nodes, switches=switches) if rows else "the log has no out-of-place numbers"]
    lines += [f"  - {sentence}" for sentence in odd]
    lines.append("  - a log shows no byte counters, so it is not proven that the rails carried the bytes" + _network(run))
    return "\n".join([*lines, "", *_picture(rows, name, shape, nodes)])


def _sentence(row: Row, name: str, shape: Shape, nodes: int, *, switches: bool) -> str:
    assert row.out_of_place is not None  # noqa: S101 - the caller passes only such rows
    reached, end = row.out_of_place.busbw_gb_s, row.size_bytes
    whole = max(end // 4, 1) * 4
    plan = Measure(collectives=(name,), sizes=Sizes(from_bytes=whole, to_bytes=whole))  # type: ignore[arg-type]
    bound = gate(plan, shape, nodes)
    ring = ceiling.bound_gb_s(name, shape, nodes)
    said = f"{name} reached {reached:.4g} GB/s at {size_text(end)} on {nodes} x {shape.name}"
    most = ceiling.in_network_gb_s(shape, nodes) if switches and name == "all_reduce" else None
    if ring is not None and most is not None and ceiling.ABOVE * ring < reached <= ceiling.ABOVE * most:
        said += f", more than a ring can carry over the rails ({ring:.4g}): switches between nodes did the reduction (CollNet)"
        share = fraction(end, in_network(shape))
        if share is None:
            return f"{said}; no source publishes what a healthy run reaches in this case"
        word = "as fast as a healthy run" if reached >= share * most else "short"
        return f"{said}: {word}; {share:g} of what rails and NVLink allow in this case ({most:.4g}) is required"
    if ring is not None and nodes > 1 and reached > ceiling.ABOVE * ring:
        return (
            f"{said}, more than a ring can carry over the rails ({ring:.4g}): NCCL chose a tree or the bytes went another way, "
            "so the number says little about the rails; measure again with NCCL_ALGO=Ring"
        )
    if bound.limit_gb_s is None:
        return f"{said}; there is no gate: {bound.why}"
    word = "as fast as a healthy run" if reached >= bound.limit_gb_s else "short"
    return f"{said}: {word}; the gate requires {bound.limit_gb_s:.4g}, {bound.why}"


def _contradictions(run: Transcript, rows: list[Row], name: str, ranks: int) -> list[str]:
    found = []
    listed = {(one.host, one.device) for one in run.devices}
    if listed and len(listed) != ranks:
        found.append(f"the run used {len(listed)} GPUs, but the given nodes of this shape have {ranks}")
    wrong = sum(place.wrong or 0 for row in rows for place in (row.out_of_place, row.in_place) if place)
    if wrong:
        found.append(f"{wrong} elements arrived with wrong values")
    last = [(row.size_bytes, row.out_of_place) for row in rows[-1:] if row.size_bytes >= _EXACT_BYTES and row.out_of_place]
    packed = [
        {"size_bytes": end, "out_of_place": place._asdict(), "in_place": None} for end, place in last if place.algbw_gb_s > 1
    ]
    return [*found, *(f"the row {sentence}" for sentence in arithmetic.problems(packed, name, ranks))]


def _network(run: Transcript) -> str:
    return f"; NCCL named {run.network}" if run.network else ""


def _picture(rows: list[Row], name: str, shape: Shape, nodes: int) -> list[str]:
    """Return a bar for each of the largest sizes, with a mark at the busbw of a healthy fabric."""
    shown = rows[-_SHOWN:]
    expected = ceiling.predicted_curve(shape, nodes, tuple(row.size_bytes for row in shown), name)
    numbers = [row.out_of_place.busbw_gb_s for row in shown if row.out_of_place]
    top = max([*numbers, *expected.values(), 1e-9])
    lines = []
    for row, reached in zip(shown, numbers, strict=True):
        bar = list(("#" * round(_WIDTH * reached / top)).ljust(_WIDTH + 1))
        if row.size_bytes in expected:
            bar[round(_WIDTH * expected[row.size_bytes] / top)] = "|"
        lines.append(f"{size_text(row.size_bytes):>12} {''.join(bar)} {reached:.4g}")
    return [*lines, f"{'':>12} # measured, | about what a healthy fabric reaches, GB/s"]


def main(argv: list[str]) -> int:
    """Explain the log that `argv` names; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.explain", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("log", help="file with what nccl-tests printed; - reads standard input")
    parser.add_argument("--shape", required=True, help="row of the catalogue, such as BM.GPU.H100.8, DGX-H100 or p5.48xlarge")
    parser.add_argument("--nodes", type=int, required=True)
    asked = parser.parse_args(argv)
    known = {**SHAPES, **SERVERS, **{name: row.shape() for name, row in INSTANCES.items()}}
    if asked.shape not in known or not known[asked.shape].gpus or asked.nodes < 1:
        near = ", ".join(nearest(asked.shape, known))
        sys.stderr.write(f"--shape {asked.shape} --nodes {asked.nodes}: name a GPU shape, and 1 node or more; try {near}\n")
        return 2
    try:
        text = sys.stdin.read() if asked.log == "-" else Path(asked.log).read_text(errors="replace")
    except OSError as error:
        sys.stderr.write(f"{asked.log}: {error.strerror}\n")
        return 2
    sys.stdout.write(explain(text, known[asked.shape], asked.nodes) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
