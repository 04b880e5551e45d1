"""Each node's report on a hung run decides which ranks are named. Other tests: the choice of MPI, CUDA and NCCL folders."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from measurement_line import ASKED, place

from benchmarks.host import requests
from benchmarks.launch.protocol import ImageLine, Node
from benchmarks.runner import fanout, installed, laggards, rank_states
from benchmarks.runner.refusal import Refusal

NODES = [Node("a", "10.0.0.1"), Node("b", "10.0.0.2")]


def rank(number: int | None, state: str = "R", pid: int = 100) -> dict[str, Any]:
    return {"pid": pid, "rank": number, "state": state, "cpu_s": 0.5}


def lines(said: Any) -> str:
    return "a banner\n" + json.dumps(dict(zip(("ranks", "ras"), said, strict=False))) + "\n"


def named(patch: pytest.MonkeyPatch, *said: Any, **more: Any) -> tuple[list[str], str]:
    """Return the findings and the command for all nodes; each `said` is a node's ranks and NCCL's messages, or its error."""
    asked: list[str] = []

    def each(_nodes: Any, command: str, *_: Any) -> list[Any]:
        asked.append(command)
        answers = [(1, one, "") if isinstance(one, str) else (0, "", one) for one in said]
        return [SimpleNamespace(status=status, why=why, out=lines(out)) for status, why, out in answers]

    patch.setattr(fanout, "each", each)
    return laggards.named(NODES, "/opt/nccl tests/all_reduce_perf", 2, **more), asked[0]


def test_no_rank_is_named_if_all_ranks_run_or_sleep(monkeypatch):
    found, asked = named(monkeypatch, ([rank(0), rank(1, "S")], []), ([rank(2), rank(3)], []))
    assert found == []
    assert asked.endswith(" - all_reduce_perf ncclras")
    asked = named(monkeypatch, ([rank(0), rank(1)], []), nccl_home="/usr/nccl")[1]
    assert asked.endswith(" all_reduce_perf /usr/nccl/bin/ncclras ncclras")


def test_a_request_has_the_folder_of_nccl_unless_nccl_is_in_an_image():
    where = place()
    assert json.loads(requests.measure(where, ASKED, []))["nccl_home"] == where.built.nccl_home == "/usr"
    image = ImageLine("docker://nvcr.io#nvidia/pytorch:1", "/home/a.sqsh", "0" * 64, 1, ["enroot", "start"])
    inside = dataclasses.replace(where, built=where.built._replace(container=image))
    assert not json.loads(requests.measure(inside, ASKED, []))["nccl_home"]


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("T", "stopped"),
        ("t", "stopped by a debugger"),
        ("Z", "dead"),
        ("X", "dead"),
        ("D", "waiting for a device"),
    ],
)
def test_a_rank_that_does_not_run_is_named_with_its_node_and_state(monkeypatch, state, words):
    found, _ = named(monkeypatch, ([rank(0), rank(1)], []), ([rank(2), rank(3, state, 77)], []))
    assert found == [f"b: rank 3 (process 77) is {words}"]


def test_lost_ranks_and_an_unresponsive_node_and_nccls_messages_are_each_reported_once(monkeypatch):
    found, _ = named(monkeypatch, ([rank(None, "T"), rank(0)], ["rank 3 is missing", "rank 3 is missing"]), "no route")
    assert found == ["a: rank ? (process 100) is stopped", "b does not answer (no route)", "NCCL says: rank 3 is missing"]
    found, _ = named(monkeypatch, ([rank(0)], ["both"]), ([], ["both"]))
    assert found == ["a: 1 of 2 ranks exist", "b: 0 of 2 ranks exist", "NCCL says: both"]


def test_at_most_sixteen_findings_are_reported(monkeypatch):
    assert len(named(monkeypatch, ([rank(number, "T") for number in range(15)], ["one", "two"]))[0]) == 16


STAT = "{pid} (all) reduce (perf) {state} 1 2 3 4 5 6 7 8 9 10 {user} {system} 0 0 20\n"


def test_each_rank_of_the_test_program_is_reported_with_its_processor_time_in_half_a_second(monkeypatch):
    files = {
        "/proc/9/cmdline": b"/x/all_reduce_perf\0-b\08\0",
        "/proc/10/cmdline": b"/x/all_reduce_perf\0",
        "/proc/11/cmdline": b"/x/all_reduce_perf\0",
        "/proc/12/cmdline": b"mpirun\0/x/all_reduce_perf\0",
        "/proc/9/environ": b"A=1\0OMPI_COMM_WORLD_RANK=17\0",
        "/proc/10/environ": b"XOMPI_COMM_WORLD_RANK=1\0PMIX_RANK=3\0",
        "/proc/11/environ": b"",
    }
    used = {9: (100, 20), 10: (5, 5), 11: (0, 0), 12: (7, 7)}
    states = {9: "R", 10: "T", 11: "S", 12: "D"}
    slept: list[float] = []

    def text(path: str) -> bytes:
        pid = int(path.split("/")[2])
        if not path.endswith("/stat"):
            return files.get(path, b"")
        if pid == 11 and slept:  # this process exited during the sleep
            return b""
        user, system = used[pid]
        return STAT.format(pid=pid, state=states[pid], user=user + (25 if slept and pid == 9 else 0), system=system).encode()

    monkeypatch.setattr(rank_states, "_read", text)
    monkeypatch.setattr(rank_states.os, "listdir", lambda _: ["10", "9", "11", "12", "self"])
    monkeypatch.setattr(rank_states.os, "sysconf", lambda _: 100)
    monkeypatch.setattr(rank_states.time, "sleep", slept.append)
    assert rank_states.states("all_reduce_perf") == [
        {"pid": 9, "rank": 17, "state": "R", "cpu_s": 0.25},
        {"pid": 10, "rank": 3, "state": "T", "cpu_s": 0.0},
    ]
    assert slept == [0.5]
    assert [each["state"] for each in rank_states.states("mpirun")] == ["D"]


def test_a_rank_that_is_dead_but_not_yet_reaped_is_reported_as_dead(tmp_path):
    """The name of such a process is shortened, and its command line is empty."""
    program = tmp_path / "reduce_scatter_perf"
    shutil.copy("/bin/true", program)
    process = subprocess.Popen([program])
    while ") Z " not in Path(f"/proc/{process.pid}/stat").read_text():  # the command line is empty somewhat earlier
        time.sleep(0.001)
    try:
        assert rank_states.states(program.name) == [{"pid": process.pid, "rank": None, "state": "Z", "cpu_s": 0.0}]
    finally:
        process.wait()


def test_a_process_with_a_truncated_stat_file_is_not_a_rank(monkeypatch):
    fields = {12: [], 13: [{"pid": 5, "rank": None, "state": "R", "cpu_s": 0.0}]}
    for count, found in fields.items():
        text = f"5 (x) R {'1 ' * (count - 1)}".encode()
        monkeypatch.setattr(rank_states, "_read", lambda path, text=text: text if path.endswith("/stat") else b"x\0")
        monkeypatch.setattr(rank_states.os, "listdir", lambda _: ["5"])
        monkeypatch.setattr(rank_states.time, "sleep", lambda _: None)
        assert rank_states.states("x") == found


def made(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_the_highest_version_of_the_first_pattern_with_a_complete_folder_is_taken(tmp_path):
    made(tmp_path, "mpi-4.1.9/bin/mpirun", "mpi-4.1.10/bin/mpirun", "mpi-5/lib/none", "other-9/bin/mpirun", "cuda-12/bin/nvcc")
    homes = [f"{tmp_path}/{name}-*" for name in ("none", "mpi", "other")]
    patterns = {"MPI_HOME": homes, "CUDA_HOME": [f"{tmp_path}/cuda-*"]}
    found = installed.on_node(patterns, ("MPI_HOME", "CUDA_HOME"))
    assert found == {"MPI_HOME": f"{tmp_path}/mpi-4.1.10", "CUDA_HOME": f"{tmp_path}/cuda-12"}
    with pytest.raises(Refusal) as refused:
        installed.on_node({"NCCL_HOME": ["/nowhere/a", "/nowhere/b"]}, ("NCCL_HOME",))
    said = "the head node has no NCCL_HOME: no folder like /nowhere/a or /nowhere/b contains include/nccl.h"
    assert str(refused.value) == f"{said}; install it on the head node, or set its folder"


def test_inside_an_image_the_newest_version_of_the_first_pattern_with_a_folder_is_taken():
    printed = [
        "a banner",
        "busbar home MPI_HOME 1 /late-9",
        "busbar home MPI_HOME 0 /early-1.9",
        "busbar home MPI_HOME 0 /early-1.10 with a blank",
        "busbar homeless MPI_HOME 0 /early-2",
        "busbar home CUDA_HOME 2 /cuda",
        "busbar home NCCL_HOME 0 /nccl",
    ]
    found = installed.inside({}, "\n".join(printed))
    assert found == {"MPI_HOME": "/early-1.10 with a blank", "CUDA_HOME": "/cuda", "NCCL_HOME": "/nccl"}
    with pytest.raises(Refusal, match=r"^the image has no CUDA_HOME: no folder of the image like /c1 or /c2 contains bin/"):
        installed.inside({"CUDA_HOME": ["/c1", "/c2"]}, printed[1])


@pytest.mark.parametrize(
    ("there", "holds"),
    [
        ({"/usr/bin/mpirun", "/usr/lib/openmpi/include/mpi.h"}, True),
        ({"/usr/bin/mpirun"}, False),
        ({"/usr/lib/openmpi/include/mpi.h"}, False),
        ({"/usr/lib/openmpi/bin/mpirun"}, True),
    ],
)
def test_an_open_mpi_folder_is_complete_with_its_own_mpirun_or_with_headers_and_debians_mpirun(monkeypatch, there, holds):
    monkeypatch.setattr(installed.glob, "glob", lambda pattern: [pattern])
    monkeypatch.setattr(installed.os.path, "exists", lambda path: path in there)
    patterns = {"MPI_HOME": ["/usr/lib/openmpi"]}
    if holds:
        assert installed.on_node(patterns, ("MPI_HOME",)) == {"MPI_HOME": "/usr/lib/openmpi"}
        return
    with pytest.raises(Refusal, match="has no MPI_HOME"):
        installed.on_node(patterns, ("MPI_HOME",))


def test_a_cuda_folder_is_incomplete_although_debians_mpirun_and_mpi_h_exist(monkeypatch):
    """On Debian, only Open MPI may have its programs in /usr/bin; CUDA's folder must contain nvcc."""
    monkeypatch.setattr(installed.glob, "glob", lambda pattern: [pattern])
    monkeypatch.setattr(installed.os.path, "exists", lambda path: path in {"/usr/bin/mpirun", "/usr/lib/cuda/include/mpi.h"})
    with pytest.raises(Refusal, match="has no CUDA_HOME"):
        installed.on_node({"CUDA_HOME": ["/usr/lib/cuda"]}, ("CUDA_HOME",))


def test_the_folder_of_mpirun_is_the_given_folder_or_usr_if_the_given_folder_has_no_mpirun(tmp_path):
    made(tmp_path, "mpi/bin/mpirun")
    assert installed.with_mpirun(f"{tmp_path}/mpi") == f"{tmp_path}/mpi"
    assert installed.with_mpirun(f"{tmp_path}/none") == "/usr"


@pytest.mark.parametrize(
    ("paths", "newest"),
    [
        (["/a-9", "/a-10"], "/a-10"),
        (["/a-10", "/a"], "/a-10"),
        (["/a-10rc1", "/a-10"], "/a-10rc1"),
        (["/b-1", "/a-2"], "/b-1"),
    ],
)
def test_versions_are_compared_number_by_number(paths, newest):
    assert installed.newest(paths) == newest
