"""A whole stack on OCI with one GPU instance: the instance has no MPI, and the ranks run in containerd.

Engine and program are real.

The tests build on each other: each continues where the previous one ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

import pytest

from tools.stage import Finished, Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("oci-single")]

IMAGE = "nvcr.io/nvidia/tensorflow:25.02-tf2-py3"


def ranks_in(image: str) -> dict[str, object]:
    return {"oci": {"container": {"image": image}}}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[tuple[Stage, Finished]]:
    """The stack with its own stack file and a short plan of measurements, after `up`; and the update's output."""
    stage = Stage(tmp_path_factory.mktemp("oci-single"), "oci-single")
    yield stage, stage.pass_by()
    stage.close()


@pytest.fixture(scope="module")
def digest(built) -> str:
    """The image's digest, as the first measurement found it."""
    return str(built[0].outputs()["measured"]["versions"]["image_sha256"])


def test_the_gate_of_one_instance_measured_in_its_container_is_a_share_of_the_nvlink_rate(built):
    stage, found = built
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert measured["verdict"] == "pass"
    assert measured["busbw_gb_s"] > measured["gate"]["limit_gb_s"]
    assert measured["gate"]["why"] == "0.72 of NVLink's 0.075 GB/s (1 x BM.GPU4.8, scaled by 1/4000)"
    kinds = [one["type"].rpartition(":")[2] for one in stage.resources()]
    assert not {"ClusterNetwork", "InstanceConfiguration"} & set(kinds)
    assert kinds.count("Instance") == 2, "the login node, and the node"


def test_checks_made_inside_the_container_are_in_the_outputs(built, digest):
    versions = built[0].outputs()["measured"]["versions"]
    assert versions["gpus_inside"] == "8 x NVIDIA A100-SXM4-40GB, 580.65.06"
    assert (versions["image"], len(digest)) == (IMAGE, 64)
    assert (versions["mpi"], versions["cuda"]) == (versions["mpirun"], "cuda-12.8")


def test_first_boot_follows_the_vendors_tutorial_and_keeps_images_on_the_machines_own_disks(built):
    shown = built[0].on_host(
        "date +%Z; findmnt -n -o TARGET /mnt/localdisk; sudo ls /mnt/localdisk/containerd; nvidia-ctk cdi list 2>/dev/null; "
        "ls -d /usr/mpi /opt/openmpi* 2>/dev/null || true"
    )
    assert shown.split() == ["JST", "/mnt/localdisk", "rehearsed", *(f"nvidia.com/gpu={gpu}" for gpu in (*range(8), "all"))]


#: Runs `sleep` in the container with the runner's own code and a time limit of 2 s; prints whether the limit was exceeded, and
#: two exit statuses of pgrep, for `sleep` and for nerdctl. An exit status of 1 means that the program no longer runs.
TOO_LONG = """
import glob, os, subprocess, sys
sys.path.insert(0, glob.glob(os.path.expanduser("~/busbar-runner-*.pyz"))[0])
from benchmarks.runner.child import bounded
(script,) = glob.glob(os.path.expanduser("~/.busbar/tests/*/container.conf"))
with bounded(["sh", script, "/usr/local/mpi/bin/mpirun", "-np", "2", "sleep", "300"], 2) as child:
    list(child.lines())
print(child.late, subprocess.call(["pgrep", "-x", "sleep"]), subprocess.call(["pgrep", "-f", "[n]erdctl run"]))
"""


def test_a_run_that_takes_too_long_is_stopped_together_with_its_container_although_the_container_runs_as_root(built):
    said = built[0].on_host(f"python3 -IS -c {quote(TOO_LONG)}")
    assert said.splitlines()[-1] == "True 1 1", said


def test_an_unchanged_update_changes_nothing(built):
    stage = built[0]
    found = stage.up(**stage.passed)
    assert found.status == 0, found
    assert not found.changes(), found


def test_an_image_that_cannot_be_pulled_is_named_and_the_pass_of_the_former_image_is_not_shown_any_more(built):
    stage = built[0]
    found = stage.up(**ranks_in("docker://nvcr.io#nvidia/tensorflow:none"))
    assert found.status != 0
    assert "containerd did not pull nvcr.io/nvidia/tensorflow:none: " in found.text
    assert "nvcr.io/nvidia/tensorflow:none: not found" in found.text
    measured = stage.outputs()["measured"]
    assert (measured["verdict"], measured["refused"], measured["versions"]) == ("unknown", True, {})
    assert "containerd did not pull nvcr.io/nvidia/tensorflow:none: " in measured["reasons"][0]


def test_gpus_that_the_container_lacks_are_reported_before_anything_is_built(built, digest):
    stage = built[0]
    stage.on_host("sudo rm /etc/cdi/nvidia.yaml")
    found = stage.up(**ranks_in(f"docker://nvcr.io#nvidia/tensorflow@sha256:{digest}"))
    assert found.status != 0
    assert "unresolvable CDI devices nvidia.com/gpu=all; containers get GPUs from the CDI specification" in found.text
