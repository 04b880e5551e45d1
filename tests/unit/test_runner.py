"""The runner in a home of its own, as on a head node: builds, measurements, lost connections and refusals."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import signal
import tarfile
import tempfile
from pathlib import Path

import pytest
from fake_head import (
    GOLDEN,
    NODE,
    REAL_RUN,
    Head,
    build_request,
    measure_request,
    step_of,
)
from measurement_line import GPU4, a_plan
from wait_until import wait_until

from benchmarks.host import pack
from benchmarks.judge.verdict import judge
from benchmarks.launch.protocol import Refused, load
from benchmarks.plan.asked import Asked
from benchmarks.runner import program_run

pytestmark = pytest.mark.programs


@pytest.fixture
def head(tmp_path):
    return Head(tmp_path)


def test_a_build_takes_the_newest_mpi_and_lists_the_built_programs(head):
    status, out, err = head.run(build_request(head))
    assert status == 0, err
    line = json.loads(out)
    assert line["mpi_home"].endswith("mpi-4.1.10")
    program = Path(line["binaries"]) / "all_reduce_perf"
    assert hashlib.sha256(program.read_bytes()).hexdigest() == line["hashes"]["all_reduce_perf"]
    assert program.read_text().splitlines()[1].startswith("echo 1 ")
    assert "Compiling all_reduce" in err


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"source": {"version": "x", "sha256": "0" * 64, "path": "source.tar"}}, "is pinned; nothing was built"),
        ({"homes": {"MPI_HOME": ["/nowhere/mpi-*"], "CUDA_HOME": ["/x"], "NCCL_HOME": ["/x"]}}, "head node has no MPI_HOME"),
        ({"programs": ["all_gather_perf", "all_reduce_perf"]}, "the build made no all_gather_perf, only all_reduce_perf"),
        (
            {"source": {"version": "x", "sha256": "0" * 64, "url": "https://127.0.0.1:1/x.tar"}},
            "the head node could not fetch the source",
        ),
    ],
)
def test_a_build_that_cannot_be_made_or_trusted_is_refused_in_a_sentence(head, changes, sentence):
    status, out, err = head.run(build_request(head, **changes))
    assert (status, out) == (1, "")
    assert sentence in err


def test_a_failing_make_is_quoted_with_its_first_error(head):
    status, _, err = head.run(build_request(head, "build:\n\t@echo 'x.cu:1: error: nccl.h: No such file'; false\n"))
    assert status == 1
    assert "nccl-tests did not build: x.cu:1: error: nccl.h: No such file" in err


def test_an_archive_that_escapes_its_folder_is_refused(head):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("../evil")
        tar.addfile(member, io.BytesIO(b""))
    request = build_request(head)
    (head.home / "source.tar").write_bytes(packed.getvalue())
    request["source"]["sha256"] = hashlib.sha256(packed.getvalue()).hexdigest()
    status, _, err = head.run(request)
    assert status == 1
    assert "which is no plain file inside the archive" in err


def test_programs_that_changed_since_the_build_are_not_run(head):
    program = head.tool("all_reduce_perf", "echo built\n")
    built = {"binaries": str(program.parent), "programs": {program.name: hashlib.sha256(program.read_bytes()).hexdigest()}}
    status, _, err = head.run(measure_request(head, REAL_RUN, **built))
    assert status == 0, err
    program.write_text("#!/bin/sh\necho another\n")
    status, out, err = head.run(measure_request(head, REAL_RUN, run_id="measure2", **built))
    assert (status, out) == (1, "")
    assert "on head (all_reduce_perf: FAILED), the programs are not those of the build; nothing was started" in err
    program.unlink()
    status, _, err = head.run(measure_request(head, REAL_RUN, run_id="measure3", **built))
    assert status == 1
    assert "on head (all_reduce_perf: FAILED open or read)" in err


def test_the_result_of_a_measurement_is_one_line_with_every_row_and_the_evidence(head):
    # The runner as it is sent: packed into one file.
    head.program = head.home / "runner.pyz"
    head.program.write_bytes(pack.runner())
    status, out, err = head.run(measure_request(head, REAL_RUN))
    assert status == 0, err
    assert len(out.splitlines()) == 1
    line = json.loads(out)
    (step,) = line["steps"]
    assert len(step["rows"]) == 31
    assert (step["ranks"], step["hosts"], step["program"]) == (2, 1, "all_reduce")
    assert step["rows"][-1][1][2] == 345.381859
    assert (line["versions"]["nccl"], line["versions"]["nccl_tests"], line["versions"]["driver"]) == (
        "2.28.9",
        "2.19.6",
        "570.1",
    )
    assert step["problems"] == []
    assert line["inventory"] == {"differences": []}
    assert line["rehearsal"] is None
    packed = Path(line["evidence"]["path"]).read_bytes()
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == line["evidence"]["sha256"]
    assert "all_reduce 8 GiB 345.4 GB/s" in err  # progress shows the rows


def kept(head: Head) -> bytes:
    """Return all files that the runner keeps on its node, unpacked."""
    files = [path for path in (head.home / ".busbar").rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix == ".gz"], "the evidence is among the files"
    return b"".join(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes() for path in files)


def test_no_value_of_the_environment_leaves_the_node_or_stays_in_the_evidence(head):
    """The head node's environment has a planted token, and the JSON file that nccl-tests wrote has another token."""
    planted = head.environment["PLANTED_TOKEN"]
    assert "HYPOTHETICAL_TOKEN" in (GOLDEN / "h200x2.json").read_text()
    _, out, err = head.run(measure_request(head, REAL_RUN))
    assert json.loads(out)["steps"][0]["rows"]
    for secret in (planted, "PLANTED_TOKEN", "HYPOTHETICAL_TOKEN"):
        assert secret not in out + err
        assert secret.encode() not in kept(head)
    assert not (head.home / "plan" / "result.json").exists()


