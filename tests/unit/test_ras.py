"""The report of NCCL's RAS service on a hung run is parsed from its JSON, or from its text if there is no JSON."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from benchmarks.launch.protocol import Node
from benchmarks.runner import fanout, laggards, rank_states

pytestmark = pytest.mark.programs

#: Reports of NCCL 2.28.9 on two H100s of one host: once while rank 1 was behind rank 0, once after rank 1 was killed.
REAL = Path(__file__).parents[1] / "golden" / "ras"
_TEXT = (REAL / "killed.txt").read_text()
_TOLD = [
    "INCOMPLETE",
    "Missing communicator data from 1 job process",
    "Process 582 on node 192.0.2.2 managing GPU 1",
    "#0-0 (987c4995fed86236) INCOMPLETE",
    "Missing communicator data from 1 rank",
    "Rank 1 -- GPU 1 managed by process 582 on node 192.0.2.2",
]


def _rank(rank: int, begun: int, error: int = 0) -> dict[str, object]:
    """Return a rank as `jsonWriteRankData` of NCCL 2.28.9 writes it."""
    status = {"init_state": 0, "async_error": error, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    about = {"rank": rank, "host": f"10.0.0.{rank // 2}", "pid": 800 + rank, "cuda_dev": rank % 2, "nvml_dev": rank % 2}
    return {**about, "status": status, "collective_counts": {"Broadcast": 0, "AllReduce": begun}}


def _document(*ranks: dict[str, object], missing: tuple[dict[str, object], ...] = ()) -> str:
    group = {"hash": "0x1", "size": 4, "ranks_count": len(ranks), "missing_ranks_count": len(missing)}
    whole = {"nccl_version": "2.28.9", "communicators_count": 1, "ras": {"collection_time_sec": 0.1, "timeouts_count": 0}}
    return json.dumps({**whole, "communicators": [{**group, "ranks": ranks, "missing_ranks": missing}]}, indent=2)


def _missing(rank: int, *, unresponsive: bool, dead: bool) -> dict[str, object]:
    about = {"rank": rank, "host": "10.0.0.1", "pid": 800 + rank, "cuda_dev": 0, "nvml_dev": 0}
    return {**about, "status": {"unresponsive": unresponsive, "considered_dead": dead}}


def _client(folder, json_answer: str | None, text: str = _TEXT) -> str:
    """Write a client that answers in JSON or, like versions before 2.28.7, refuses the option for JSON and answers in text."""
    (folder / "answer").write_text(json_answer or "")
    path = folder / "ncclras"
    as_json = f"cat {folder}/answer" if json_answer is not None else "echo 'Usage: ncclras [OPTION]...' >&2; exit 1"
    path.write_text(f"#!/bin/sh\ncase \"$1\" in -f) {as_json};; -v) cat <<'END'\n{text}END\n;; esac\n")
    path.chmod(0o755)
    return str(path)


def _said(name: str, *clients: str) -> list[str]:
    """Run the program that also runs on the nodes; return the part of its output that is about RAS."""
    words = [*fanout.PYTHON.split(), "-", name, *clients]
    done = subprocess.run(words, input=fanout.source_of(rank_states), capture_output=True, check=True)
    return json.loads(done.stdout)["ras"]


def test_a_rank_that_started_fewer_operations_than_other_ranks_is_named_from_json(tmp_path):
    client = _client(tmp_path, _document(_rank(0, 100), _rank(1, 100), _rank(2, 97), _rank(3, 100)))
    assert _said("nothing", client) == ["rank 2 on 10.0.0.1 (process 802) has begun 97 of 100 AllReduce operations"]


def test_lost_or_failed_ranks_are_named_from_json(tmp_path):
    gone = (_missing(2, unresponsive=True, dead=False), _missing(3, unresponsive=True, dead=True))
    client = _client(tmp_path, _document(_rank(0, 7), _rank(1, 7, error=6), missing=gone))
    assert _said("nothing", client) == [
        "rank 2 on 10.0.0.1 (process 802) is unresponsive",
        "rank 3 on 10.0.0.1 (process 803) is dead",
        "rank 1 on 10.0.0.0 (process 801) failed with NCCL error 6",
    ]


def test_nothing_is_reported_if_ncclras_finds_no_problem(tmp_path):
    assert _said("nothing", _client(tmp_path, _document(_rank(0, 7), _rank(1, 7)))) == []


def test_the_first_existing_ncclras_is_used(tmp_path):
    client = _client(tmp_path, None)
    assert _said("nothing", str(tmp_path / "absent" / "ncclras"), client) == _TOLD
    assert _said("nothing", str(tmp_path / "absent" / "ncclras")) == []


def test_the_text_report_is_used_if_ncclras_has_no_json_or_broken_json(tmp_path):
    assert _said("nothing", _client(tmp_path, None)) == _TOLD
    whole = _document(_rank(0, 7), missing=(_missing(1, unresponsive=True, dead=False),))
    for broken in (whole.replace("},", "}", 1), whole[:80], "[]", '{"communicators": [{}]}', '{"communicators": null}'):
        assert _said("nothing", _client(tmp_path, broken)) == _TOLD


def test_nccls_real_output_identifies_the_rank_that_is_behind_and_the_killed_rank(tmp_path):
    behind = (REAL / "behind.json").read_text()
    assert _said("nothing", _client(tmp_path, behind)) == [
        "rank 1 on 192.0.2.2 (process 582) has begun 5 of 7 AllReduce operations"
    ]
    older = _said("nothing", _client(tmp_path, None, (REAL / "behind.txt").read_text()))
    assert older[-1] == "Rank 1 has launched up to operation 5 -- GPU 1 managed by process 582 on node 192.0.2.2"
    # NCCL writes no comma before a missing rank's status, so this JSON is invalid and the text report is used.
    assert _said("nothing", _client(tmp_path, (REAL / "killed.json").read_text())) == _TOLD


def test_a_message_that_nccl_prints_on_every_node_is_reported_once(monkeypatch):
    answer = json.dumps({"ranks": [{"pid": 5, "rank": 1, "state": "T", "cpu_s": 0.0}], "ras": ["rank 1 on a is unresponsive"]})
    monkeypatch.setattr(fanout, "each", lambda nodes, *_: [fanout.Answer(0, answer, "") for _ in nodes])
    nodes = [Node("a", "10.0.0.1"), Node("b", "10.0.0.2")]
    assert laggards.named(nodes, "/opt/all_reduce_perf", 1) == [
        "a: rank 1 (process 5) is stopped",
        "b: rank 1 (process 5) is stopped",
        "NCCL says: rank 1 on a is unresponsive",
    ]
