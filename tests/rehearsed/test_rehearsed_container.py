"""The AWS stack with its ranks in a container: the real engine and program, with and without EFA's plugin in the image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from aws_plans import PLAN, QUICK, SCHEMA
from rehearsed_hosts import CONTAINED

from catalogue.aws import STACK
from tools.stack_changes import merged
from tools.stage import Finished, Stage

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("container"), CONTAINED]

#: A machine type with four rails: four rails are enough for these tests, and cause less load than thirty-two rails.
FOUR_RAILS = {"aws": {"queues": [{"machines": [{"type": "p4d.24xlarge"}]}]}}
FOUR, SMALL = merged(PLAN, {"measure": {"sizes": {"to": "4M"}}}) | FOUR_RAILS, QUICK | FOUR_RAILS


def ranks_in(image: str) -> dict[str, Any]:
    """Return the part of a stack file that makes ranks run in this image."""
    return {"aws": {"container": {"image": image}}}


OFFICIAL = merged(FOUR, ranks_in(STACK.container))
AMAZON_LINUX = "ami-0123456789abcdef1"
FRAMEWORK = "docker://nvcr.io#nvidia/pytorch:25.06-py3"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[tuple[Stage, Finished]]:
    """The stack after `up` with a short plan and its ranks in AWS's own container image, and the update's output."""
    stage = Stage(tmp_path_factory.mktemp("container"), "aws-efa")
    yield stage, stage.pass_by(near=0.9, **OFFICIAL)
    stage.close()


def test_an_update_with_a_container_ends_in_a_pass_that_names_the_image(built):
    stage, found = built
    assert found.status == 0, found
    outputs = stage.outputs()
    assert outputs["measured"]["verdict"] == "pass"
    assert outputs["measured"]["wire_efficiency"] >= 0.9
    versions = outputs["measured"]["versions"]
    assert (versions["image"], len(versions["image_sha256"])) == (STACK.container, 64)
    assert (versions["efa"], versions["plugin"], versions["cuda"]) == (STACK.efa, STACK.plugin, "cuda-12.8")
    jsonschema.validate(outputs, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_an_unchanged_update_changes_nothing(built):
    found = built[0].up(**built[0].passed)
    assert found.status == 0, found
    assert not found.changes(), found


def test_the_update_shows_the_progress_of_the_images_import(built):
    assert "importing docker://public.ecr.aws#hpc-cloud/nccl-tests:" in built[1].text
    assert "Extracting image layers" in built[1].text


def test_the_transport_is_proven_by_counters_and_by_the_log_of_the_images_plugin(built):
    transport = built[0].outputs()["measured"]["transport"]
    assert transport["state"] == "pass"
    assert any("NCCL used provider efa" in text and "with 4 devices" in text for text in transport["proof"])
    assert any(" and 1 more sent" in text for text in transport["proof"])


def test_the_image_is_on_the_shared_file_system_and_is_unpacked_on_every_nodes_disk(built):
    stage = built[0]
    assert stage.on_host("ls /fsx/.busbar/images/*.sqsh | wc -l").strip() == "1"
    head = stage.outputs()["ssh"].split()[2]
    for node in stage.outputs()["nodes"]:
        where = ("-J", head, f"ubuntu@{node['address']}")
        shown = stage.on_host("enroot list; ls -d /opt/dlami/nvme/enroot/data/user-*/*", *where).split()
        assert shown[0].startswith("busbar-")
        assert shown[1].endswith(shown[0])


def test_a_run_in_an_image_without_efas_plugin_gets_the_verdict_short_and_the_search_uses_the_same_image(built):
    """On Amazon Linux, without a shared file system: the head node copies the image to every node."""
    stage = built[0]
    system = {"image": AMAZON_LINUX, "imageFamily": "al2023"}
    there = {"aws": system | {"login": system, "storage": {"lustre": None}, "allowReplace": 2}}
    found = stage.up(**merged(merged(merged(SMALL, {"measure": {"search": "2 min"}}), there), ranks_in(FRAMEWORK)))
    assert found.status != 0
    outputs = stage.outputs()
    assert outputs["measured"]["verdict"] == "short"
    assert outputs["measured"]["versions"]["image"] == FRAMEWORK
    reasons = " ".join(outputs["measured"]["reasons"])
    assert "NCCL fell back to NET/Socket: its efa plugin was not used" in reasons
    search = outputs["measured"]["search"]
    assert search["rounds"], reasons
    assert search["healthy_gb_s"], "trials gave numbers"
    sums = set()
    head = outputs["ssh"].split()[2]
    for node in outputs["nodes"]:
        words = ("-J", head, f"ec2-user@{node['address']}")
        sums.add(stage.on_host("sha256sum ~/.busbar/images/*.sqsh", *words).split()[0])
    assert sums == {outputs["measured"]["versions"]["image_sha256"]}