def test_mpirun_gets_no_variables_of_ssh_or_pulumi(head):
    head.environment |= {"SSH_CLIENT": "198.51.100.7 1 22", "PULUMI_ACCESS_TOKEN": "pul-planted"}
    status, _, err = head.run(measure_request(head, f"env > {head.home}/known\n" + REAL_RUN))
    assert status == 0, err
    known = (head.home / "known").read_text()
    assert "PLANTED_TOKEN" in known, "ranks get the other variables of the login"
    assert "SSH_" not in known
    assert "PULUMI_" not in known


def test_progress_says_what_is_measured_and_on_how_many_nodes(head):
    _, _, err = head.run(measure_request(head, REAL_RUN))
    assert "1/1 measuring: all_reduce (all_reduce) on 1 nodes\n1/1 all_reduce " in err


def test_a_finished_run_never_runs_again(head):
    count = f"echo once >> {head.home}/count\n"
    first = head.run(measure_request(head, count + REAL_RUN))
    second = head.run(measure_request(head, count + REAL_RUN))
    assert first[1] == second[1]
    assert (head.home / "count").read_text() == "once\n"


def test_after_a_lost_connection_the_run_goes_on_and_the_next_call_finds_the_run(head):
    body = f"echo once >> {head.home}/count\nsleep 2\n{REAL_RUN}"
    lost = head.start("run")
    lost.stdin.write(json.dumps(measure_request(head, body)))
    lost.stdin.close()
    wait_until((head.home / "count").exists, "the run has begun")
    lost.send_signal(signal.SIGKILL)
    lost.wait()
    status, out, _ = head.run(measure_request(head, body))
    assert status == 0
    assert len(json.loads(out)["steps"][0]["rows"]) == 31
    assert (head.home / "count").read_text() == "once\n"


