"""What a measurement's line has of its runs, and what is refused before the first one; nodes and runs are only answers."""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from a_line import fits_its_type

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
    return Step(name, stage, "all_reduce", ranks, f"/tmp/{name}.json", **more)  # noqa: S108 - never opened


class Cluster:
    """Two nodes as the runner sees them; `runs` has what each step gives, `inventory` what each node says."""

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


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    return Cluster(monkeypatch, tmp_path)


DECIDING, LOOKS = step("all", decides=True, silence_s=30, cycles=3), step("looks", "looks")


def test_the_line_has_rows_ranks_versions_machines_and_a_hash_of_the_whole_output(cluster):
    cluster.runs = {"all": run(row(8, 1.0, in_place=2.0), row(1024, 3.0)), "looks": run(row(1024, 3.5), row(1024, 3.25))}
    found = cluster.line(DECIDING, LOOKS)
    first, looks = found["steps"]
    assert first == {
        "name": "all",
        "stage": "all",
        "collective": "all_reduce",
        "program": "all_reduce",
        "rows": [[8, [10.0, 0.5, 1.0, 0], [10.0, 1.0, 2.0, 0]], [1024, [10.0, 1.5, 3.0, 0], None]],
        "ranks": 4,
        "hosts": 2,
        "problems": [],
        "seconds": 1.23,
    }
    assert looks["looks_gb_s"] == [3.5, 3.25]
    assert "looks_gb_s" not in first
    assert (found["schema"], found["kind"], found["run_id"], found["rehearsal"]) == (2, "measure", "r1", None)
    versions = {"nccl": "2.28.9", "nccl_tests": "2.17", "driver": "580.1", "os": "Ubuntu", "kernel": "6.8"}
    assert found["versions"] == versions
    assert (found["machines"], found["gpu"]) == ({"a": "serial-a", "b": "serial-b"}, "H100")
    assert (found["transport"]["network"], found["transport"]["tx_bytes"]["a"]) == ("IB", {"ib0": 0, "mlx5_0": 0})
    assert found["earlier_looks"] == []
    text = gzip.decompress(Path(found["evidence"]["path"]).read_bytes()).decode()
    assert hashlib.sha256(text.encode()).hexdigest() == found["evidence"]["sha256"]
    assert text.startswith("# busbar step all\nprinted\n# busbar step looks\nprinted\n# busbar step nodes\n")
    assert (cluster.folder / "run/hosts").read_text() == "10.0.0.1 slots=2\n10.0.0.2 slots=2\n"
    assert cluster.line(DECIDING, LOOKS)["earlier_looks"] == [3.5, 3.25]
    assert [job.timeout_s <= 600 and job.argv[0] == "/mpi/bin/mpirun" for job in cluster.ran] == [True] * 4
    assert [(job.silence_s, job.cycles) for job in cluster.ran[:2]] == [(30, 3), (float("inf"), 1)]


def test_any_step_that_states_a_scale_sets_the_rehearsals_scale(cluster):
    cluster.runs = {"all": run(row(8, 1.0)), "looks": run(row(8, 1.0), scale=4000, waited=0.25)}
    found = cluster.line(DECIDING, LOOKS)
    assert found["rehearsal"] == {"scale": 4000}
    assert [one.get("waited") for one in found["steps"]] == [None, 0.25]


def test_if_the_deciding_run_fails_nothing_else_runs_and_its_output_and_late_ranks_are_kept(cluster):
    cluster.runs = {"all": Refusal("all hung"), "looks": run(row(8, 1.0))}
    found = cluster.line(DECIDING, LOOKS)
    assert [one["failed"] for one in found["steps"]] == [
        "all hung; rank 3 on b is stopped",
        "did not run, because all returned nothing",
    ]
    assert cluster.said[-1] == "all hung; rank 3 on b is stopped"
    assert found["versions"]["nccl"] is None
    text = gzip.decompress(Path(found["evidence"]["path"]).read_bytes()).decode()
    assert "its last words\n" in text
    assert (cluster.folder / "all.txt").exists()
    assert len(cluster.ran) == 1


