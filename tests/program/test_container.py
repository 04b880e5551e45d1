"""Ranks in a container: names of images, refusals, requests, exact commands, and how measurements are judged."""

from __future__ import annotations

import base64
import json
from typing import Any

import pulumi
import pytest
from aws_line import measured
from aws_preview import parsed, run
from conftest import BUILD_LINE, groups, texts

from benchmarks.host import requests
from benchmarks.judge.verdict import SHORT, judge
from benchmarks.launch import launcher
from benchmarks.launch.protocol import Node
from benchmarks.plan import ranks, steps
from benchmarks.plan.asked import Asked
from catalogue.aws import STACK
from catalogue.aws.instances import INSTANCES
from catalogue.aws.versions import Stack
from catalogue.containers import ENROOT, HOMES_INSIDE, Reference, read, told
from config import read as stack_file

DIGEST = "sha256:" + "a" * 64
START = ["enroot", "start", "--conf", "/home/ubuntu/.busbar/tests/b/container.conf", "busbar-0123456789abcdef"]
#: The line of a build with the nccl-tests image that AWS publishes.
BUILT = json.loads(BUILD_LINE) | {
    "home": "/home/ubuntu",
    "mpi_home": "/opt/amazon/openmpi",
    "binaries": "/home/ubuntu/.busbar/tests/b",
    "hashes": {"all_reduce_perf": "0" * 64, "image": "1" * 64},
    "versions": {"nccl_tests": "2.19.6", "image": STACK.container, "image_sha256": "1" * 64, "efa": "1.43.2"},
    "container": {"reference": STACK.container, "file": "/fsx/x.sqsh", "sha256": "1" * 64, "bytes": 9, "start": START},
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (STACK.container, Reference(uri=STACK.container, tag=STACK.container.rpartition(":")[2])),
        (f"docker://r.io#a/b@{DIGEST}", Reference(uri=f"docker://r.io#a/b@{DIGEST}", digest=DIGEST)),
        (
            f"docker://r.io#a/b:latest@{DIGEST}",
            Reference(uri=f"docker://r.io#a/b:latest@{DIGEST}", tag="latest", digest=DIGEST),
        ),
        ("docker://me@r.io:5000#b:1", Reference(uri="docker://me@r.io:5000#b:1", tag="1")),
        ("/fsx/nccl-tests.sqsh", Reference(path="/fsx/nccl-tests.sqsh")),
    ],
)
def test_references_to_images_are_read_in_the_syntax_of_enroot(text, found):
    assert read(text) == found
    assert read(text).text == text


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"image": "dockerd://nccl-tests:1"},
            "dockerd:// reads images from a daemon on the machine itself, and nodes have no such daemon",
        ),
        ({"image": "podman://nccl-tests:1"}, "podman:// reads images from a daemon on the machine itself"),
        (
            {"image": "docker://nvcr.io/nvidia/pytorch:25.06-py3"},
            "between registry and image there must be a #, as in docker://nvcr.io#nvidia/pytorch:25.06-py3: without the #",
        ),
        ({"image": "docker://ubuntu:22.04"}, "between registry and image there must be a #"),
        ({"image": "docker://r.io#a/b"}, "which means the tag latest, and latest may be another image tomorrow"),
        ({"image": "docker://r.io#a/b:latest"}, "a measurement must record what it measured"),
        ({"image": "docker://r.io#a/b@sha256:abc"}, "which enroot cannot read"),
        ({"image": "docker://r.io#A/b:1"}, "which enroot cannot read"),
        ({"image": "docker://me:secret@r.io#a/b:1"}, "aws.container.image contains a password, which would be kept in"),
        ({"image": "nccl-tests:1"}, "aws.container.image is 'nccl-tests:1'; write docker://"),
        ({"image": "fsx/a.sqsh"}, "or the path of a .sqsh file that is on every node"),
        ({"image": "/fsx/a.tar"}, "must be the absolute path of an image"),
        ({"image": "/fsx/../etc/a.sqsh"}, "must be the absolute path of an image"),
        ({"sha256": "1" * 64, "image": "docker://r.io#a/b:1"}, "pin the image's digest: REGISTRY#IMAGE@sha256:"),
        ({"sha256": "xyz", "image": "/fsx/a.sqsh"}, "aws.container.sha256 is 'xyz'; it must be 64 hexadecimal digits"),
    ],
)
def test_an_image_or_checksum_that_cannot_be_used_is_refused_in_one_sentence(changes, sentence):
    with pytest.raises(pulumi.RunError) as found:
        parsed(aws={"container": changes})
    assert sentence in str(found.value)
    assert len(str(found.value).splitlines()) == 1