def test_a_killed_worker_ends_the_run_and_the_wait_but_the_next_call_starts_a_new_run(head):
    body = f"echo $$ > {head.home}/run\necho $PPID > {head.home}/worker\n"
    body += f"[ -e {head.home}/second ] && exec cat {GOLDEN}/h200x2.txt\nsleep 300\n"
    waiting = head.start("run")
    waiting.stdin.write(json.dumps(measure_request(head, body)))
    waiting.stdin.close()
    worker = head.home / "worker"
    wait_until(lambda: worker.exists() and worker.read_text().strip(), "the worker is known")
    os.kill(int(worker.read_text()), signal.SIGKILL)
    assert waiting.wait(60) == 1
    assert "ended without a result" in waiting.stderr.read()
    left = Path("/proc") / (head.home / "run").read_text().strip() / "stat"
    wait_until(lambda: not left.exists() or left.read_text().rpartition(") ")[2][:1] == "Z", "the run has ended")
    (head.home / "second").touch()
    status, out, err = head.run(measure_request(head, body))
    assert status == 0, err
    assert "the JSON result could not be used" in json.loads(out)["steps"][0]["problems"][0]


#: What NCCL writes when a link fails during a run (src/transport/net_ib.cc).
COMPLETION = "NET/IB : Got completion from peer 10.0.1.3<40123> with status=12 opcode=0 len=0 vendor err 129 (Recv) hca mlx5_5"


def test_a_deciding_run_that_dies_is_reported_with_nccls_warnings_and_leaves_its_output_in_the_evidence(head):
    logs = f"{head.home}/.busbar/nccl"
    body = f"echo 'head:7:7 [0] NCCL WARN {COMPLETION}' > {logs}/nccl.head.7\necho Test NCCL failure x.cu:1; exit 3\n"
    request = measure_request(head, body, logs=logs)
    request["steps"].append(step_of(head, REAL_RUN, "spread", decides=False))
    request["steps"].insert(0, step_of(head, REAL_RUN, "rails", decides=False))
    status, out, err = head.run(request)
    assert status == 0, err
    line = json.loads(out)
    assert [bool(step.get("rows")) for step in line["steps"]] == [True, False, False]
    assert "exited with status 3: Test NCCL failure" in line["steps"][1]["failed"]
    assert line["steps"][2]["failed"] == "did not run, because the step all_reduce returned nothing"
    assert line["warnings"] == [{"node": "head", "said": COMPLETION, "count": 1}]
    kept = gzip.decompress(Path(line["evidence"]["path"]).read_bytes()).decode()
    assert "Test NCCL failure x.cu:1" in kept
    asked = Asked(a_plan(), GPU4, 2)
    assert judge(out, asked).verdict == "unknown"
    assert any(COMPLETION in reason for reason in judge(out, asked).reasons)
    assert judge(out, asked).died


def test_a_step_whose_mpirun_cannot_be_started_is_named_with_the_systems_reason(head):
    request = measure_request(head, REAL_RUN)
    request["launch"]["mpi_home"] = "/nowhere"
    status, out, err = head.run(request)
    assert status == 0, err
    (step,) = json.loads(out)["steps"]
    assert (
        step["failed"] == "the run all_reduce could not be started: [Errno 2] No such file or directory: '/nowhere/bin/mpirun'"
    )


STOPPED_RANK = (
    "cp /bin/sleep $HOME/bin/ranks-step; mkdir -p $HOME/ranks; mv $HOME/bin/ranks-step $HOME/ranks/step-all_reduce\n"
    "OMPI_COMM_WORLD_RANK=1 $HOME/ranks/step-all_reduce 60 & sleep 0.3; kill -STOP $!; $HOME/ranks/step-all_reduce 60\n"
)


@pytest.mark.parametrize("bound", [{"timeout_s": 2}, {"silence_s": 1.0}])
def test_a_run_that_hangs_is_stopped_at_its_time_limit_and_the_stopped_rank_is_named(head, bound):
    request = measure_request(head, STOPPED_RANK, **{name: bound[name] for name in bound if name == "timeout_s"})
    request["steps"][0] |= {name: bound[name] for name in bound if name == "silence_s"}
    status, out, err = head.run(request)
    assert status == 0, err
    failed = json.loads(out)["steps"][0]["failed"]
    assert re.match(r"the run all_reduce was stopped after \d s with 0 rows done", failed)
    assert re.search(r"; head: rank 1 \(process \d+\) is stopped", failed)