def test_a_step_that_does_not_decide_may_fail_and_the_rest_runs(cluster):
    cluster.runs = {"first": Refusal("it died"), "all": run(row(8, 1.0))}
    found = cluster.line(step("first"), DECIDING)
    assert "failed" not in found["steps"][1]
    assert found["versions"]["nccl"] == "2.28.9"
    cluster.runs = {"all": Refusal("it died"), "looks": run(row(8, 1.0))}
    found = cluster.line(DECIDING._replace(decides=False), LOOKS, deciding="all")
    assert [one.get("failed") for one in found["steps"]] == ["it died; rank 3 on b is stopped", None]


def test_a_node_lost_during_a_failed_run_is_named_and_after_a_good_run_it_is_refused(cluster, monkeypatch):
    real = fanout.each

    def each(nodes: list[Node], command: str, *more: Any) -> list[Any]:
        if "--harvest" in command:
            cluster.silent = {"b": "no route to host"}
        return list(real(nodes, command, *more))

    monkeypatch.setattr(fanout, "each", each)
    cluster.runs = {"all": Refusal("it died")}
    (found,) = cluster.line(DECIDING)["steps"]
    assert found["failed"] == "it died; rank 3 on b is stopped; no inventory from b (no route to host)"
    cluster.silent, cluster.runs = {}, {"all": run(row(8, 1.0))}
    with pytest.raises(Refusal, match=r"^no inventory from b \(no route to host\)$"):
        cluster.line(DECIDING)


def test_every_silent_node_is_named(cluster):
    cluster.silent = {"a": "timed out", "b": "refused"}
    with pytest.raises(Refusal, match=r"^no inventory from a \(timed out\); b \(refused\)$"):
        cluster.line(DECIDING)


def test_an_interface_that_is_down_is_named_and_nccl_takes_another(cluster):
    cluster.runs = {"all": run(row(8, 1.0))}
    cluster.inventory["b"]["interfaces"] = {"ib0": {"up": False, "tx_bytes": 1, "mtu": 4200}}
    found = cluster.line(DECIDING)
    assert found["inventory"]["differences"][0] == "b has no interface ib0 that is up, so NCCL chose one itself"
    assert "NCCL_SOCKET_IFNAME==eth0" not in cluster.ran[-1].argv
    assert "NCCL_DEBUG=INFO" in cluster.ran[-1].argv
    cluster.inventory["b"]["interfaces"] = {"ib0": {"up": True, "tx_bytes": 1, "mtu": 4200}}
    cluster.line(DECIDING)
    assert "NCCL_SOCKET_IFNAME==eth0" in cluster.ran[-1].argv


def test_nodes_with_other_gpus_or_drivers_are_refused_by_name(cluster):
    cluster.inventory["b"]["gpus"] = ["H100"]
    with pytest.raises(Refusal, match=r"^b shows 1 GPUs, but its shape has 2$"):
        cluster.line(DECIDING)
    cluster.inventory["b"] = cluster.facts("b") | {"driver": "570.9"}
    with pytest.raises(Refusal, match=r"^b runs driver 570\.9, a runs 580\.1$"):
        cluster.line(DECIDING)
    assert not cluster.ran


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, "; and 1 more"), (11, "; and 3 more")])
def test_at_most_eight_busy_gpus_or_changed_programs_are_named(cluster, count, more):
    busy = [f"process {number}" for number in range(count)]
    cluster.inventory["a"]["busy"] = busy
    listed = "; ".join(f"a: {one}" for one in busy[:8]) + more
    with pytest.raises(Refusal) as refused:
        cluster.line(DECIDING)
    assert str(refused.value) == f"the GPUs are in use, so nothing was started: {listed}"
    cluster.inventory["a"]["busy"], cluster.changed = [], busy
    with pytest.raises(Refusal) as refused:
        cluster.line(DECIDING)
    named = "; ".join(busy[:8]) + more
    assert str(refused.value) == f"the programs differ from the build on {named}; nothing was started"


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        (["a cannot reach b on TCP"], "a cannot reach b on TCP; SSH works"),
        (["a cannot reach b on TCP", "b cannot reach a on TCP"], "a cannot reach b on TCP and 1 more; SSH works"),
        (["a does not start python"], "a does not start python"),
    ],
)
def test_nodes_that_do_not_reach_each_other_are_refused_with_the_likely_cause(cluster, sentences, said):
    cluster.unreachable = sentences
    with pytest.raises(Refusal) as refused:
        cluster.line(DECIDING)
    assert str(refused.value).startswith(said)
    assert ("a firewall rule is the likely cause" in str(refused.value)) is ("cannot reach" in said)
    assert cluster.said == sentences


