"""The jobs of examples/slurm: their own scripts run; only Slurm's commands, containers and TensorFlow are stand-ins."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT

FOLDER = ROOT / "examples" / "slurm"
TABLE = ROOT / "tests" / "golden" / "transcripts" / "h200x2.txt"
EIGHT = ["all_reduce", "all_gather", "broadcast", "reduce", "reduce_scatter", "alltoall", "scatter", "gather"]

#: Starts the command once for each task, as srun does; records the options of srun and Pyxis; refuses other options.
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do
  case $1 in
    --nodes=*|--ntasks=*|--mpi=*|--cpu-bind=none|--label|--container-image=?*|--container-mounts=/*:/*) ;;
    --container-workdir=/*) folder=${1#*=} ;;
    *) echo "srun: unrecognized option '$1'" >&2; exit 1 ;;
  esac
  echo "$1" >> "$CALLS"
  shift
done
echo "$*" >> "$CALLS"
cd "${folder:-/}" || exit
for ((task = 0; task < SLURM_NTASKS; task++)); do SLURM_PROCID=$task "$@" || exit; done
"""
SCONTROL = """#!/bin/sh
[ "$1 $2 $3" = "show hostnames compute-dy-gpu-[1-2]" ] || exit 1
printf 'compute-dy-gpu-1\\ncompute-dy-gpu-2\\n'
"""
ENROOT = '#!/bin/sh\n[ "$1 $2" = "import --output" ] && [ -n "$4" ] || exit 1\necho "$4 $ENROOT_SQUASH_OPTIONS" > "$3"\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "bin").mkdir()
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "enroot": ENROOT}.items():
        program(tmp_path / "bin" / name, text)
    return tmp_path


def program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def submitted(home: Path, script: Path, tasks: int = 2, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script as the first node of its job does."""
    job = {"SLURM_JOB_ID": "10042", "SLURM_JOB_NODELIST": "compute-dy-gpu-[1-2]", "SLURM_NTASKS": str(tasks)}
    path = f"{home / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "CALLS": str(home / "calls"), "SLURM_SUBMIT_DIR": str(script.parent), **job, **more}
    return subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False, timeout=60)


def mnist(home: Path) -> Path:
    """Copy the job of MNIST, with a training program that only prints what TensorFlow would read."""
    shutil.copytree(FOLDER / "mnist", home / "mnist")
    (home / "mnist" / "train.py").write_text(
        "import os\nprint(os.environ['TF_CONFIG'])\nprint(os.environ['MNIST_HOSTS'], os.environ['ENROOT_SQUASH_OPTIONS'])\n"
    )
    return home / "mnist" / "mnist.sbatch"


def test_each_task_of_mnist_is_one_worker_of_the_same_cluster(home):
    done = submitted(home, mnist(home))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1::2] == ["compute-dy-gpu-1 compute-dy-gpu-2 -b 262144"] * 2
    found = [json.loads(line) for line in lines[::2]]
    workers = ["compute-dy-gpu-1:20042", "compute-dy-gpu-2:20042"]
    assert found == [{"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}} for index in (0, 1)]
    folder = home / "mnist"
    assert (home / "calls").read_text().splitlines() == [
        "--container-image=nvcr.io#nvidia/tensorflow:22.11-tf2-py3",
        f"--container-mounts={folder}:{folder}",
        f"--container-workdir={folder}",
        "--label",
        "python3 tf_config.py python3 train.py",
    ]


def test_more_tasks_than_nodes_are_refused_before_training(home):
    done = submitted(home, mnist(home), tasks=4)
    assert done.returncode == 1
    assert done.stderr == "tf_config.py: SLURM_NTASKS is 4, but the job has 2 nodes; start one task on each\n"
    assert not done.stdout


def test_tf_config_outside_a_job_names_every_missing_variable():
    words = [sys.executable, str(FOLDER / "mnist" / "tf_config.py"), "true"]
    done = subprocess.run(words, env={"SLURM_NTASKS": "2"}, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "tf_config.py: not set: MNIST_HOSTS, SLURM_JOB_ID, SLURM_PROCID; submit mnist.sbatch\n"


def collectives(home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    image = {"IMAGE": str(home / "tests.sqsh"), "TESTS": str(home / "build"), "TABLE": str(TABLE)}
    return submitted(home, FOLDER / "collectives.sbatch", tasks=1, **{**image, **more})


@pytest.fixture
def build(home: Path) -> Path:
    for name in EIGHT:
        program(home / "build" / f"{name}_perf", '#!/bin/sh\ncat "$TABLE"\n')
    return home / "build"


def test_the_image_is_imported_once_and_eight_collectives_run_in_the_image(home, build):
    done = collectives(home)
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.partition("== busbw, out of place\n")[2].splitlines()
    assert rows == [f"{name} 345.38 GB/s at 8589934592 bytes" for name in EIGHT]
    assert (home / "tests.sqsh").read_text().endswith("tests2.16.9 -b 262144\n")
    calls = (home / "calls").read_text().splitlines()
    assert calls.count(f"--container-image={home}/tests.sqsh") == len(EIGHT)
    assert [line for line in calls if "_perf" in line] == [f"{build}/{name}_perf -b 8 -e 16G -f 2 -g 1" for name in EIGHT]
    assert collectives(home).returncode == 0
    assert sum(line.startswith("enroot import") for line in (home / "calls").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [("#!/bin/sh\ncat $TABLE; exit 3\n", "reduce failed"), ("#!/bin/sh\necho NCCL\n", "reduce printed no row")],
)
def test_if_a_collective_fails_or_prints_no_row_the_job_fails_after_the_other_collectives_ran(home, build, text, said):
    program(build / "reduce_perf", text)
    done = collectives(home)
    assert done.returncode == 1
    assert done.stderr == "failed: reduce\n"
    rows = done.stdout.partition("== busbw, out of place\n")[2].splitlines()
    assert rows[EIGHT.index("reduce")] == said
    assert rows[-1] == "gather 345.38 GB/s at 8589934592 bytes"


@pytest.mark.parametrize(
    ("image", "why"),
    [("", "IMAGE: must be the path of the image"), ("tests.sqsh", "IMAGE is 'tests.sqsh'; it must be the absolute path")],
)
def test_an_image_without_an_absolute_path_is_refused(home, image, why):
    done = collectives(home, IMAGE=image)
    assert done.returncode != 0
    assert why in done.stderr
    assert not (home / "calls").exists()


@pytest.mark.usefixtures("build")
def test_an_import_that_fails_ends_the_job_and_leaves_no_image(home):
    program(home / "bin" / "enroot", "#!/bin/sh\necho '[ERROR] 404' >&2\nexit 5\n")
    done = collectives(home)
    assert done.returncode == 5
    assert not (home / "tests.sqsh").exists()
    assert "== all_reduce" not in done.stdout