def test_after_a_used_up_time_limit_no_other_step_starts(head):
    request = measure_request(head, STOPPED_RANK, timeout_s=2)
    request["steps"][0] |= {"decides": False}
    request["steps"].append(step_of(head, f"touch {head.home}/started\n", "spread", decides=False))
    steps = json.loads(head.run(request)[1])["steps"]
    assert "was stopped after" in steps[0]["failed"]
    assert steps[-1]["failed"] == "did not run, because the time limit of 2 s was used up"
    assert not (head.home / "started").exists()


def test_ncclras_is_taken_from_the_nccl_that_nccl_tests_was_built_against_even_if_ncclras_is_not_on_path(head):
    client = head.home / "own" / "bin" / "ncclras"
    client.parent.mkdir(parents=True)
    client.write_text("#!/bin/sh\n[ \"$1\" = -v ] && printf 'Errors\\n======\\n\\nrank 1 is missing\\n'\n")
    client.chmod(0o755)
    request = measure_request(head, STOPPED_RANK, timeout_s=2) | {"nccl_home": str(head.home / "own")}
    assert "; NCCL says: rank 1 is missing" in json.loads(head.run(request)[1])["steps"][0]["failed"]


def test_only_20_of_thousands_of_odd_rows_are_listed_as_problems_and_the_others_are_counted(head):
    odd = 'i=0; while [ $i -lt 3000 ]; do echo "  1048576 $i what is this, and it goes on for very long"; i=$((i+1)); done\n'
    line = json.loads(head.run(measure_request(head, REAL_RUN + odd))[1])
    (step,) = [one for one in line["steps"] if one["name"] == "all_reduce"]
    assert len(json.dumps(line)) < 64 * 1024
    assert len(step["problems"]) == 21
    assert step["problems"][-1].endswith(" more problems")


def test_a_step_that_hangs_is_stopped_before_it_uses_up_the_time_of_the_other_steps(head):
    request = measure_request(head, REAL_RUN, timeout_s=40)
    request["steps"].insert(0, step_of(head, "sleep 60\n", "rails", decides=False) | {"silence_s": 1.0})
    line = json.loads(head.run(request)[1])
    assert "was stopped after" in line["steps"][0]["failed"]
    assert line["steps"][1]["rows"]


def test_a_rehearsed_run_may_be_silent_for_longer_than_the_limit(head):
    banner = "# busbar rehearsal: line rates scaled by 1/4000"
    request = measure_request(head, f"echo '{banner}'; sleep 2\n{REAL_RUN}")
    request["steps"][0] |= {"silence_s": 0.5}
    assert json.loads(head.run(request)[1])["steps"][0]["rows"]


def with_smi(head: Head, apps: str = "", used: str = "0, 5, 0") -> None:
    """Give the head node an nvidia-smi that answers each query with the rows of that query, as the driver does."""
    head.tool(
        "nvidia-smi",
        f'echo "$*" >> {head.home}/asked; case "$1" in *compute-apps*) printf "{apps}" ;;\n'
        f'*name,driver*) echo "NVIDIA H200, 570.1, {used}"; echo "NVIDIA H200, 570.1, 7, 5, 0" ;; esac\n',
    )


