"""The search as a head node runs it, with real requests and processes; ssh, mpirun and the fabric are stand-ins."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from fake_head import REAL_RUN, Head, launch_of, measure_request, step_of

from benchmarks.report.outputs import culprit_sentence
from benchmarks.runner import jobs

pytestmark = pytest.mark.programs

FAKES = Path(__file__).parents[1] / "fakes"
RAILS = [f"mlx5_{number}" for number in range(4)]


class Fabric(Head):
    """The head node of a cluster whose other nodes answer through a stand-in for ssh."""

    def __init__(self, home: Path, nodes: int) -> None:
        super().__init__(home)
        self.nodes = [{"name": f"node-{index}", "address": f"127.0.1.{index}"} for index in range(nodes)]
        self.tool("hostname", "echo n0\n")
        # Files of node N are below nN.
        self.tool(
            "ssh",
            "for word; do case $word in 127.0.1.*) at=n${word##*.};; esac; done\n"
            'case $word in hostname) echo $at;; *) sh -c "$(echo "$word" | sed "s|$HOME|$HOME/$at|g")";; esac\n',
        )
        (home / "bin" / "mpirun").symlink_to(FAKES / "mpirun")
        self.environment["FABRIC"] = str(home / "fabric.json")

    def search(self, *slow, broken=(), mute=False, waited=0.0, scale=None, **changes) -> dict:
        (self.home / "fabric.json").write_text(
            json.dumps(
                {"rails": 4, "gb_s": 25.0, "slow": slow, "broken": list(broken), "mute": mute, "waited": waited, "scale": scale}
            )
        )
        request = {
            "schema": 2,
            "kind": "search",
            "run_id": "search1",
            "timeout_s": 60,
            "nodes": self.nodes,
            "budget_s": 60,
        }
        trials = {
            "gpus": 8,
            "rails": [[rail] for rail in RAILS],
            "by_gpu": False,
            "launch": launch_of(self) | {"mpi_home": str(self.home)},
            "ranks": {
                "program": "/x/all_reduce_perf",
                "arguments": [],
                "environment": {"NCCL_IB_HCA": "=" + ",".join(RAILS), "NCCL_ALGO": "Ring"},
                "per_node": 8,
            },
            "size_bytes": 1 << 24,
            "iterations": 5,
            "pair_limit_gb_s": 85.0,
            "whole_gb_s": 40.0,
        }
        if "environment" in changes:
            trials["ranks"]["environment"] = changes.pop("environment")
        trials |= {name: changes.pop(name) for name in [*changes] if name in trials}
        if changes.pop("needed", True):
            request["trials"] = trials
        (self.home / ".busbar").mkdir(exist_ok=True)
        status, out, err = self.run(request | changes)
        assert status == 0, err
        return json.loads(out)

    def measured_again(self, culprit):
        """Run the script that the line suggests for this culprit; return each trial that it prints, with the trial's busbw."""
        script = culprit["next"].rpartition("; ")[2]
        found = subprocess.run(["sh", script], env=self.environment, capture_output=True, text=True, check=True)
        return [(what, float(number.partition(" ")[0])) for what, number in re.findall(r"(.+): (\S+ GB/s)", found.stdout)]


@pytest.fixture
def fabric(tmp_path):
    return Fabric(tmp_path, 8)


@pytest.mark.parametrize(
    ("slow", "kind", "nodes", "rails"),
    [
        (["node", [3], [], 0.5], "node", ["node-3"], []),
        (["node", [6], [2], 0.4], "rail", ["node-6"], ["mlx5_2"]),
        (["link", [4, 5], [], 0.3], "link", ["node-4", "node-5"], []),
    ],
)
def test_a_planted_fault_is_found_with_its_evidence_and_the_next_command(fabric, slow, kind, nodes, rails):
    line = fabric.search(slow)
    (culprit,) = line["culprits"]
    assert (culprit["kind"], culprit["nodes"], culprit["rails"]) == (kind, nodes, rails)
    assert culprit["evidence"]
    assert culprit["next"].startswith(f"ssh 127.0.1.{nodes[0][-1]} ")
    blamed, beside = fabric.measured_again(culprit)
    assert set(nodes) <= set(re.findall(r"node-\d", blamed[0]))
    assert rails == re.findall(r"mlx5_\d", blamed[0])
    assert blamed[1] in [pytest.approx(one["busbw_gb_s"], rel=0.01) for one in culprit["evidence"]]
    assert blamed[1] == pytest.approx(slow[3] * beside[1], rel=0.05)
    assert line["complete"]
    assert line["rounds"] <= 9
    assert [pair for pair in line["pairs"] if pair[2] < 85]


def test_trials_do_not_require_an_interface_that_a_node_lacks(fabric):
    """Otherwise NCCL would fail on that node, and the search would blame a healthy node."""
    environment = {"NCCL_SOCKET_IFNAME": "=absent0", "NCCL_ALGO": "Ring"}
    line = fabric.search(["node", [3], [], 0.5], environment=environment)
    assert [culprit["nodes"] for culprit in line["culprits"]] == [["node-3"]]
    assert "NCCL_SOCKET_IFNAME" not in line["culprits"][0]["next"]


