"""What the line of a measurement says about the runs, and what is refused before the first run; nodes and runs are fakes."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import DECIDING, LOOKS, NODES, Cluster, row, run, step

from benchmarks.launch.lines import ProofsLine
from benchmarks.launch.protocol import Node, Proofs
from benchmarks.runner import evidence, fanout, measure, rail_proofs
from benchmarks.runner.refusal import Refusal

EXACT = (Path(__file__).parents[1] / "golden/transcripts/h200x2.json").read_text()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    return Cluster(monkeypatch, tmp_path)


def test_the_line_has_rows_and_ranks_and_versions_and_machines_and_a_hash_of_the_whole_output(cluster):
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


def test_the_scale_of_a_rehearsal_is_read_from_any_step(cluster):
    cluster.runs = {"all": run(row(8, 1.0)), "looks": run(row(8, 1.0), scale=4000, waited=0.25)}
    found = cluster.line(DECIDING, LOOKS)
    assert found["rehearsal"] == {"scale": 4000}
    assert [one.get("waited") for one in found["steps"]] == [None, 0.25]


def test_after_a_failed_deciding_run_nothing_else_runs_and_the_line_names_the_stopped_rank(cluster):
    cluster.runs = {"all": Refusal("all hung"), "looks": run(row(8, 1.0))}
    found = cluster.line(DECIDING, LOOKS)
    assert [one["failed"] for one in found["steps"]] == [
        "all hung; rank 3 on b is stopped",
        "did not run, because the step all returned nothing",
    ]
    assert cluster.said[-1] == "all hung; rank 3 on b is stopped"
    assert found["versions"]["nccl"] is None
    text = gzip.decompress(Path(found["evidence"]["path"]).read_bytes()).decode()
    assert "its last words\n" in text
    assert (cluster.folder / "all.txt").exists()
    assert len(cluster.ran) == 1


def test_the_other_steps_run_although_a_step_that_does_not_decide_has_failed(cluster):
    cluster.runs = {"first": Refusal("it died"), "all": run(row(8, 1.0))}
    found = cluster.line(step("first"), DECIDING)
    assert "failed" not in found["steps"][1]
    assert found["versions"]["nccl"] == "2.28.9"
    cluster.runs = {"all": Refusal("it died"), "looks": run(row(8, 1.0))}
    found = cluster.line(DECIDING._replace(decides=False), LOOKS, deciding="all")
    assert [one.get("failed") for one in found["steps"]] == ["it died; rank 3 on b is stopped", None]


def test_a_node_lost_in_a_failed_run_is_named_but_a_node_lost_in_a_good_run_fails_the_measurement(cluster, monkeypatch):
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


def test_an_interface_that_is_down_is_named_and_nccl_may_choose_another_interface(cluster):
    cluster.runs = {"all": run(row(8, 1.0))}
    cluster.inventory["b"]["interfaces"] = {"ib0": {"up": False, "tx_bytes": 1, "mtu": 4200}}
    found = cluster.line(DECIDING)
    assert found["inventory"]["differences"][0] == "b has no interface ib0 that is up, so NCCL chose an interface itself"
    assert "NCCL_SOCKET_IFNAME==eth0" not in cluster.ran[-1].argv
    assert "NCCL_DEBUG=INFO" in cluster.ran[-1].argv
    cluster.inventory["b"]["interfaces"] = {"ib0": {"up": True, "tx_bytes": 1, "mtu": 4200}}
    cluster.line(DECIDING)
    assert "NCCL_SOCKET_IFNAME==eth0" in cluster.ran[-1].argv


def test_nodes_with_fewer_gpus_than_the_shape_or_with_different_drivers_are_refused_by_name(cluster):
    cluster.inventory["b"]["gpus"] = ["H100"]
    with pytest.raises(Refusal, match=r"^b shows 1 GPUs, but its shape has 2$"):
        cluster.line(DECIDING)
    cluster.inventory["b"] = cluster.facts("b") | {"driver": "570.9"}
    with pytest.raises(Refusal, match=r"^b runs driver 570\.9, but a runs 580\.1$"):
        cluster.line(DECIDING)
    assert not cluster.ran


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, "; and 1 more"), (11, "; and 3 more")])
def test_a_refusal_names_at_most_eight_processes_on_gpus_or_eight_changed_programs(cluster, count, more):
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
    assert str(refused.value) == f"on {named}, the programs are not those of the build; nothing was started"


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


def test_if_there_is_only_one_node_nothing_checks_whether_nodes_reach_each_other(cluster):
    cluster.unreachable, cluster.runs = ["a cannot reach itself"], {"all": run(row(8, 1.0), ranks=2)}
    assert cluster.line(DECIDING, nodes=NODES[:1])["steps"][0]["ranks"] == 2


def test_the_wait_for_another_measurement_is_reported_once_and_ends_at_the_timeout(cluster, monkeypatch):
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
        ("node", (100.0, 200.0, 400.0, 300.0), [5.12, 2.56]),  # the groups are ranks 0 and 1, and ranks 2 and 3
        ("rails", (100.0, 200.0, 400.0, 300.0), [2.56, 3.4133]),  # the groups are ranks 0 and 2, and ranks 1 and 3
        ("node", (100.0, 200.0, 400.0), None),
        ("node", (0.0, 0.0, 400.0, 300.0), None),
    ],
)
def test_the_busbw_of_a_group_is_the_busbw_of_its_slowest_rank(stage, rank_us, groups):
    found = measure.numbers(run(row(1024000, 1.0, rank_us=rank_us)), stage, 2, 4)
    assert found["groups_gb_s"] == groups
    assert found["spread"] == {"iterations": 20, "p50_us": 10.0, "p99_us": 12.0, "cv_pct": 1.5}
    assert "groups_gb_s" not in measure.numbers(run(row(8, 1.0, rank_us=rank_us)), stage, 1, 4)
    assert "groups_gb_s" not in measure.numbers(run(), stage, 2, 4)
    assert measure.numbers(run(row(8, 1.0)), stage, 2, 4)["groups_gb_s"] is None


def test_at_most_twenty_problems_are_kept_and_each_is_cut_after_three_hundred_characters():
    short, exact, long = "s", "e" * 300, "l" * 301
    kept = measure.numbers(run(problems=(short, exact, long)), "all", 1, 4)["problems"]
    assert kept == [short, exact, "l" * 300 + "..."]
    assert measure.numbers(run(problems=("p",) * 20), "all", 1, 4)["problems"] == ["p"] * 20
    assert measure.numbers(run(problems=("p",) * 23), "all", 1, 4)["problems"] == ["p"] * 20 + ["and 3 more problems"]


def test_the_commands_that_a_user_may_type_write_the_hostfile_first_and_then_run_mpirun(cluster):
    hosts, typed = measure.commands(cluster.request(DECIDING))
    assert hosts == f"cat > {cluster.folder}/run/hosts <<'END'\n10.0.0.1 slots=2\n10.0.0.2 slots=2\nEND"
    assert typed.startswith("/mpi/bin/mpirun --bind-to numa -np 4 -npernode 2")
    assert typed.endswith("/bin/all -b 8 -e 1024")


def test_the_output_of_a_failed_step_is_also_kept_as_a_file_of_its_own_beside_the_evidence(tmp_path):
    for name in ("good", "bad"):
        (tmp_path / f"{name}.txt").write_text(name)
    kept = evidence.keep(str(tmp_path), {"good": "1\n", "bad": "2\n", "gone": ""}, ["bad"], "head\n")
    text = "head\n# busbar step good\n1\n# busbar step bad\n2\n# busbar step gone\n"
    assert kept.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert gzip.decompress(Path(kept.path).read_bytes()) == text.encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["bad.txt", f"{kept.sha256}.txt.gz"])


def test_the_evidence_has_the_json_results_of_the_steps_that_ran_but_no_environment(cluster):
    document = json.dumps({"env": ["TOKEN=x"], "later": ["TOKEN=x"], "results": [{"size": 8}], "errors": []})
    exact = evidence.without_environment(document)
    cluster.runs = {"all": run(row(8, 1.0))._replace(exact=exact), "looks": run(row(8, 1.0))}
    found = cluster.line(DECIDING, LOOKS)
    text = gzip.decompress(Path(found["evidence"]["path"]).read_bytes()).decode()
    assert '\n# busbar step all.json\n{"results": [{"size": 8}], "errors": []}\n# busbar step looks\n' in text
    assert "TOKEN" not in text
    assert "looks.json" not in text, "the evidence has no JSON result of a step whose JSON result was not read"


@pytest.mark.parametrize("broken", ["", "[1]", '{"env": ["TOKEN=x"]', "[" * 100_000])
def test_a_json_result_that_cannot_be_parsed_is_left_out_completely(broken):
    assert not evidence.without_environment(broken)


def test_every_field_of_nccl_tests_json_except_the_environment_is_kept():
    document = json.loads(EXACT)
    assert json.loads(evidence.without_environment(EXACT)) == {key: document[key] for key in document if key != "env"}


def test_the_bytes_of_ib_write_bw_do_not_count_as_bytes_of_the_collectives(cluster, monkeypatch):
    def tried(nodes: Any, *_: Any) -> rail_proofs.Tried:
        for node in nodes:
            cluster.inventory[node.name]["hca"]["mlx5_0"]["tx_bytes"] += 10**12
            cluster.inventory[node.name]["hca"]["mlx5_0"]["events"] = {"link_downed": 1}
        return rail_proofs.Tried(ProofsLine(2, 2, 2, [], 1.0), "printed\n")

    monkeypatch.setattr(rail_proofs, "tried", tried)
    for its in cluster.inventory.values():
        its["hca"]["mlx5_0"]["events"] = {"link_downed": 0}
    cluster.runs["all"] = run(row(1024, 300))
    line = cluster.line(DECIDING, proofs=Proofs(["mlx5_0"], True, 6))
    assert {name: sent["mlx5_0"] for name, sent in line["transport"]["tx_bytes"].items()} == {"a": 0, "b": 0}
    assert {(one["counter"], one["count"]) for one in line["transport"]["events"]} == {("link_downed", 1)}
