"""A build in a containerd container as a node runs it: runner and processes are real; nerdctl and sudo are stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from fake_head import MAKEFILE, Head, build_request, lay

from benchmarks.runner import child

pytestmark = pytest.mark.programs

FAKES = Path(__file__).parents[1] / "fakes"
IMAGE = "nvcr.io/nvidia/tensorflow:25.02-tf2-py3"
DIGEST = "a" * 64


@pytest.fixture
def head(tmp_path):
    made = Head(tmp_path)
    (tmp_path / "bin" / "nerdctl").symlink_to(FAKES / "nerdctl")
    made.tool("sudo", '[ "$1" = -n ] || exit 1\nshift\nexec "$@"\n')
    made.tool("containerd", "echo containerd v2.2.0\n")
    (tmp_path / "registry").mkdir()
    holds(made, [{"Id": f"sha256:{DIGEST}", "Size": 14}])
    return made


def holds(head: Head, found: object) -> None:
    """Set what the stand-in for the registry answers about the image."""
    (head.home / "registry" / IMAGE.replace("/", "+")).write_text(json.dumps(found))


def request(head: Head, **changes) -> dict:
    asked = build_request(head, MAKEFILE)
    inside = {
        "mpi/include/mpi.h": "",
        "mpi/bin/mpirun": "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.7'\n",
        "cuda-12.8/bin/nvcc": "",
        "nccl/include/nccl.h": "#define NCCL_MAJOR 2\n#define NCCL_MINOR 25\n#define NCCL_PATCH 1\n",
    }
    lay(head, inside)
    homes = {f"{name.upper()}_HOME": [f"{head.home}/inside/{name}*"] for name in ("mpi", "cuda", "nccl")}
    # The node's own software must not matter: a platform image has a driver and nothing else.
    asked["homes"] = {key: ["/nowhere"] for key in asked["homes"]}
    image = {"uri": IMAGE, "path": "", "sha256": "", "shared": "", "homes": homes, "runtime": "containerd"}
    return asked | {"container": image} | changes


def built(head: Head, **changes) -> dict:
    status, out, err = head.run(request(head, **changes))
    assert status == 0, err
    return dict(json.loads(out)) | {"said": err}


def refused(head: Head) -> str:
    status, out, err = head.run(request(head))
    assert (status, out) == (1, ""), err
    return err.splitlines()[-1]


def calls(head: Head, verb: str) -> list[list[str]]:
    listed = [json.loads(line) for line in (head.home / "nerdctl.calls").read_text().splitlines()]
    return [words for words in listed if words[0] == verb]


def test_the_line_of_the_build_has_the_digest_and_versions_of_the_image_which_is_pulled_only_once(head):
    line = built(head)
    assert f"pulling {IMAGE}" in line["said"]
    assert line["container"]["runtime"] == "containerd"
    assert line["container"]["sha256"] == line["hashes"]["image"] == line["versions"]["image_sha256"] == DIGEST
    found = line["versions"]
    assert (found["image"], found["nccl"], found["cuda"]) == (IMAGE, "2.25.1", "cuda-12.8")
    assert found["gpus_inside"] == "2 x NVIDIA H200, 570.1"
    assert built(head, run_id="build2")["versions"] == found
    assert len(calls(head, "pull")) == 1


def test_nccl_tests_are_built_in_the_image_whose_mpi_is_named_in_the_line_of_the_build(head):
    line = built(head)
    program = (Path(line["binaries"]) / "all_reduce_perf").read_text()
    assert f"{head.home}/inside/mpi {head.home}/inside/nccl" in program
    assert line["mpi_home"] == f"{head.home}/inside/mpi"


def test_a_command_in_the_container_runs_as_the_calling_user_with_every_gpu_and_with_unchanged_arguments(head):
    line = built(head)
    words = ["a b", "$HOME", "'", '"', "*"]
    start = [*line["container"]["start"], "sh", "-c", 'printf "%s\\n" "$LD_LIBRARY_PATH" "$HOME" "$TOKEN" "$@"', "sh", *words]
    done = subprocess.run(
        start, env=head.environment | {"TOKEN": "x"}, capture_output=True, text=True, check=True, cwd=head.home, timeout=60
    )
    inside = f"{head.home}/inside"
    libraries = f"/image/lib:{inside}/mpi/lib:{inside}/mpi/lib64:{inside}/nccl/lib:{inside}/nccl/lib64:{inside}/cuda-12.8/lib64"
    assert done.stdout.splitlines() == [libraries, str(head.home), "", *words]
    given = calls(head, "run")[-1]
    for option in (("--device", "nvidia.com/gpu=all"), ("--user", f"{os.getuid()}:{os.getgid()}"), ("--ulimit", "memlock=-1")):
        assert option in list(pairwise(given)), option
    assert {"--rm", "--pull=never", "--network=host", "--uts=host", "--ipc=host"} <= set(given)
    assert f"{head.home}/.busbar:{head.home}/.busbar" in given
    assert calls(head, "rm")[-1] == ["rm", "--force", "busbar"], "a container that a killed run left behind is removed"


def test_the_plan_shows_the_commands_and_starts_nothing(head):
    status, out, err = head.run(request(head), "plan")
    assert status == 0, err
    assert f"sudo -n {head.home}/bin/nerdctl pull {IMAGE}" in out
    assert "--device nvidia.com/gpu=all" in out
    assert not (head.home / "nerdctl.calls").exists(), "the plan starts nothing"


def without_nerdctl(head: Head) -> None:
    (head.home / "bin" / "nerdctl").unlink()


def without_image(head: Head) -> None:
    (head.home / "registry" / IMAGE.replace("/", "+")).unlink()


def without_gpus(head: Head) -> None:
    (head.home / "no-cdi").touch()


def with_one_gpu(head: Head) -> None:
    (head.home / "inside-bin").mkdir()
    tool = head.home / "inside-bin" / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho NVIDIA H200, 570.1\n")
    tool.chmod(0o755)


def without_digest(head: Head) -> None:
    holds(head, [{"Size": 14}])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without_nerdctl, f"the node has no nerdctl, but ranks are to run in {IMAGE}; first boot installs nerdctl on new"),
        (without_image, f"containerd did not pull {IMAGE}: failed to resolve reference {IMAGE}: not found"),
        (without_gpus, "unresolvable CDI devices nvidia.com/gpu=all"),
        (with_one_gpu, f"nvidia-smi in {IMAGE}: sees 1 of the node's 2 GPUs; containers get GPUs from the CDI specification"),
        (without_digest, f"nerdctl reports no digest of {IMAGE}"),
    ],
)
def test_a_program_or_image_or_gpu_or_digest_that_is_missing_is_reported_in_one_sentence(head, change, sentence):
    change(head)
    assert sentence in refused(head)


def test_a_process_started_by_sudo_is_killed_by_sudo(monkeypatch, tmp_path):
    """This user cannot signal root's processes, and a container that keeps running would keep its output open forever."""
    sudo = tmp_path / "sudo"
    sudo.write_text(f'#!/bin/sh\necho "did $*" >> {tmp_path}/calls\n[ "$1" = -n ] && shift\nexec "$@"\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def denied(*_: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "killpg", denied)
    with child.bounded(["sleep", "60"], 0.1) as started:
        assert list(started.lines()) == []
        assert started.status() == -15
    assert started.late
    assert (tmp_path / "calls").read_text().startswith("did -n kill -s 15 -- -")