def test_the_refusal_of_a_password_does_not_repeat_the_password():
    with pytest.raises(pulumi.RunError) as found:
        parsed(aws={"container": {"image": "docker://me:secret@r.io#a/b:1"}})
    assert "secret" not in str(found.value)


def test_a_target_that_installs_nothing_for_containers_refuses_an_image():
    with pytest.raises(pulumi.RunError, match=r"^hosts\.container is not a key of the configuration; "):
        stack_file.parse(texts(groups("hosts", hosts={"container": {"image": "docker://r.io#a/b:1"}})))


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        (
            "cuda12.8.1-efa1.43.2-ofiv1.16.3-ncclv2.27.7-1-testsv2.16.9",
            {"cuda": "12.8.1", "efa": "1.43.2", "plugin": "1.16.3", "nccl": "2.27.7-1", "nccl_tests": "2.16.9"},
        ),
        (
            "efa1.43.2-ofi1.16.3-nccl2.27.7-1-tests2.16.9",
            {"efa": "1.43.2", "plugin": "1.16.3", "nccl": "2.27.7-1", "nccl_tests": "2.16.9"},
        ),
        ("25.06-py3", {}),
        ("nccl-2026", {}),
    ],
)
def test_a_tag_states_the_versions_of_the_software_in_its_image(tag, found):
    assert told(tag) == found


def test_versions_that_a_tag_does_not_state_are_not_judged():
    assert Stack.of("x", "25.06-py3").refusal("p5.48xlarge") == ""
    assert Stack.of("x", "efa1.28.0").refusal("p5.48xlarge").startswith("the EFA installer is 1.28.0")
    assert Stack.of("x", STACK.container) == STACK.__class__(STACK.efa, STACK.plugin, STACK.nccl, "x")


def test_the_build_gets_the_container_image_and_first_boot_of_the_nodes_installs_enroot(monkeypatch):
    seen = run(monkeypatch, aws={"container": {"image": STACK.container}})
    request = json.loads(seen.cloud.named("acceptance-build")["stdin"])
    assert request["container"] == {
        "uri": STACK.container,
        "path": "",
        "sha256": "",
        "shared": "/fsx",
        "homes": {
            "MPI_HOME": list(HOMES_INSIDE.mpi),
            "CUDA_HOME": list(HOMES_INSIDE.cuda),
            "NCCL_HOME": list(HOMES_INSIDE.nccl),
        },
        "runtime": "enroot",
    }
    boot = base64.b64decode(seen.cloud.one("LaunchTemplate")["userData"]).decode()
    assert f"/v{ENROOT}/" in boot


def test_without_a_container_no_image_is_requested_and_enroot_is_not_installed(monkeypatch):
    seen = run(monkeypatch)
    request = json.loads(seen.cloud.named("acceptance-build")["stdin"])
    assert request["container"] is None
    assert "enroot" not in base64.b64decode(seen.cloud.one("LaunchTemplate")["userData"]).decode()


def test_an_image_file_is_pinned_if_its_checksum_is_set():
    image = parsed(aws={"container": {"image": "/fsx/a.sqsh", "sha256": "1" * 64}}).wanted.ranks_run_in
    assert image is not None
    assert (image.image.path, image.sha256) == ("/fsx/a.sqsh", "1" * 64)


def test_without_a_shared_file_system_the_image_is_copied_to_every_node():
    image = parsed(aws={"container": {"image": STACK.container}, "storage": {"lustre": None}}).wanted.ranks_run_in
    assert image is not None
    assert image.shared == ""


# Exact commands


def asked() -> Asked:
    return Asked.of(parsed(), INSTANCES["p5.48xlarge"].shape(), 2)


NODES = [Node("a", "10.1.0.19"), Node("b", "10.1.0.20")]


def words(**changes: Any) -> list[str]:
    where = requests.place(NODES, "10.1.0.0/17", json.dumps(BUILT | changes), asked())
    (step,) = [one for one in steps.steps(asked().plan, asked().shape, 2) if one.name == "all_reduce"]
    run = ranks.ranks(step, asked().plan, where, asked().shape)
    return launcher.command(ranks.launch(where, asked().shape), where.nodes, [run])