@pytest.mark.parametrize(
    ("apps", "used", "says"),
    [
        (
            "PID, /usr/bin/python3, 40960\\n",
            "0, 40960, 90",
            r"head: process PID \(python3\) of \w+ computes",
        ),
        ("999999999, train, 40960\\n", "0, 40960, 90", r"head: process 999999999 \(train\) of an unknown user computes"),
        ("", "3, 40960, 0", "head: GPU 3 has 40960 MiB in use"),
        ("", "3, 400, 99", "head: GPU 3 has 400 MiB in use and is 99 % busy"),
    ],
)
def test_the_measurement_does_not_start_on_gpus_that_are_in_use(head, apps, used, says):
    own = str(os.getpid())
    with_smi(head, apps.replace("PID", own), used)
    status, out, err = head.run(measure_request(head, f"touch {head.home}/started\n{REAL_RUN}"))
    assert (status, out) == (1, "")
    assert re.search("the GPUs are in use, so nothing was started: " + says.replace("PID", own), err)
    assert not (head.home / "started").exists()


@pytest.mark.parametrize("apps", ["", "77, nvidia-cuda-mps-server, 30\\n", "[N/A], [N/A], [N/A]\\n"])
def test_gpus_that_nobody_uses_are_measured(head, apps):
    with_smi(head, apps, "0, 600, 3")
    assert head.run(measure_request(head, REAL_RUN))[0] == 0


def test_a_nodes_driver_is_asked_once_for_its_gpus_and_after_the_run_only_for_counters(head):
    """If a driver does not stay loaded, each query takes about a second, so the runner asks for no more than it needs."""
    with_smi(head)
    assert head.run(measure_request(head, f"echo ranks >> {head.home}/asked\n{REAL_RUN}"))[0] == 0
    before, after = (head.home / "asked").read_text().split("ranks\n")
    assert sorted(line.split("=")[0] for line in before.splitlines()) == ["--query-compute-apps", "--query-gpu", "nvlink -gt d"]
    assert after == "nvlink -gt d\n"


def test_a_node_with_fewer_gpus_is_named_before_anything_runs(head):
    status, _, err = head.run(measure_request(head, REAL_RUN, gpus=8))
    assert status == 1
    assert "head shows 2 GPUs, but its shape has 8" in err


def test_the_plan_is_printed_as_commands_that_can_be_typed_by_hand(head):
    planned = measure_request(head, REAL_RUN)
    planned["steps"][0]["ranks"]["environment"] = {"NCCL_TESTS_SPLIT": "MOD 8"}
    status, out, _ = head.run(planned, "plan")
    assert status == 0
    assert f"cat > {head.home}/plan/hosts <<'END'\nlocalhost slots=2\nEND" in out
    assert f"launcher/bin/mpirun --bind-to none -np 2 -npernode 2 --hostfile {head.home}/plan/hosts" in out
    assert "-x 'NCCL_TESTS_SPLIT=MOD 8'" in out
    assert not (head.home / ".busbar").exists()


def test_the_failure_of_a_step_that_does_not_decide_is_reported_but_does_not_fail_the_run(head):
    request = measure_request(head, REAL_RUN)
    request["steps"].append(step_of(head, "echo error: no GPU; exit 4\n", "spread", decides=False))
    status, out, err = head.run(request)
    assert status == 0, err
    assert "the run spread exited with status 4: error: no GPU" in json.loads(out)["steps"][1]["failed"]


def test_nccls_transport_lines_are_counted_and_nccls_log_files_are_removed(head):
    said = (
        "printf 'h:1:1 [0] NCCL INFO NET/Socket : Using [0]fab0:10.9.0.1<0>\\n"
        "h:1:1 [0] NCCL INFO Using network Socket\\n"
        "h:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\\n"
        "h:1:1 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0\\n"
        "h:1:1 [0] NCCL INFO Channel 01/0 : 8[0] -> 0[0] [receive] via NET/IB/1(3)/GDRDMA\\n"
        "h:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/IB/1/GDRDMA/Shared\\n"
        "h:1:1 [0] NCCL INFO CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA\\n"
        "h:1:1 [0] NCCL INFO Coll 00 : 0 [receive] via COLLNET/SHARP/0\\n"
        "h:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA\\n' > $HOME/nccl/nccl.h.1\n"
    )
    status, out, err = head.run(measure_request(head, said + REAL_RUN))
    assert status == 0, err
    transport = json.loads(out)["transport"]
    assert transport["said"] == {
        "networks": {"Socket": 1},
        "devices": {"NET/Socket : Using [0]fab0": 1},
        "gpudirect": {"NET": 1, "GDRDMA": 3},
        "channels": {"P2P/CUMEM": 1, "NET/IB/0": 1, "NET/IB/1": 2, "COLLNET/SHARP": 2, "NET/AWS Libfabric/0": 1},
    }
    assert transport["through_host_memory"] == ["head"]
    assert not (head.home / "nccl").exists()


