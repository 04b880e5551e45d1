"""The inputs that the fuzzer damages: real and generated measurements, healthy and slow, each as a set of documents.

The documents are the text and the JSON file of each step, and a frame: the part of the runner's JSON line that does not come
from these files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.judge.transport import least_bytes
from benchmarks.plan import ceiling
from benchmarks.plan.asked import Asked
from benchmarks.plan.collectives import collective
from benchmarks.plan.steps import FREE, LOOKS, NODE, RAILS, Step, steps
from benchmarks.runner import measure, program_run
from benchmarks.runner.refusal import Refusal
from benchmarks.runner.transcript import parse_text
from catalogue import SERVERS, SHAPES
from config.accept import Accept
from config.measure import Measure, Sizes
from tools.fuzz.printed import Printed

_TRANSCRIPTS = Path(__file__).parents[2] / "tests" / "golden" / "transcripts"
_MIB = 1024**2
FRAME = "frame"
LINE = "line"
SEARCH = "search"
#: The text of each document by its name. Some measurements have a `STEP.txt` and a `STEP.json` for each step, and `frame`.
#: The other measurements have only `line`, and `search` if there was a search.
Documents = dict[str, str]


@dataclass(frozen=True)
class Base:
    """A measurement to be damaged.

    Attributes:
        name: a short description of the measurement.
        asked: the request for this measurement; the judge compares the measurement with this request.
        documents: the measurement's documents.
        healthy: whether the measurement passes as long as it is not damaged.
    """

    name: str
    asked: Asked
    documents: Documents
    healthy: bool


def line_of(documents: Documents, asked: Asked) -> str:
    """Return the runner's JSON line for these documents, made by the runner's own functions."""
    if LINE in documents:
        return documents[LINE]
    found, scale = [], None
    for step in steps(asked.plan, asked.shape, asked.nodes):
        about = {"name": step.name, "stage": step.stage, "collective": step.collective}
        text, exact = documents.get(f"{step.name}.txt", ""), documents.get(f"{step.name}.json")
        try:
            compared = program_run.compared(text, OSError("no file") if exact is None else exact, step.name, step.cycles)
        except Refusal as refusal:
            found.append(about | {"failed": str(refusal)})
            continue
        run = program_run.Run(*compared, text, 1.0)
        scale = run.transcript.scale or scale
        found.append(about | measure.numbers(run, step.stage, step.groups, asked.ranks))
    try:
        frame = json.loads(documents[FRAME])
    except (ValueError, RecursionError):
        return documents[FRAME]
    measured = {"steps": found, "rehearsal": {"scale": scale} if scale else None}
    return json.dumps({**frame, **measured} if isinstance(frame, dict) else frame)


def bases() -> list[Base]:
    """Return all measurements to damage."""
    found = [_real_server(), _real_pair(), *_generated()]
    lines = [replace(one, name=f"{one.name}, line", documents={LINE: line_of(one.documents, one.asked)}) for one in found]
    return [*found, *lines, *_retests({one.name: one for one in lines})]


def _retests(lines: dict[str, Base]) -> list[Base]:
    """Return short measurements with a retest each.

    Two retests are healthy, and for one of these two the search blames a node. The others are as bad as the first run.
    """
    healthy, short = lines["generated, healthy, line"], lines["generated, the gate's runs at half the rate, line"]
    again, asked = json.loads(healthy.documents[LINE]), healthy.asked
    line = json.loads(healthy.documents[LINE])
    for step in line["steps"]:
        if step["name"] == "spread":
            step["spread"]["cv_pct"] = 60.0
    once = json.dumps(line)
    rerun = {"steps": [one for one in again["steps"] if one["name"] == "spread"], "evidence": again["evidence"], "failed": None}
    still = {**rerun, "steps": [one for one in line["steps"] if one["name"] == "spread"]}
    named = {
        "kind": "node",
        "nodes": ["inst-1"],
        "rails": [],
        "ratio": 0.5,
        "flapping": False,
        "confidence": 0.9,
        "evidence": [],
    }
    blamed = {"needed": True, "culprits": [named]}
    slow = {**rerun, "steps": json.loads(short.documents[LINE])["steps"][2:4]}
    return [
        Base("a healthy retest", asked, {LINE: once, SEARCH: _search(rerun)}, healthy=True),
        Base("a retest as bad as the first run", asked, {LINE: once, SEARCH: _search(still)}, healthy=False),
        Base("a retest beside a bad node", asked, {LINE: once, SEARCH: _search(rerun, **blamed)}, healthy=False),
        Base("a retest as slow as the first run", asked, {LINE: short.documents[LINE], SEARCH: _search(slow)}, healthy=False),
    ]


def _search(again: dict[str, Any], **changes: Any) -> str:
    found = {"schema": 1, "kind": "search", "run_id": "abc", "needed": False, "culprits": [], "complete": True, "failed": None}
    return json.dumps({**found, "summary": "nothing is slow", "again": again, **changes})


def _frame(asked: Asked, **transport: Any) -> str:
    hcas = asked.shape.rdma.hca if asked.shape.rdma else ()
    each = int(1.1 * least_bytes(asked.plan, asked.shape, asked.nodes) / max(len(hcas), 1)) if asked.nodes > 1 else 0
    names = [f"inst-{index}" for index in range(asked.nodes)]
    return json.dumps(
        {
            "schema": 2,
            "kind": "measure",
            "run_id": "abc",
            "started": "2026-01-02T03:04:05Z",
            "versions": {"nccl": "2.28.9", "nccl_tests": "2.19.6", "driver": "570.1", "os": "Linux", "kernel": "6"},
            "gpu": asked.shape.gpu,
            "inventory": {"differences": []},
            "transport": {
                "tx_bytes": {name: dict.fromkeys(hcas, each) | {"eth0": 5000} for name in names},
                "netdevs": {},
                "hcas": list(hcas),
                "nvlink_tx_bytes": None,
                "events": [],
                "uncounted_ports": [],
                "said": {"networks": {"IB": 8}, "devices": {}, "channels": {"NET/IB/0": 4}, "gpudirect": {"GDRDMA": 4}},
                "network": "IB",
            }
            | transport,
            "evidence": {"path": "/home/opc/.busbar/runs/x/y.txt.gz", "sha256": "0" * 64},
            "seconds": 9.0,
        }
    )


def _real_server() -> Base:
    """Two H200 of one server: the text and JSON file that nccl-tests wrote."""
    plan = Measure(collectives=("all_reduce",), looks=0, spread_iterations=0)
    asked = Asked(plan, replace(SERVERS["HGX-H200.8"], gpus=2), 1, accept=Accept(allow_skipped=("looks", "spread")))
    frame = _frame(asked, nvlink_tx_bytes={"least": 10**13}, said={"channels": {"P2P/CUMEM": 16}})
    documents = {f"all_reduce.{end}": (_TRANSCRIPTS / f"h200x2.{end}").read_text() for end in ("txt", "json")}
    return Base("a real server", asked, {**documents, FRAME: frame}, healthy=True)


def _real_pair() -> Base:
    """Two A100 nodes at 44 % of line rate: the text is real, and the JSON file is generated from the rows of the text."""
    plan = Measure(collectives=("all_reduce",), sizes=Sizes(from_bytes=64, to_bytes=1024 * _MIB), looks=0, spread_iterations=0)
    asked = Asked(plan, SHAPES["BM.GPU4.8"], 2, accept=Accept(allow_skipped=("looks", "spread")))
    text = (_TRANSCRIPTS / "oci-2xGPU4.8-ol7.txt").read_text()
    (real,) = parse_text(text)
    printed = _whole(asked, 1.0)
    rows = tuple((row.size_bytes, row.out_of_place.busbw_gb_s or 0.01) for row in real.rows if row.out_of_place)
    deciding = replace(printed["all_reduce"], rows=rows)
    return Base("real A100 nodes", asked, _documents(asked, printed | {"all_reduce": deciding}), healthy=False)


def _generated() -> list[Base]:
    """Return measurements of two collectives on H100 nodes: one measurement on two nodes, the others on four.

    Two of these measurements are healthy; each of the others has one fault.
    """
    sizes = Sizes(from_bytes=1024 * _MIB, to_bytes=8192 * _MIB)
    plan = Measure(collectives=("all_reduce", "alltoall"), sizes=sizes)
    asked = Asked(plan, SHAPES["BM.GPU.H100.8"], 4)
    two = replace(asked, nodes=2)
    healthy = _whole(asked, 0.93)
    slow = _whole(asked, 0.5)
    decides = {name: printed for name, printed in slow.items() if name == "all_reduce" or name.startswith(LOOKS)}
    at_times = {name: _with_slow_looks(printed) for name, printed in healthy.items() if name.startswith(LOOKS)}
    rails = SHAPES["BM.GPU.H100.8"].rdma
    frame = json.loads(_frame(asked))
    for sent in frame["transport"]["tx_bytes"].values():
        moved = sum(sent.values())
        sent.update(dict.fromkeys(rails.hca if rails else (), 0), eth0=moved)
    one = healthy["node"]
    inside = replace(
        one, rank_shares=tuple(share * (1.6 if rank // 8 == 1 else 1) for rank, share in enumerate(one.rank_shares))
    )
    return [
        Base("generated, healthy", asked, _documents(asked, healthy), healthy=True),
        Base("generated, two healthy nodes", two, _documents(two, _whole(two, 0.93)), healthy=True),
        Base("generated, all at half the rate", asked, _documents(asked, slow), healthy=False),
        Base("generated, the gate's runs at half the rate", asked, _documents(asked, healthy | decides), healthy=False),
        Base("generated, slow at times", asked, _documents(asked, healthy | at_times), healthy=False),
        Base("generated, one slow node", asked, _documents(asked, healthy | {"node": inside}), healthy=False),
        Base("generated, over TCP", asked, _documents(asked, healthy | decides) | {FRAME: json.dumps(frame)}, healthy=False),
        Base(
            "generated, slow all-to-all",
            asked,
            _documents(asked, healthy | {"alltoall": _at(healthy["alltoall"], 0.2)}),
            healthy=False,
        ),
    ]


def _documents(asked: Asked, printed: dict[str, Printed]) -> Documents:
    found = {f"{name}.txt": one.text() for name, one in printed.items()}
    return found | {f"{name}.json": one.json() for name, one in printed.items()} | {FRAME: _frame(asked)}


def _whole(asked: Asked, share: float) -> dict[str, Printed]:
    """Return the output of each step of a run; the busbw of the largest message is about `share` times the step's ceiling."""
    return {step.name: _step(step, asked, share) for step in steps(asked.plan, asked.shape, asked.nodes)}


