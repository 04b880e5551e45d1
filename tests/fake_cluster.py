"""A cluster in which each run of a program returns what a test sets: for tests of the runner's steps and printed line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measurement_line import fits_its_type

from benchmarks.launch.protocol import Launch, Measure, Node, Ranks, Step
from benchmarks.runner import fanout, measure, program_run, transcript
from benchmarks.runner.refusal import Refusal

NODES = [Node("a", "10.0.0.1"), Node("b", "10.0.0.2")]


def placement(busbw_gb_s: float, time_us: float = 10.0) -> transcript.Placement:
    return transcript.Placement(time_us, busbw_gb_s / 2, busbw_gb_s, 0)


def row(size_bytes: int, busbw_gb_s: float, in_place: float = 0, rank_us: tuple[float, ...] = ()) -> transcript.Row:
    spread = transcript.Spread(20, 10.0, 12.0, 1.5, rank_us) if rank_us else None
    second = placement(in_place) if in_place else None
    return transcript.Row(size_bytes, size_bytes // 4, "float", "sum", placement(busbw_gb_s), second, spread)


def read(*rows: transcript.Row, ranks: int = 4, **more: Any) -> transcript.Transcript:
    devices = tuple(transcript.Device(rank, "ab"[rank // 2], rank % 2, "H100") for rank in range(ranks))
    found = transcript.Transcript("all_reduce", rows, devices, "2.17", "2.28.9", None, "IB", None, None, ())
    return found._replace(every=rows, **more)


def run(*rows: transcript.Row, problems: tuple[str, ...] = (), seconds: float = 1.234, **more: Any) -> program_run.Run:
    return program_run.Run(read(*rows, **more), list(problems), "printed\n", seconds)


def step(name: str, stage: str = "all", **more: Any) -> Step:
    ranks = Ranks(f"/bin/{name}", ["-b", "8", "-e", "1024"], {"NCCL_SOCKET_IFNAME": "=eth0", "NCCL_DEBUG": "INFO"}, 2)
    return Step(name, stage, "all_reduce", ranks, f"/tmp/{name}.json", **more)  # noqa: S108 - the file is never opened


class Cluster:
    """Two nodes as the runner sees them; `runs` has the result of each step, `inventory` the report of each node."""

    def __init__(self, patch: pytest.MonkeyPatch, folder: Path) -> None:
        self.folder, self.said, self.ran = folder, [], []
        self.inventory = {node.name: self.facts(node.name) for node in NODES}
        self.runs: dict[str, Any] = {}
        self.silent: dict[str, str] = {}
        self.changed: list[str] = []
        self.unreachable: list[str] = []
        self.asked: list[str] = []
        patch.setenv("HOME", str(folder))
        (folder / ".busbar").mkdir()
        patch.setattr(fanout, "keep", lambda _: None)
        patch.setattr(fanout, "each", self._each)
        patch.setattr(measure.checksums, "changed", lambda *_: self.changed)
        patch.setattr(measure.reachability, "unreachable", lambda *_: self.unreachable)
        patch.setattr(measure.laggards, "named", lambda *_: ["rank 3 on b is stopped"])
        patch.setattr(measure.program_run, "run", self._run)

    def facts(self, name: str) -> dict[str, Any]:
        return {
            "gpus": ["H100", "H100"],
            "driver": "580.1",
            "os": "Ubuntu",
            "kernel": "6.8",
            "machine": f"serial-{name}",
            "clock": time.time(),
            "interfaces": {"ib0": {"up": True, "tx_bytes": 1, "mtu": 4200}},
            "hca": {"mlx5_0": {"netdev": "ib0", "tx_bytes": 5, "rate": "400 Gb/sec", "events": {}, "active": True}},
            "nvlink_tx_bytes": None,
            "busy": [],
        }

    def _each(self, nodes: list[Node], command: str, *_: Any) -> list[Any]:
        self.asked.append(command)
        return [
            SimpleNamespace(status=1, why=self.silent[node.name], out="")
            if node.name in self.silent
            else SimpleNamespace(status=0, why="", out="a banner\n" + json.dumps(self.inventory[node.name]))
            for node in nodes
        ]

    def _run(self, job: program_run.Job, here: str, _see: Any) -> program_run.Run:
        self.ran.append(job)
        found = self.runs[job.name]
        if isinstance(found, Refusal):
            Path(here, job.name + ".txt").write_text("x" * (measure.line_size.jobs.LINE_LIMIT_BYTES // 2) + "its last words\n")
            job.before_end()
            raise found
        return found

    def request(self, *steps: Step, **changes: Any) -> Measure:
        launch = Launch("mpirun", "/mpi", "numa", {}, str(self.folder / "run/hosts"), [])
        deciding = next((one.name for one in steps if one.decides), "")
        results = str(self.folder / "results")
        asked = Measure("r1", 600, NODES, 2, ["mlx5_0"], ["ib0"], deciding, launch, list(steps), results, "/logs")
        return asked._replace(**changes)

    def line(self, *steps: Step, **changes: Any) -> dict[str, Any]:
        found = measure.work(self.request(*steps, **changes), str(self.folder), self.said.append)
        assert fits_its_type(found)
        return found


DECIDING, LOOKS = step("all", decides=True, silence_s=30, cycles=3), step("looks", "looks")