def test_an_absent_fabric_interface_is_named_and_nccl_chooses_an_interface_itself(head):
    request = measure_request(head, f'echo "$SAID" > {head.home}/words\n' + REAL_RUN, fabric=["fab0"])
    request["steps"][0]["ranks"]["environment"] = {"NCCL_SOCKET_IFNAME": "=fab0", "NCCL_DEBUG": "INFO"}
    status, out, err = head.run(request)
    assert status == 0, err
    said = "head has no interface fab0 that is up, so NCCL chose an interface itself"
    assert json.loads(out)["inventory"]["differences"] == [said]
    words = (head.home / "words").read_text()
    assert "-x NCCL_DEBUG=INFO" in words
    assert "NCCL_SOCKET_IFNAME" not in words


def test_groups_that_run_at_the_same_time_are_told_apart_by_the_times_of_their_ranks(head):
    document = json.loads((GOLDEN / "h200x2.json").read_text())
    document["results"] = document["results"][-1:]
    size = document["results"][0]["size"]
    spread = dict.fromkeys(("min_us", "max_us", "avg_us", "p50_us", "p95_us", "p99_us", "stdev_us", "cv_pct"), 1.0)
    times = [[9e9, 1000.0, 1010.0, 990.0], [9e9, 2000.0, 2020.0, 1980.0]]
    spread |= {"skipped_iterations": 1, "times_us": [1.0] * 4, "per_process_max_times_us": times}
    document["results"][0]["out_of_place_per_iter"] = spread
    (head.home / "groups.json").write_text(json.dumps(document))
    body = f"cat {GOLDEN}/h200x2.txt\ncp $HOME/groups.json $HOME/plan/result.json\n"
    request = measure_request(head, REAL_RUN)
    request["steps"].append(step_of(head, body, "rails", stage="rails", groups=2, decides=False))
    status, out, err = head.run(request)
    assert status == 0, err
    # In the first run each group has one rank. Nothing moves between ranks, so busbw is 0.
    assert json.loads(out)["steps"][1]["groups_gb_s"] == [0.0, 0.0]
    # In the second run each group has two ranks, so busbw follows from the times.
    request["run_id"] = "measure2"
    request["steps"][1]["ranks"]["per_node"] = 4
    spread["per_process_max_times_us"] = [*times, *times]
    (head.home / "groups.json").write_text(json.dumps(document))
    status, out, err = head.run(request)
    assert status == 0, err
    assert json.loads(out)["steps"][1]["groups_gb_s"] == [
        pytest.approx(size / 1e6, rel=1e-4),
        pytest.approx(size / 2e6, rel=1e-4),
    ]


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 1, "kind": "dance", "run_id": "x", "timeout_s": 1}', "[1]"])
def test_an_invalid_request_is_refused(head, text):
    child = head.start("run")
    _, err = child.communicate(text, timeout=30)
    assert child.returncode == 1
    assert "request" in err


def asked(head: Head, text: str) -> dict:
    """Return the line that the runner prints for the engine; a refusal, too, is a line with exit status 0."""
    child = head.start("ask")
    out, err = child.communicate(text, timeout=60)
    assert child.returncode == 0, err
    (line,) = out.splitlines()
    return json.loads(line)


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("", "", "the request is invalid: Expecting value"),
        ('{"schema": 1, "kind": "measure", "run_id": "x"}', "measure", "the request is invalid: schema is 1; it must be 2"),
    ],
)
def test_an_invalid_request_from_the_engine_gives_a_line_with_the_reason(head, text, kind, why):
    found = asked(head, text)
    assert (found["kind"], found["schema"]) == (kind, 2)
    assert found["failed"].startswith(why)