def _step(step: Step, asked: Asked, share: float) -> Printed:
    shape, members = asked.shape, asked.ranks // step.groups
    bound = ceiling.bound_gb_s(step.collective, shape, asked.nodes) or 100.0
    if step.stage == NODE:
        bound = 0.85 * (ceiling.nvlink_gb_s(shape) or 100.0)
    elif step.stage == RAILS:
        bound = (ceiling.ring_gb_s(shape, asked.nodes) or 100.0) / shape.gpus
    elif step.stage == FREE:
        bound *= 1.02
    sizes = asked.plan.sizes_of(step.collective) if step.begin_bytes != step.end_bytes else (step.end_bytes,)
    rows = tuple(
        (collective(step.collective).row_bytes(size, members), share * bound * (0.9 + 0.1 * (number + 1) / len(sizes)))
        for number, size in enumerate(sizes)
    )
    ranks = tuple((f"inst-{rank // shape.gpus}", rank % shape.gpus) for rank in range(asked.ranks))
    each = tuple(1 + 0.001 * (rank % 5) for rank in range(asked.ranks)) if step.one_by_one else ()
    return Printed(step.collective, ranks, shape.gpu, rows * step.cycles, members, each)


def _at(printed: Printed, share: float) -> Printed:
    return replace(printed, rows=tuple((size, share * busbw) for size, busbw in printed.rows))


def _with_slow_looks(printed: Printed) -> Printed:
    """Return `printed` with every third look at half the rate."""
    rows = tuple((size, busbw / 2 if number % 3 == 0 else busbw) for number, (size, busbw) in enumerate(printed.rows))
    return replace(printed, rows=rows)
