"""A build in a container as a head node runs it: with the real runner and real processes; enroot is a stand-in."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest
from fake_head import MAKEFILE, Head, archive, build_request, lay

pytestmark = pytest.mark.programs

FAKES = Path(__file__).parents[1] / "fakes"
URI = "docker://r.io#tests:1"


@pytest.fixture
def head(tmp_path):
    made = Head(tmp_path)
    (tmp_path / "bin" / "enroot").symlink_to(FAKES / "enroot")
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "tests:1").write_text("image\n")
    made.environment["LD_LIBRARY_PATH"] = "/of/the/node"
    return made


def request(head: Head, mpi: str = "mpirun (Open MPI) 4.1.7", **changes) -> dict:
    asked = build_request(head, MAKEFILE)
    for place in ("mpi-4.1.10", "mpi-4.1.2"):
        (head.home / place / "bin/mpirun").write_text("#!/bin/sh\necho mpirun '(Open MPI)' 4.1.10\n")
    inside = {
        "mpi/include/mpi.h": "",
        "mpi/bin/mpirun": f"#!/bin/sh\necho '{mpi}'\n",
        "cuda-12.8/bin/nvcc": "",
        "cuda-12.10/bin/nvcc": "",
        "nccl/include/nccl.h": "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 7\n#define NCCL_CODE 22707\n",
    }
    lay(head, inside)
    homes = {
        "MPI_HOME": ["/nowhere/mpi", f"{head.home}/inside/mpi"],
        "CUDA_HOME": [f"{head.home}/inside/cuda-*"],
        "NCCL_HOME": [f"{head.home}/inside/nccl"],
    }
    # The node's own CUDA and NCCL must not matter.
    asked["homes"] |= {"CUDA_HOME": ["/nowhere"], "NCCL_HOME": ["/nowhere"]}
    image = {"uri": URI, "path": "", "sha256": "", "shared": str(head.home / "fsx"), "homes": homes}
    return asked | {"container": image | changes.pop("container", {})} | changes


def built(head: Head, **changes) -> dict:
    status, out, err = head.run(request(head, **changes))
    assert status == 0, err
    line = json.loads(out)
    line["said"] = err
    return line


def refused(head: Head, **changes) -> str:
    status, out, err = head.run(request(head, **changes))
    assert (status, out) == (1, ""), err
    return err.splitlines()[-1]


def calls(head: Head, verb: str) -> list[str]:
    return [line for line in (head.home / "enroot.calls").read_text().splitlines() if line.split()[0] == verb]


def test_the_line_of_the_build_has_the_checksum_and_versions_of_the_image_in_the_shared_folder(head):
    line = built(head)
    file = Path(line["container"]["file"])
    assert file.parent == head.home / "fsx/.busbar/images"
    assert line["container"]["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest() == line["hashes"]["image"]
    assert line["container"]["reference"] == URI
    assert "Querying registry" in line["said"]
    assert "unpacking the image on 1 nodes" in line["said"]
    assert len(calls(head, "create")) == 1
    assert {
        name: line["versions"][name] for name in ("image", "image_sha256", "mpi", "mpirun", "nccl", "cuda", "nccl_tests")
    } == {
        "image": URI,
        "image_sha256": line["container"]["sha256"],
        "mpi": "mpirun (Open MPI) 4.1.7",
        "mpirun": "mpirun (Open MPI) 4.1.10",
        "nccl": "2.27.7",
        "cuda": "cuda-12.10",
        "nccl_tests": "2.19.6",
    }


def test_nccl_tests_are_built_against_the_image_and_started_by_the_nodes_mpirun(head):
    line = built(head)
    program = (Path(line["binaries"]) / "all_reduce_perf").read_text()
    assert f"{head.home}/inside/mpi {head.home}/inside/nccl" in program
    assert line["mpi_home"] == f"{head.home}/mpi-4.1.10"
    assert line["cuda_home"] == f"{head.home}/inside/cuda-12.10"


def test_a_rank_gets_the_variables_of_mpi_and_nccl_and_no_other_variables_of_the_node(head):
    line = built(head)
    rank = {
        "NCCL_DEBUG": "INFO",
        "OMPI_COMM_WORLD_RANK": "3",
        "PMIX_RANK": "3",
        "FI_PROVIDER": "efa",
        "OPAL_PREFIX": "/node/mpi",
    }
    found = subprocess.run(
        [*line["container"]["start"], f"{line['binaries']}/all_reduce_perf", "-b", "8"],
        env=head.environment | rank,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    seen = dict(row.split("=", 1) for row in found.stdout.splitlines() if "=" in row)
    assert {name: seen.get(name) for name in rank} == rank | {"OPAL_PREFIX": None}
    assert "PLANTED_TOKEN" not in seen
    assert seen["HOME"] == str(head.home)
    assert seen["NVIDIA_VISIBLE_DEVICES"] == "all"
    inside = head.home / "inside"
    libraries = f"{inside}/mpi/lib:{inside}/mpi/lib64:{inside}/nccl/lib:{inside}/nccl/lib64:{inside}/cuda-12.10/lib64"
    assert seen["LD_LIBRARY_PATH"] == f"/image/lib:{libraries}"
    mounts = [row.split()[:2] for row in (head.home / "mounts").read_text().splitlines()]
    assert mounts == [["/tmp", "/tmp"], [f"{head.home}/.busbar"] * 2]  # noqa: S108 - MPI's session folder


def test_a_complete_image_is_not_imported_again_but_a_truncated_image_is(head):
    first = built(head)
    second = built(head, run_id="build2")
    assert len(calls(head, "import")) == 1
    assert len(calls(head, "create")) == 1
    assert second["container"]["sha256"] == first["container"]["sha256"]
    assert ["the image is already imported" in line["said"] for line in (first, second)] == [False, True]
    Path(first["container"]["file"]).write_text("image, cut o")
    assert built(head, run_id="build3")["container"]["sha256"] != first["container"]["sha256"]
    assert len(calls(head, "import")) == 2


def test_the_part_that_a_broken_off_import_left_does_not_prevent_the_next_import(head):
    file = Path(built(head)["container"]["file"])
    file.unlink()
    part = file.with_name(f"{file.name}.build2")
    part.write_text("half an im")
    assert built(head, run_id="build2")["container"]["file"] == str(file)
    assert file.read_text().startswith("image\n")
    assert not part.exists()


def test_the_folder_of_images_is_private_and_is_refused_if_others_may_write_to_it_or_its_path_contains_a_link(head):
    images = Path(built(head)["container"]["file"]).parent
    assert [one.stat().st_mode & 0o777 for one in (images.parent, images)] == [0o700, 0o700]
    images.chmod(0o777)
    why = refused(head, run_id="build2")
    assert f"{images} is not a folder that only the login user can write to" in why
    assert why.endswith("remove the folder; nothing was started")
    images.chmod(0o700)
    images.parent.rename(images.parent.with_name("theirs"))
    images.parent.symlink_to(images.parent.with_name("theirs"))
    assert f"{images.parent} is not a folder that only the login user" in refused(head, run_id="build3")


def test_without_a_shared_folder_the_head_node_copies_the_image_to_every_node(head):
    head.tool(
        "ssh",
        f'for word; do :; done\n[ "{head.home}" ] && sh -c "$(echo "$word" | sed "s|{head.home}|{head.home}/other|g")"\n',
    )
    (head.home / "other").mkdir()
    nodes = [{"name": "head", "address": "127.0.0.1"}, {"name": "second", "address": "127.0.0.2"}]
    line = built(head, nodes=nodes, container={"shared": ""})
    file = Path(line["container"]["file"])
    assert file.is_relative_to(head.home / ".busbar")
    there = head.home / "other" / file.relative_to(head.home)
    assert there.read_bytes() == file.read_bytes()
    assert (head.home / "other" / Path(line["binaries"]).relative_to(head.home) / "container.conf").exists()


def test_a_node_that_does_not_have_the_image_is_named(head):
    shared = head.home / "fsx"
    shared.mkdir()
    (shared / "a.sqsh").write_text("image\n")
    head.tool("ssh", f'for word; do :; done\nsh -c "$(echo "$word" | sed "s|{shared}|{head.home}/elsewhere|g")"\n')
    nodes = [{"name": "head", "address": "127.0.0.1"}, {"name": "second", "address": "127.0.0.2"}]
    said = refused(head, nodes=nodes, container={"uri": "", "path": f"{shared}/a.sqsh"})
    assert "the image is not on every node: second (" in said
    assert "did not unpack it" in said


def test_a_pinned_image_file_must_match_its_checksum(head):
    (head.home / "a.sqsh").write_text("image\n")
    digest = hashlib.sha256(b"image\n").hexdigest()
    given = {"uri": "", "path": f"{head.home}/a.sqsh"}
    assert "is pinned; nothing was started" in refused(head, container=given | {"sha256": "0" * 64})
    line = built(head, run_id="build2", container=given | {"sha256": digest})
    assert (line["container"]["sha256"], line["versions"]["image"]) == (digest, f"{head.home}/a.sqsh")
    assert not calls(head, "import")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"container": {"uri": "docker://r.io#gone:1"}},
            "enroot did not import docker://r.io#gone:1: URL https://r.io/v2/gone:1/manifests/1 returned error code: 404 Not",
        ),
        ({"container": {"uri": "", "path": "/nowhere/a.sqsh"}}, "but the head node has no such file"),
        (
            {"container": {"homes": {"MPI_HOME": ["/"], "CUDA_HOME": ["/nowhere"], "NCCL_HOME": ["/"]}}},
            "the image has no MPI_HOME: no folder of the image like / contains include/mpi.h",
        ),
        ({"mpi": "mpirun (Open MPI) 5.0.3"}, "has 'mpirun (Open MPI) 5.0.3'; both must have the same major version"),
        ({"homes": {"MPI_HOME": ["/nowhere"]}}, "the head node has no MPI_HOME"),
    ],
)
def test_if_ranks_could_not_run_with_the_image_or_on_the_head_node_the_refusal_says_why(head, changes, sentence):
    assert sentence in refused(head, **changes)


def test_a_head_node_without_enroot_is_refused(head):
    (head.home / "bin" / "enroot").unlink()
    assert f"the head node has no enroot, but ranks are to run in {URI}" in refused(head)


def test_an_import_that_does_not_finish_is_stopped_at_its_timeout_and_leaves_no_file(head):
    (head.home / "slow").touch()
    assert "was not imported in time" in refused(head, timeout_s=2)
    assert not [path for path in (head.home / "fsx").rglob("*") if path.is_file()]


def test_a_file_that_is_not_an_image_is_refused_with_enroots_message(head):
    (head.home / "registry" / "tests:1").write_text("a page\n")
    assert "head ([ERROR] Invalid image format" in refused(head)


def test_the_plan_lists_commands_that_a_person_can_type(head):
    status, out, err = head.run(request(head), "plan")
    assert status == 0, err
    first, second, third = out.splitlines()
    assert first.startswith("enroot import --output ")
    assert first.endswith(f" '{URI}'")
    assert second.startswith("enroot create --name busbar ")
    assert third.startswith("enroot start --mount $HOME/.busbar:$HOME/.busbar busbar make -j ")
    assert "MPI_HOME=$MPI_HOME" in third


def test_the_plan_for_an_image_in_a_file_lists_no_import(head):
    status, out, err = head.run(request(head, container={"uri": "", "path": "/images/a.sqsh"}), "plan")
    assert status == 0, err
    assert out.splitlines()[0] == "enroot create --name busbar /images/a.sqsh"


def test_the_archive_of_nccl_tests_is_unpacked_in_a_folder_that_the_container_sees(head):
    data = archive("build:\n\tpwd > $(HOME)/where\n")
    asked = request(head)
    (head.home / "source.tar").write_bytes(data)
    asked["source"]["sha256"] = hashlib.sha256(data).hexdigest()
    head.run(asked)
    assert (head.home / "where").read_text().startswith(f"{head.home}/.busbar/runs/")