def test_a_refused_measurement_gives_the_engine_a_line_with_the_reason_and_is_made_at_the_next_attempt(head):
    with_smi(head, "77, python3, 30\\n", "0, 600, 3")
    request = json.dumps(measure_request(head, REAL_RUN))
    found = asked(head, request)
    assert load(Refused, found) == Refused(found["run_id"], found["failed"], "measure")
    assert "the GPUs are in use, so nothing was started: head: process 77 (python3)" in found["failed"]
    with_smi(head, "", "0, 600, 3")
    assert "failed" not in asked(head, request)


@pytest.mark.parametrize("place", [".busbar", ".busbar/runs"])
def test_if_the_head_node_lacks_disk_space_or_rights_the_line_says_so_but_the_next_attempt_measures(head, place):
    """A file in place of a folder stands in for a full disk: in both cases nothing can be created there."""
    path = head.home / place
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    request = json.dumps(measure_request(head, REAL_RUN))
    assert "busbar/runs" in asked(head, request)["failed"]
    path.unlink()
    assert "failed" not in asked(head, request)


@pytest.mark.parametrize(("left", "refused"), [("", False), ("head -c 4096 $HOME/plan/result.json >$HOME/cut", True)])
def test_a_result_cut_by_a_full_disk_is_refused_and_measured_again_by_the_next_attempt(head, left, refused):
    """A link to /dev/full plays a full disk. If the disk has space, a truncated result is only a problem of the step."""
    room = head.home / "plan" / "result.json.room"
    body = f"{REAL_RUN}{left}\n[ -z '{left}' ] || mv $HOME/cut $HOME/plan/result.json; ln -s /dev/full {room}\n"
    request = json.dumps(measure_request(head, body))
    found = asked(head, request)
    assert ("failed" in found) == refused, found
    if refused:
        assert "No space left on device" in found["failed"]
        request = json.dumps(measure_request(head, body.replace("ln -s /dev/full", ": ")))
        again = asked(head, request)
        assert "failed" not in again, again
        assert "the JSON result is cut" in again["steps"][0]["problems"][0], "the disk has space, so the run is at fault"


def test_a_full_disk_on_the_node_that_writes_the_result_is_an_error_but_an_unreachable_node_is_only_a_problem(
    head, monkeypatch
):
    monkeypatch.setenv("PATH", head.environment["PATH"])
    result = head.home / "plan" / "result.json"
    job = program_run.Job("all_reduce", ["cat", str(GOLDEN / "h200x2.txt")], str(result), 30, result_at="10.0.1.3")
    head.tool("ssh", 'for last; do :; done; exec sh -c "$last"\n')
    result.parent.mkdir()
    result.with_name("result.json.room").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"^10\.0\.1\.3: .*No space left on device$"):
        program_run.run(job, str(head.home), lambda _: None)
    found = program_run.run(job, str(head.home), lambda _: None)
    assert "the JSON result could not be used" in found.problems[0]
    head.tool("ssh", "exit 255\n")
    found = program_run.run(job, str(head.home), lambda _: None)
    assert "the JSON result could not be used: 10.0.1.3: " in found.problems[0]


@pytest.fixture
def near():
    """A head node with a short home path, because a socket's path must be short."""
    with tempfile.TemporaryDirectory(prefix="bb") as folder:
        yield Head(Path(folder))