GOLDEN = (
    "/opt/amazon/openmpi/bin/mpirun --bind-to none --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include 10.1.0.0/17 "
    "--mca oob_tcp_if_include 10.1.0.0/17 --mca prte_if_include 10.1.0.0/17 "
    "--mca plm_rsh_args '-o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=~/.ssh/known_hosts "
    "-o ConnectTimeout=15 -o ControlPath=~/.busbar/ssh/%C' "
    "--mca plm_rsh_no_tree_spawn 1 "
    "-np 16 -npernode 8 --hostfile PLAN/hosts -x NCCL_ALGO=Ring -x NCCL_DEBUG=INFO "
    "-x NCCL_DEBUG_FILE=/home/ubuntu/.busbar/nccl/nccl.%h.%p -x NCCL_DEBUG_SUBSYS=INIT,NET "
    "-x NCCL_SOCKET_IFNAME=^docker,lo,veth "
    "enroot start --conf /home/ubuntu/.busbar/tests/b/container.conf busbar-0123456789abcdef "
    "/home/ubuntu/.busbar/tests/b/all_reduce_perf"
)


def test_mpirun_on_the_node_starts_each_rank_in_the_container_with_a_command_that_a_person_can_type():
    given = [f"'{word}'" if " " in word else word for word in words()]
    plan = f"/home/ubuntu/.busbar/plans/{asked().plan.digest()[:16]}"
    assert " ".join(given[: given.index("-b")]) == GOLDEN.replace("PLAN", plan)


def test_libraries_of_the_node_do_not_leak_into_the_container():
    assert not [word for word in words() if word.startswith("LD_LIBRARY_PATH")]
    assert [word for word in words(container=None) if word.startswith("LD_LIBRARY_PATH=/opt/amazon/openmpi/lib")]


def test_ranks_write_only_into_the_folder_that_is_mounted_in_the_container():
    given = words()
    (log,) = [word for word in given if word.startswith("NCCL_DEBUG_FILE=")]
    for path in (log.partition("=")[2], given[-1], given[given.index("-b") - 1]):
        assert path.startswith("/home/ubuntu/.busbar/"), path


def test_a_search_starts_its_trials_in_the_container_of_the_measurement():
    broken = json.loads(measured())
    for step in broken["steps"]:
        for row in step["rows"] if step["name"] == "all_reduce" else ():
            for timing in row[1:]:
                timing[0], timing[1], timing[2] = timing[0] * 2, timing[1] / 2, timing[2] / 2
    where = requests.place(NODES, "10.1.0.0/17", json.dumps(BUILT), asked())
    judged = judge(json.dumps(broken), asked())
    assert judged.verdict == SHORT
    trials = json.loads(requests.search(where, asked(), judged, 60, []))["trials"]
    assert trials["launch"]["start"] == START
    assert trials["ranks"]["program"] == "/home/ubuntu/.busbar/tests/b/all_reduce_perf"
    assert "LD_LIBRARY_PATH" not in trials["ranks"]["environment"]


def test_a_change_of_the_image_causes_a_new_measurement():
    def run_id(image: str) -> str:
        built = BUILT | {"hashes": BUILT["hashes"] | {"image": image}}
        where = requests.place(NODES, "10.1.0.0/17", json.dumps(built), asked())
        return str(json.loads(requests.measure(where, asked(), []))["run_id"])

    assert run_id("1" * 64) != run_id("2" * 64)


# Measured results


def test_the_record_of_a_pass_in_a_container_names_the_image(monkeypatch):
    lines = {"acceptance-build": json.dumps(BUILT), "acceptance-measure": measured()}
    seen = run(monkeypatch, lines, preview=False, aws={"container": {"image": STACK.container}})
    assert seen.outputs["measured"]["verdict"] == "pass"
    assert seen.outputs["measured"]["versions"]["image"] == STACK.container
    assert seen.outputs["measured"]["versions"]["image_sha256"] == "1" * 64


def test_a_run_in_an_image_without_the_ofi_plugin_is_judged_short_and_the_reason_names_what_may_be_missing(monkeypatch):
    said = {
        "networks": {"Socket": 16},
        "devices": {"NET/Socket : Using [0]ens1:10.1.0.19<0>": 16},
        "channels": {"NET/Socket/0": 9},
    }
    lines = {"acceptance-build": json.dumps(BUILT), "acceptance-measure": measured(**said)}
    seen = run(monkeypatch, lines, preview=False, aws={"container": {"image": "docker://nvcr.io#nvidia/pytorch:25.06-py3"}})
    assert seen.outputs["measured"]["verdict"] == "short"
    (reason,) = [text for text in seen.outputs["measured"]["reasons"] if "NCCL fell back to NET/Socket" in text]
    assert "its efa plugin was not used" in reason
    assert "a container has its own NCCL" in reason