def test_a_single_node_has_nobody_to_reach(cluster):
    cluster.unreachable, cluster.runs = ["a cannot reach itself"], {"all": run(row(8, 1.0), ranks=2)}
    assert cluster.line(DECIDING, nodes=NODES[:1])["steps"][0]["ranks"] == 2


def test_the_wait_for_another_measurement_is_reported_once_and_bounded(cluster, monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(measure.time, "monotonic", lambda: clock.now)
    monkeypatch.setattr(measure.time, "sleep", lambda seconds: setattr(clock, "now", clock.now + seconds))

    def refuse(*_: Any) -> None:
        raise BlockingIOError

    monkeypatch.setattr(measure.fcntl, "flock", refuse)
    request = cluster.request(DECIDING, timeout_s=2)
    with pytest.raises(Refusal) as refused, measure.measurement_lock(request, cluster.said.append):
        raise AssertionError
    assert str(refused.value) == "timed out after 2 s, waiting for another measurement on this head node to finish"
    assert cluster.said == ["waiting for another measurement on this head node to finish"]
    assert clock.now == 102.5


@pytest.mark.parametrize(
    ("stage", "rank_us", "groups"),
    [
        ("node", (100.0, 200.0, 400.0, 300.0), [5.12, 2.56]),  # the slowest of ranks 0 and 1, and of 2 and 3
        ("rails", (100.0, 200.0, 400.0, 300.0), [2.56, 3.4133]),  # of 0 and 2, and of 1 and 3
        ("node", (100.0, 200.0, 400.0), None),
        ("node", (0.0, 0.0, 400.0, 300.0), None),
    ],
)
def test_a_groups_number_is_its_slowest_ranks(stage, rank_us, groups):
    found = measure.numbers(run(row(1024000, 1.0, rank_us=rank_us)), stage, 2, 4)
    assert found["groups_gb_s"] == groups
    assert found["spread"] == {"iterations": 20, "p50_us": 10.0, "p99_us": 12.0, "cv_pct": 1.5}
    assert "groups_gb_s" not in measure.numbers(run(row(8, 1.0, rank_us=rank_us)), stage, 1, 4)
    assert "groups_gb_s" not in measure.numbers(run(), stage, 2, 4)
    assert measure.numbers(run(row(8, 1.0)), stage, 2, 4)["groups_gb_s"] is None


def test_at_most_twenty_problems_are_kept_of_at_most_three_hundred_characters_each():
    short, exact, long = "s", "e" * 300, "l" * 301
    kept = measure.numbers(run(problems=(short, exact, long)), "all", 1, 4)["problems"]
    assert kept == [short, exact, "l" * 300 + "..."]
    assert measure.numbers(run(problems=("p",) * 20), "all", 1, 4)["problems"] == ["p"] * 20
    assert measure.numbers(run(problems=("p",) * 23), "all", 1, 4)["problems"] == ["p"] * 20 + ["3 more of the kind"]


def test_commands_can_be_typed_and_the_hosts_come_first(cluster):
    hosts, typed = measure.commands(cluster.request(DECIDING))
    assert hosts == f"cat > {cluster.folder}/run/hosts <<'END'\n10.0.0.1 slots=2\n10.0.0.2 slots=2\nEND"
    assert typed.startswith("/mpi/bin/mpirun --bind-to numa -np 4 -npernode 2")
    assert typed.endswith("/bin/all -b 8 -e 1024")


def test_only_the_output_of_failed_steps_stays_as_a_file_beside_the_evidence(tmp_path):
    for name in ("good", "bad"):
        (tmp_path / f"{name}.txt").write_text(name)
    kept = measure.keep(str(tmp_path), {"good": "1\n", "bad": "2\n", "gone": ""}, ["bad"], "head\n")
    text = "head\n# busbar step good\n1\n# busbar step bad\n2\n# busbar step gone\n"
    assert kept.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert gzip.decompress(Path(kept.path).read_bytes()) == text.encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["bad.txt", f"{kept.sha256}.txt.gz"])