def test_a_culprit_whose_script_cannot_be_written_is_named_nevertheless(fabric):
    """A folder in place of the script stands in for a full disk."""
    (fabric.home / ".busbar" / "runs" / "search1" / "again1.sh").mkdir(parents=True)
    (culprit,) = fabric.search(["node", [3], [], 0.5])["culprits"]
    assert culprit["nodes"] == ["node-3"]
    assert "again1.sh" not in culprit["next"]


def test_with_a_network_plugin_a_search_tries_all_devices_near_a_gpu_together_and_names_all_these_devices(tmp_path):
    two = Fabric(tmp_path, 2)
    near = [[f"rdmap{16 * gpu + index}s0" for index in range(4)] for gpu in range(4)]
    line = two.search(["node", [1], [2], 0.4], rails=near, by_gpu=True, environment={"NCCL_ALGO": "Ring"}, whole_gb_s=40.0)
    (culprit,) = line["culprits"]
    assert (culprit["kind"], culprit["rails"]) == ("link", near[2])  # with two nodes, no trial shows which end is faulty
    assert "/sys/class/infiniband/rdmap35s0/ports/1" in culprit["next"]
    assert "of rails" not in culprit_sentence(culprit)
    assert f"is slow on {', '.join(near[2])}" in culprit_sentence(culprit)


def test_a_round_is_one_run_however_many_pairs_the_round_has(fabric):
    fabric.search(["node", [3], [], 0.5])
    runs = [path.name for path in (fabric.home / ".busbar" / "runs" / "search1").glob("round1_*.txt")]
    assert runs == ["round1_0.txt"]


