"""The test job: which nodes it has, how commands reach these nodes within the job, and which results are kept."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from measurement_line import ASKED, BUILT, document

from benchmarks.host import requests
from benchmarks.launch import launcher, placeholders
from benchmarks.launch.protocol import Image, ImageLine, Job, Node, Source, data, load
from benchmarks.runner import __main__ as runner
from benchmarks.runner import build, jobs, measure, slurm_job
from benchmarks.runner.refusal import Refusal
from benchmarks.runner.slurm_job import Allocation, allocation, remote_shell
from catalogue import IMAGES
from catalogue.containers import Container, read

NODES = [Node("compute-dy-gpu-1", "10.0.1.3"), Node("compute-dy-gpu-2", "10.0.1.4")]
OURS = Allocation("7", NODES)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    source = Source("2.19.6", "0" * 64, path="/home/.busbar/tests.tar")
    text = requests.job(ASKED, source, IMAGES["ol8"].homes, network="10.0.1.0/24", keep=str(tmp_path), reasons=["r"])
    return load(Job, json.loads(text))


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put stand-ins for scontrol and srun on PATH; return their folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    says = {
        "scontrol": """case "$2$3" in
hostnames*) printf "compute-dy-gpu-1\\ncompute-dy-gpu-2\\n" ;;
*) printf "NodeName=compute-dy-gpu-1 NodeAddr=10.0.1.3 Arch=x\\nNodeName=compute-dy-gpu-2 NodeAddr=10.0.1.4\\n" ;;
esac""",
        "srun": 'echo "srun: $*" >&2; while [ "$1" != sh ]; do shift; done; exec "$@"',
    }
    for name, body in says.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def test_every_placeholder_of_a_test_jobs_plan_is_filled_with_the_names_and_addresses_of_the_nodes(job):
    known = {placeholders.name(n): node.name for n, node in enumerate(NODES)}
    known |= {placeholders.address(n): node.address for n, node in enumerate(NODES)}
    found = slurm_job.measurement(job, BUILT, known)
    text = json.dumps(data(found))
    assert "@" not in text
    assert found.nodes == NODES
    assert found.programs == BUILT.hashes
    assert found.binaries == BUILT.binaries
    assert found.launch.mpi_home == BUILT.mpi_home


def test_a_job_with_an_image_starts_its_ranks_in_the_image_that_the_build_imported(tmp_path):
    image = Container(read("docker://r.io#tests:1"), shared=str(tmp_path), runtime="pyxis")
    source = Source("2.19.6", "0" * 64, path="/home/.busbar/tests.tar")
    text = requests.job(
        ASKED, source, IMAGES["ol8"].homes, network="10.0.1.0/24", keep=str(tmp_path), reasons=["r"], container=image
    )
    job = load(Job, json.loads(text))
    assert job.build.container == Image("docker://r.io#tests:1", "", "", str(tmp_path), job.build.container.homes, "pyxis")
    start = ["srun", "--container-image=/x/a.sqsh", "/bin/sh", "/x/container.conf"]
    built = BUILT._replace(
        container=ImageLine("docker://r.io#tests:1", "/x/a.sqsh", "5" * 64, 9, start, "pyxis"),
        hashes={**BUILT.hashes, "image": "5" * 64},
    )
    known = {f"@{kind}{n}@": getattr(node, kind) for n, node in enumerate(NODES) for kind in ("name", "address")}
    found = slurm_job.measurement(job, built, known)
    assert found.programs == BUILT.hashes
    words = launcher.command(found.launch, found.nodes, [found.steps[0].ranks])
    assert words[:2] == ["srun", "--nodes=2"]
    assert words[words.index("--container-image=/x/a.sqsh") + 1] == "/bin/sh"
    assert not [word for word in words if word.startswith("LD_LIBRARY_PATH=")], "the image has its own libraries"
    assert "mpirun" not in " ".join(words)


def test_an_unknown_placeholder_is_an_error():
    with pytest.raises(KeyError):
        placeholders.filled({"a": ["@home@/x"]}, {})


def test_ranks_start_through_the_jobs_own_program_and_not_through_ssh_or_srun(job, monkeypatch):
    monkeypatch.setenv("BUSBAR_REMOTE_SHELL", "/home/opc/.busbar/jobs/7/shell")
    known = {f"@{kind}{n}@": getattr(node, kind) for n, node in enumerate(NODES) for kind in ("name", "address")}
    found = slurm_job.measurement(job, BUILT, known)
    words = launcher.command(found.launch, found.nodes, [found.steps[0].ranks])
    assert words[words.index("plm_rsh_agent") + 1] == "/home/opc/.busbar/jobs/7/shell"
    assert "salloc" not in words
    assert "plm_rsh_args" not in words
    # Open MPI's daemons must not detach from their step: Slurm would kill a detached daemon as a leftover of the step.
    assert words[words.index("orte_leave_session_attached") + 1] == "1"


@pytest.mark.usefixtures("slurm")
def test_the_nodes_of_a_job_are_listed_with_this_node_first():
    given = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "compute-dy-gpu-[1-2]", "SLURMD_NODENAME": "compute-dy-gpu-2"}
    assert allocation(given) == Allocation("7", NODES[::-1])


def test_outside_a_job_the_program_says_how_to_submit_the_program():
    with pytest.raises(Refusal, match="submit it with sbatch"):
        allocation({})


def test_a_slurm_that_does_not_answer_is_reported_in_a_sentence(slurm):
    (slurm / "scontrol").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2; exit 1\n")
    with pytest.raises(Refusal, match="which nodes the job has: Unable to contact slurm controller"):
        allocation({"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "x"})


def shell(tmp_path: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "shell"
    path.write_text(remote_shell(OURS))
    path.chmod(0o755)
    return subprocess.run(
        [str(path), *words], input="given", capture_output=True, text=True, check=False, env={**os.environ, **more}
    )


@pytest.mark.usefixtures("slurm")
def test_a_command_for_an_address_runs_on_the_jobs_node_that_has_that_address(tmp_path):
    done = shell(tmp_path, "10.0.1.4", "echo", "'a  b';", "cat", SLURM_STEP_ID="3")
    assert done.stdout == "a  b\ngiven"
    assert "--jobid=7" in done.stderr
    assert "--nodelist=compute-dy-gpu-2" in done.stderr
    assert "--overlap" in done.stderr


@pytest.mark.usefixtures("slurm")
def test_commands_in_a_job_get_no_variables_of_slurm(tmp_path):
    assert shell(tmp_path, "10.0.1.4", "env | grep -c ^SLURM", SLURM_STEP_ID="3", SLURM_NTASKS="1").stdout == "0\n"


def test_an_address_outside_the_job_is_refused(tmp_path):
    done = shell(tmp_path, "10.0.1.9", "true")
    assert (done.returncode, done.stderr) == (255, "10.0.1.9 is no node of job 7\n")


def test_the_transcript_of_a_node_that_will_be_terminated_is_copied_to_the_shared_folder(job, tmp_path, capsys):
    own = tmp_path / "node"
    own.mkdir()
    (own / "ab.txt.gz").write_bytes(b"transcript")
    line = {"evidence": {"path": str(own / "ab.txt.gz"), "sha256": "ab"}}
    slurm_job.share(job, line)
    assert line["evidence"] == {"path": f"{job.keep}/ab.txt.gz", "sha256": "ab"}
    assert (Path(job.keep) / "ab.txt.gz").read_bytes() == b"transcript"
    slurm_job.share(job._replace(keep=str(tmp_path / "none")), line)
    assert line["evidence"]["path"] == f"{job.keep}/ab.txt.gz", "a transcript that cannot be copied keeps its path"
    assert "the transcript stays on this node" in capsys.readouterr().out


@pytest.mark.usefixtures("slurm")
def test_a_job_with_another_number_of_nodes_than_planned_is_refused_before_anything_is_built(job, tmp_path, monkeypatch):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(data(job._replace(nodes=3))))
    monkeypatch.delenv("BUSBAR_REMOTE_SHELL", raising=False)
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("SLURM_JOB_NODELIST", "x")
    with pytest.raises(Refusal, match="planned for 3 nodes, but job 7 has 2"):
        slurm_job.main(str(path))


@pytest.mark.usefixtures("slurm")
def test_the_test_job_restarts_itself_without_slurms_variables_and_with_a_private_program_for_ranks(job, tmp_path, monkeypatch):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(data(job)))
    monkeypatch.delenv("BUSBAR_REMOTE_SHELL", raising=False)
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "x", "SLURM_NTASKS": "2", "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    started: dict[str, Any] = {}

    def execve(_: str, words: list[str], environment: dict[str, str]) -> None:
        started.update(words=words, environment=environment)
        raise SystemExit

    monkeypatch.setattr(slurm_job.os, "execve", execve)
    with pytest.raises(SystemExit):
        slurm_job.main(str(path))
    kept = started["environment"]
    assert not [name for name in kept if name.startswith("SLURM")]
    assert json.loads(kept["BUSBAR_JOB_NODES"]) == [list(node) for node in NODES]
    assert stat.S_IMODE(Path(kept["BUSBAR_REMOTE_SHELL"]).stat().st_mode) == 0o700


def measured(tmp_path: Path) -> dict[str, Any]:
    evidence = tmp_path / "evidence.txt.gz"
    evidence.write_bytes(gzip.compress(b"# busbar step all_reduce\n# the table\n# busbar step alltoall\n# another\n"))
    return document() | {"evidence": {"path": str(evidence), "sha256": "0" * 64}}


def test_a_job_prints_its_table_and_keeps_its_result_for_the_next_update(job, tmp_path, monkeypatch, capsys):
    line = measured(tmp_path)
    monkeypatch.setattr(build, "work", lambda *_: BUILT)
    monkeypatch.setattr(measure, "work", lambda *_: line)
    assert slurm_job.work(job, OURS, str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert "# the table" in said
    assert "# another" not in said
    assert "the next `pulumi up` exports it" in said
    kept = json.loads((tmp_path / f"{job.run_id}.json").read_text())
    assert (kept["job"], kept["nodes"], kept["measure"]["steps"]) == ("7", [node.name for node in NODES], line["steps"])
    assert requests.refused(json.dumps(kept)) == ""


def test_a_user_without_write_permission_can_measure_and_is_told_that_the_result_is_not_kept(
    job, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(build, "work", lambda *_: BUILT)
    monkeypatch.setattr(measure, "work", lambda *_: measured(tmp_path))
    monkeypatch.setattr(jobs, "write", lambda *_: (_ for _ in ()).throw(PermissionError(13, "Permission denied")))
    assert slurm_job.work(job, OURS, str(tmp_path)) == 0
    assert "the result is not kept for the next update ([Errno 13] Permission denied)" in capsys.readouterr().out


def test_a_refusal_ends_the_job_with_a_sentence(monkeypatch, capsys, tmp_path, job):
    path = tmp_path / "job.json"
    path.write_text(json.dumps(data(job)))
    monkeypatch.delenv("BUSBAR_REMOTE_SHELL", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert runner.main(["job", str(path)]) == 1
    assert capsys.readouterr().err.startswith("busbar: this program must run in a Slurm job")


def test_the_run_id_of_a_job_does_not_depend_on_the_run_number():
    def name(run: int) -> str:
        asked = ASKED.__class__(ASKED.plan.model_copy(update={"run": run}), ASKED.shape, ASKED.nodes)
        text = requests.job(asked, Source("1", "0", path="x"), IMAGES["ol8"].homes, network="", keep="/k", reasons=[])
        return str(json.loads(text)["run_id"])

    assert name(1) == name(2)