def test_a_connection_to_each_further_node_is_opened_before_the_calls_that_may_share_it(near):
    """The stand-in for ssh logs its arguments and runs the command on this machine."""
    near.tool("ssh", f'echo "$*" >> {near.home}/calls; for last; do :; done; exec sh -c "$last"\n')
    nodes = [*NODE, {"name": "other", "address": "127.0.0.2"}]
    status, _, err = near.run(build_request(near, nodes=nodes))
    assert status == 0, err
    kept, spread = (near.home / "calls").read_text().splitlines()[:2]
    assert "-o ControlPath=~/.busbar/ssh/%C -o ControlMaster=auto -o ControlPersist=60 127.0.0.2 true" in kept
    assert "-o ControlPath=~/.busbar/ssh/%C 127.0.0.2 (cd " in spread
    assert (near.home / ".busbar/ssh").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("said", "setting"), [("9.0", "NVCC_GENCODE=-gencode=arch=compute_90,code=sm_90"), ("Unknown field", "")]
)
def test_the_build_is_only_for_the_head_nodes_gpu_if_the_gpus_architecture_is_known(near, said, setting):
    near.tool("nvidia-smi", f"echo '{said}'\n")
    status, _, err = near.run(build_request(near))
    assert status == 0, err
    (words,) = [line for line in err.splitlines() if line.startswith("building nccl-tests")]
    assert [word for word in words.split() if word.startswith("NVCC_GENCODE=")] == ([setting] if setting else [])
    assert f" -j {os.cpu_count()} " in words


def test_programs_are_not_written_again_to_a_node_that_shares_its_home_with_the_head_node(near):
    near.tool("ssh", 'for last; do :; done; exec sh -c "$last"\n')
    near.tool("tar", "echo a shared file is written while it is read >&2; exit 3\n")
    nodes = [*NODE, {"name": "other", "address": "127.0.0.2"}]
    status, _, err = near.run(build_request(near, nodes=nodes))
    assert status == 0, err


def test_a_node_without_the_programs_gets_all_of_them_but_no_other_file(near):
    """The node `other` has its own home folder; the head node keeps the test's home folder."""
    far = near.home / "far"
    near.tool("ssh", f'for last; do :; done; exec sh -c "$(echo "$last" | sed s,{near.home},{far},g)"\n')
    far.mkdir()
    nodes = [*NODE, {"name": "other", "address": "127.0.0.2"}]
    status, out, err = near.run(build_request(near, nodes=nodes))
    assert status == 0, err
    assert f"spreading {len(json.loads(out)['hashes'])} programs to 2 nodes\n" in err
    spread = [path.relative_to(far) for path in far.rglob("*") if path.is_file()]
    assert [path.name for path in spread] == sorted(json.loads(out)["hashes"])
    (folder,) = {(far / path).parent for path in spread}
    assert list(folder.parent.iterdir()) == [folder]


def test_no_connection_is_shared_if_the_home_path_is_too_long_for_a_socket(near):
    deep = near.home / ("d" * 60)
    deep.mkdir()
    there = Head(deep)
    status, out, err = there.run(build_request(there))
    assert (status, json.loads(out)["shared"]) == (0, ""), err
    status, out, err = near.run(build_request(near))
    assert (status, json.loads(out)["shared"]) == (0, "~/.busbar/ssh/%C"), err


def test_packing_the_runner_twice_gives_the_same_bytes():
    assert pack.runner() == pack.runner()


@pytest.mark.parametrize(("status", "read"), [(1, True), (7, True), (139, False)])
def test_the_rows_of_a_failed_run_are_read_unless_a_signal_killed_the_run(head, status, read):
    found = head.run(measure_request(head, f"{REAL_RUN}echo '# Out of bounds values : 5 FAILED'; exit {status}\n"))
    step = json.loads(found[1])["steps"][0]
    assert bool(step.get("rows")) == read


def test_a_killed_rank_is_named_as_the_cause_whatever_else_was_printed():
    killed = "mpirun noticed that process rank 5 with PID 812 on node gpu-2 exited on signal 9 (Killed)."
    assert program_run._cause(["# nccl-tests version 2.19.6", "an error on the way down", killed]) == killed  # noqa: SLF001