def test_all_rounds_share_one_connection_to_each_of_the_other_nodes():
    with tempfile.TemporaryDirectory() as short:  # a socket's path must be shorter than 104 bytes
        three = Fabric(Path(short), 3)
        ssh = three.home / "bin" / "ssh"
        ssh.write_text(ssh.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$@" >> {three.home}/dialled\n'))
        three.search(["node", [2], [], 0.5])
        dialled = (three.home / "dialled").read_text().splitlines()
        kept = [line.split()[-2] for line in dialled if "ControlMaster=auto" in line]
        assert sorted(kept) == ["127.0.1.1", "127.0.1.2"]
        assert all("ControlPath=~/.busbar/ssh/%C" in line for line in dialled)


def test_a_node_that_breaks_every_run_is_found_by_running_the_trials_of_a_round_one_by_one(fabric):
    line = fabric.search(broken=[5])
    (culprit,) = line["culprits"]
    assert (culprit["kind"], culprit["nodes"], culprit["ratio"]) == ("node", ["node-5"], 0.0)
    assert "was lost" in culprit["evidence"][0]["why"]


def test_a_pair_without_the_head_node_is_measured_and_leaves_no_file_on_the_pairs_nodes(tmp_path):
    three = Fabric(tmp_path, 3)
    line = three.search(["node", [1], [3], 0.4])
    assert line["failed"] is None
    (culprit,) = line["culprits"]
    assert (culprit["kind"], culprit["nodes"], culprit["rails"]) == ("rail", ["node-1"], ["mlx5_3"])
    assert [1, 2] in [pair[:2] for pair in line["pairs"]]
    assert (tmp_path / "n1").is_dir()
    assert not list((tmp_path / "n1").rglob("*.json"))


@pytest.mark.parametrize(
    ("factor", "waited", "scale", "kinds"),
    [
        (0.8, 0.3, 4000, []),  # the waiting explains why busbw is below the limit of 85 GB/s
        (0.8, 0.01, 4000, ["link"]),
        (0.5, 0.3, 4000, ["link"]),
        (0.8, 0.3, None, ["link"]),  # on real machines, waiting does not excuse a low busbw
    ],
)
def test_waiting_for_processors_excuses_a_low_busbw_in_a_rehearsal_but_does_not_hide_a_real_fault(
    tmp_path, factor, waited, scale, kinds
):
    two = Fabric(tmp_path, 2)
    line = two.search(["node", [1], [], factor], waited=waited, scale=scale)
    assert line["failed"] is None
    assert [one["kind"] for one in line["culprits"]] == kinds


def test_a_run_that_cannot_be_read_blames_no_node(fabric):
    line = fabric.search(["node", [3], [], 0.5], mute=True)
    assert line["culprits"] == []
    assert "returned no numbers for its trials" in line["failed"]
    assert not line["complete"]


def test_a_search_that_used_up_its_time_limit_says_that_the_time_is_used_up_and_keeps_its_findings(fabric):
    line = fabric.search(["node", [3], [], 0.5], budget_s=0)
    assert line["failed"] == "the budget of 0 s was used up after 0 rounds"
    assert not line["complete"]


def again(fabric, **bodies) -> dict:
    """Return the retest's part of a request; `bodies` has the shell script of each run, by the name of the run."""
    body = measure_request(fabric, "", run_id="second1", nodes=fabric.nodes)
    steps = [step_of(fabric, shell, name, decides=False) for name, shell in bodies.items()]
    return body | {"steps": steps, "evidence": {"path": "/x", "sha256": "a" * 64}}


@pytest.fixture
def two(tmp_path):
    return Fabric(tmp_path, 2)


def test_a_short_result_is_measured_again_and_the_evidence_names_the_first_run(two):
    line = two.search(again=again(two, all_reduce=REAL_RUN, rails="echo no such device >&2; exit 1\n"))
    whole, failed = line["again"]["steps"]
    assert whole["rows"]
    assert not whole["problems"]
    assert "no such device" in failed["failed"]
    assert line["again"]["transport"]["steps"] == ["all_reduce"]
    assert set(line["again"]["transport"]["tx_bytes"]) == {"node-0", "node-1"}
    assert line["healthy_gb_s"]
    text = gzip.decompress(Path(line["again"]["evidence"]["path"]).read_bytes()).decode()
    assert text.startswith(f"# busbar: measured a second time; the first is {'a' * 64} (/x)\n# busbar step all_reduce\n")
    assert "no such device" in Path(re.findall(r"its output is (\S+) ", failed["failed"])[0]).read_text()


def test_a_second_search_takes_the_retest_of_an_earlier_search(two):
    once = "test ! -e $HOME/ran || exit 1; touch $HOME/ran\n" + REAL_RUN
    first = two.search(again=again(two, all_reduce=once))
    second = two.search(again=again(two, all_reduce=once), run_id="search2", budget_s=30)
    assert first["again"] == second["again"]
    assert first["again"]["steps"][0]["rows"]


def test_a_retest_overwrites_the_hostfile_that_another_cluster_left(two):
    (two.home / "plan").mkdir()
    (two.home / "plan" / "hosts").write_text("127.0.1.9 slots=2\n")
    two.search(again=again(two, all_reduce=REAL_RUN))
    assert (two.home / "plan" / "hosts").read_text() == "127.0.1.0 slots=2\n127.0.1.1 slots=2\n"


def test_a_retest_that_cannot_run_is_reported_and_the_search_continues(two):
    asked = again(two, all_reduce=REAL_RUN)
    two.tool("ssh", "case $* in *inventory*|*-IS*) echo nobody >&2; exit 255;; *hostname*) echo n1;; esac\n")
    line = two.search(again=asked)
    assert "no inventory from node-1" in line["again"]["failed"]
    assert line["rounds"]


def test_if_the_full_ring_is_fast_in_the_retest_the_search_is_shorter_and_finds_no_culprit(fabric):
    single = fabric.search(whole_gb_s=4.0)
    assert single["rounds"] > 2
    line = fabric.search(whole_gb_s=4.0, again=again(fabric, all_reduce=REAL_RUN), run_id="search2")
    assert line["again"]["steps"][0]["rows"], line["again"]
    assert line["rounds"] < single["rounds"]
    assert not line["culprits"]


def fitting(two, line: dict) -> dict:
    """Return what the runner keeps of a line."""
    program = (
        "import sys, json; sys.path[:0] = sys.argv[1:]; from benchmarks.runner import search_run; "
        "print(json.dumps(search_run._fitting(json.load(sys.stdin))))"
    )
    words = [sys.executable, "-c", program, str(two.program)]
    ended = subprocess.run(words, input=json.dumps(line), capture_output=True, text=True, check=True)
    return json.loads(ended.stdout)


def test_a_line_that_would_be_too_long_drops_pairs_but_not_the_culprits(two):
    line = {"culprits": ["x" * 20_000], "pairs": [[1, 2, 0.123456789]] * 1500, "again": {"steps": ["y" * 30_000]}}
    kept = fitting(two, line)
    assert len(json.dumps(kept)) < 64 * 1024
    assert kept["culprits"] == line["culprits"]
    assert 0 < len(kept["pairs"]) < 1500


@pytest.mark.parametrize(("more", "pairs"), [(0, 2), (1, 1)])
def test_a_line_of_exactly_the_largest_size_is_complete_while_a_longer_line_drops_pairs(two, more, pairs):
    line = {"pairs": [[1, 2, 0.5]] * 2, "filling": ""}
    line["filling"] = "x" * (jobs.LINE_LIMIT_BYTES - len(json.dumps(line)) + more)
    assert len(fitting(two, line)["pairs"]) == pairs


def test_a_search_that_is_not_needed_connects_to_no_node(fabric):
    (fabric.home / "bin" / "ssh").unlink()
    assert fabric.search(needed=False, nodes=[])["needed"] is False


def test_a_node_that_does_not_answer_stops_the_search_with_a_sentence_and_no_crash(fabric):
    fabric.tool("ssh", "echo nobody is here >&2; exit 255\n")
    line = fabric.search(["node", [3], [], 0.5])
    assert "no answer from node-1 (nobody is here)" in line["failed"]
