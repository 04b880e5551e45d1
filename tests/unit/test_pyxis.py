"""A build in a container of a Slurm job: runner and processes are real; enroot's import and Pyxis's containers are fakes."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from fake_head import MAKEFILE, Head, build_request, lay

pytestmark = pytest.mark.programs

FAKES = Path(__file__).parents[1] / "fakes"
URI = "docker://r.io#tests:1"


@pytest.fixture
def head(tmp_path):
    made = Head(tmp_path)
    for name in ("enroot", "srun"):
        (tmp_path / "bin" / name).symlink_to(FAKES / name)
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "tests:1").write_text("image\n")
    made.environment |= {"LD_LIBRARY_PATH": "/of/the/node", "BUSBAR_JOB": "7"}
    return made


def request(head: Head, **changes) -> dict:
    asked = build_request(head, MAKEFILE)
    inside = {
        "mpi/include/mpi.h": "",
        "mpi/bin/mpirun": "#!/bin/sh\necho 'mpirun (Open MPI) 5.0.3'\n",
        "cuda-12.10/bin/nvcc": "",
        "nccl/include/nccl.h": "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 7\n",
    }
    lay(head, inside)
    homes = {
        "MPI_HOME": [f"{head.home}/inside/mpi"],
        "CUDA_HOME": [f"{head.home}/inside/cuda-*"],
        "NCCL_HOME": [f"{head.home}/inside/nccl"],
    }
    # The node's own software does not matter.
    asked["homes"] = {key: ["/nowhere"] for key in homes}
    shared = str(head.home / "jobs")
    image = {"uri": URI, "path": "", "sha256": "", "shared": shared, "homes": homes, "runtime": "pyxis"}
    return asked | {"container": image | changes.pop("container", {})} | changes


def built(head: Head, **changes) -> dict:
    status, out, err = head.run(request(head, **changes))
    assert status == 0, err
    return json.loads(out)


def refused(head: Head, **changes) -> str:
    status, out, err = head.run(request(head, **changes))
    assert (status, out) == (1, ""), err
    return err.splitlines()[-1]


def test_the_image_is_imported_to_the_jobs_folder_while_the_line_of_the_build_has_the_versions_in_the_image(head):
    line = built(head)
    file = Path(line["container"]["file"])
    assert file.parent == head.home / "jobs/.busbar/images"
    assert line["container"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest() == line["hashes"]["image"]
    assert line["container"]["runtime"] == "pyxis"
    assert {name: line["versions"][name] for name in ("image", "image_sha256", "mpi", "nccl", "cuda", "nccl_tests")} == {
        "image": URI,
        "image_sha256": line["container"]["sha256"],
        "mpi": "mpirun (Open MPI) 5.0.3",
        "nccl": "2.27.7",
        "cuda": "cuda-12.10",
        "nccl_tests": "2.19.6",
    }
    assert "mpirun" not in line["versions"], "no mpirun starts the ranks"


def test_nccl_tests_are_built_against_the_image_in_one_task_on_the_first_node(head):
    nodes = [{"name": "gpu-1", "address": "10.0.0.1"}, {"name": "gpu-2", "address": "10.0.0.2"}]
    head.tool("ssh", 'for word; do :; done\nexec sh -c "$word"\n')
    line = built(head, nodes=nodes)
    program = (Path(line["binaries"]) / "all_reduce_perf").read_text()
    assert f"{head.home}/inside/mpi {head.home}/inside/nccl" in program
    (made,) = [call for call in (head.home / "srun.calls").read_text().splitlines() if " make " in call]
    assert "--nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist=gpu-1 " in made
    assert f"--container-image={line['container']['file']} " in made
    assert f"--container-mounts={head.home}/.busbar:{head.home}/.busbar " in made


def test_a_rank_gets_from_the_node_only_its_home_and_the_variables_for_gpus(head):
    line = built(head)
    at = line["container"]["start"].index("srun") + 1
    start = [*line["container"]["start"][:at], "--nodes=1", *line["container"]["start"][at:]]
    words = [*start, "env", "NCCL_DEBUG=INFO", f"{line['binaries']}/all_reduce_perf", "-b", "8"]
    found = subprocess.run(words, env=head.environment, capture_output=True, text=True, check=True, timeout=60)
    seen = dict(row.split("=", 1) for row in found.stdout.splitlines() if "=" in row)
    assert seen["NCCL_DEBUG"] == "INFO"
    assert "PLANTED_TOKEN" not in seen
    assert seen["HOME"] == str(head.home)
    assert (seen["NVIDIA_VISIBLE_DEVICES"], seen["NVIDIA_DRIVER_CAPABILITIES"]) == ("all", "compute,utility")
    inside = head.home / "inside"
    libraries = f"{inside}/mpi/lib:{inside}/mpi/lib64:{inside}/nccl/lib:{inside}/nccl/lib64:{inside}/cuda-12.10/lib64"
    assert seen["LD_LIBRARY_PATH"] == f"/image/lib:{libraries}"


def test_a_node_that_does_not_see_the_image_is_named(head):
    jobs = head.home / "jobs"
    head.tool("ssh", f'for word; do :; done\nsh -c "$(echo "$word" | sed "s|{jobs}|{head.home}/elsewhere|g")"\n')
    nodes = [{"name": "head", "address": "127.0.0.1"}, {"name": "second", "address": "127.0.0.2"}]
    said = refused(head, nodes=nodes)
    assert "the image is not on every node: second (" in said
    assert "did not see it" in said


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("without-pyxis", f"ranks are to run in {URI}, but this Slurm has no Pyxis; set slurm.containers in the stack file"),
        (
            "without-pmix",
            f"ranks are to run in {URI}, but this Slurm has no PMIx, by which ranks in containers find each other",
        ),
    ],
)
def test_a_slurm_that_could_not_start_ranks_in_an_image_is_refused_before_the_import(head, missing, sentence):
    (head.home / missing).touch()
    assert refused(head).endswith(sentence)
    assert not (head.home / "enroot.calls").exists()


def test_a_file_that_is_no_image_is_refused_with_the_message_of_pyxis(head):
    (head.home / "registry" / "tests:1").write_text("a page\n")
    said = refused(head)
    assert "the image does not start on the first node: pyxis: failed to create container filesystem for image: " in said


def test_a_pinned_image_file_must_match_its_checksum(head):
    (head.home / "a.sqsh").write_text("image\n")
    given = {"uri": "", "path": f"{head.home}/a.sqsh"}
    assert "is pinned; nothing was started" in refused(head, container=given | {"sha256": "0" * 64})
