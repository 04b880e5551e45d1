"""The line that the runner prints after a healthy measurement; tests damage copies of the line."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.judge.transport import least_bytes
from benchmarks.launch.lines import MeasureLine, ScheduleLine, SearchLine
from benchmarks.launch.protocol import BuildLine, Node, Refused, load
from benchmarks.plan import ceiling
from benchmarks.plan.asked import Asked
from benchmarks.plan.collectives import collective
from benchmarks.plan.ranks import Place
from benchmarks.plan.steps import FREE, LOOKS, NODE, NVL, RAILS, SPREAD, nvls_gb_s, steps
from catalogue import SHAPES
from config.measure import Measure, Sizes

GPU4 = SHAPES["BM.GPU4.8"]


def a_plan(begin_bytes: int = 8, end_bytes: int = 64 * 1024**2, **changes: Any) -> Measure:
    """Return a plan of all-reduces, in which `changes` replace settings."""
    sizes = Sizes(from_bytes=begin_bytes, to_bytes=end_bytes)
    return Measure(**{"collectives": ("all_reduce",), "iterations": 1, "warmup": 1, "sizes": sizes} | changes)


PLAN = a_plan()
ASKED = Asked(PLAN, GPU4, 2)
#: The report of a finished build.
BUILT = BuildLine(
    run_id="build1",
    home="/home/opc",
    shared="",
    binaries="/home/opc/.busbar/tests/x",
    hashes={"all_reduce_perf": "0" * 64},
    mpi_home="/usr/mpi/gcc/openmpi-4.1.2a1",
    cuda_home="/usr/local/cuda-11.6",
    nccl_home="/usr",
    versions={"nccl_tests": "2.19.6"},
    seconds=1.0,
)
EVIDENCE = {"path": "/home/opc/.busbar/runs/x/y.txt.gz", "sha256": "0" * 64}


def row(size_bytes: int, busbw_gb_s: float, wrong: int | None = 0, name: str = "all_reduce", ranks: int = 16) -> list[Any]:
    """Return one row of a step, as the line packs rows."""
    algbw_gb_s = busbw_gb_s / collective(name).busbw_factor(ranks)
    moved = size_bytes * collective(name).algbw_share(ranks)
    timing = [moved / (algbw_gb_s * 1e3) if algbw_gb_s else 10.0, algbw_gb_s, busbw_gb_s, wrong]
    return [size_bytes, timing, list(timing)]


def document(asked: Asked = ASKED, share: float = 0.98, scale: int = 4000) -> dict[str, Any]:
    """Return the line of a run in which every step reaches `share` of the ceiling at its largest size.

    No two sizes, rails, nodes or groups have the same number, so that a test notices if one is mistaken for another.
    """
    found = []
    for step in steps(asked.plan, asked.shape, asked.nodes):
        ranks = asked.ranks // step.groups
        sizes = asked.plan.sizes_of(step.collective) if step.begin_bytes != step.end_bytes else (step.end_bytes,)
        top = ceiling.bound_gb_s(step.collective, asked.shape, asked.nodes, scale) or 0.05
        speed = share * top / (asked.shape.gpus if step.stage == RAILS else 1)
        if step.stage == NVL:
            speed = share * 0.95 * (asked.shape.nvlink_gbytes_per_s or 0)
        if step.stage == FREE and asked.nodes == 1:
            speed = nvls_gb_s(asked.shape, asked.plan) or speed
        one = {"name": step.name, "stage": step.stage, "collective": step.collective, "program": step.collective}
        one |= {
            "rows": [
                row(
                    collective(step.collective).row_bytes(size, ranks),
                    speed * (0.3 + 0.7 * number / len(sizes)),
                    0,
                    step.collective,
                    ranks,
                )
                for number, size in enumerate(sizes, 1)
            ],
            "ranks": asked.ranks,
            "hosts": asked.nodes,
            "problems": [],
            "seconds": 1.0,
        }
        if step.groups > 1:
            inside = share * (ceiling.nvlink_gb_s(asked.shape, scale) or 0.1)
            reached = inside if step.stage == NODE else speed
            one["groups_gb_s"] = [reached * (1 - 0.001 * group) for group in range(step.groups)]
        if step.stage == LOOKS:
            one["rows"] = [row(sizes[0], speed, None, step.collective, ranks)]
            one["looks_gb_s"] = [speed * (1 - 0.001 * look) for look in range(step.cycles)]
        if step.stage == SPREAD:
            one["spread"] = {"iterations": 20, "p50_us": 1000.0, "p99_us": 1050.0, "cv_pct": 1.0}
        found.append(one)
    hcas = asked.shape.rdma.hca if asked.shape.rdma else ()
    each = int(1.1 * least_bytes(asked.plan, asked.shape, asked.nodes) / max(len(hcas), 1)) if asked.nodes > 1 else 0
    names = [f"inst-{index}" for index in range(asked.nodes)]
    return {
        "schema": 2,
        "kind": "measure",
        "run_id": "abc",
        "started": "2026-01-02T03:04:05Z",
        "steps": found,
        "rehearsal": {"scale": scale} if scale != 1 else None,
        "versions": {"nccl": "2.28.3", "nccl_tests": "2.19.6", "driver": "535.1", "os": "Linux", "kernel": "6"},
        "gpu": asked.shape.gpu,
        "inventory": {"differences": []},
        "transport": {
            "tx_bytes": {
                name: {hca: each + 1000 * node + rail for rail, hca in enumerate(hcas)} | {"eth0": 5000 + node}
                for node, name in enumerate(names)
            },
            "netdevs": {},
            "hcas": list(hcas),
            "nvlink_tx_bytes": None,
            "events": [],
            "uncounted_ports": [],
            "said": {"networks": {"IB": asked.ranks}, "devices": {}, "channels": {"NET/IB/0": 4}, "gpudirect": {"GDRDMA": 4}},
            "network": "NET/IB",
        },
        "evidence": dict(EVIDENCE),
        "seconds": 9.0,
    }


def fits_its_type(line: Any) -> bool:
    """Return True if a line, given as text or plain data, fits the type that `benchmarks.launch` defines for its kind of line.

    Raises:
        UnfitError: the line does not fit its type.
    """
    found = json.loads(line) if isinstance(line, str) else line
    kinds = {"measure": MeasureLine, "search": SearchLine, "schedule": ScheduleLine, "build": BuildLine}
    load(Refused if set(found) == set(Refused._fields) else kinds[found["kind"]], found)
    return True


def place(asked: Asked = ASKED) -> Place:
    """Return the place of a run: its nodes, their network, the build and the network interfaces."""
    nodes = tuple(Node(f"inst-{number}", f"10.0.1.{number + 2}") for number in range(asked.nodes))
    return Place(nodes, "10.0.1.0/24", BUILT, asked.interfaces)


def line(asked: Asked = ASKED, **changes: Any) -> str:
    """Return the line of a healthy run as text, with `changes` at its top level."""
    return json.dumps(document(asked) | changes)


def with_step(which: str, /, asked: Asked = ASKED, **changes: Any) -> str:
    """Return the line of a healthy run as text, with `changes` in the step `which`."""
    found = document(asked)
    (step,) = [one for one in found["steps"] if one["name"] == which]
    step |= changes
    return json.dumps(found)
