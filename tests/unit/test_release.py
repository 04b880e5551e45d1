"""What a destroy left is shown, and ends only on request and when the machines are gone."""

from __future__ import annotations

import pytest

from tools import release

DATA = {
    "urn": "urn:pulumi:dev::busbar::aws:fsx/openZfsFileSystem:OpenZfsFileSystem::cluster-storage-home",
    "type": "aws:fsx/openZfsFileSystem:OpenZfsFileSystem",
    "id": "fs-1",
    "custom": True,
    "protect": True,
}
NETWORK = {"urn": "urn:pulumi:dev::busbar::aws:ec2/vpc:Vpc::network", "type": "aws:ec2/vpc:Vpc", "id": "vpc-1", "custom": True}
MACHINE = NETWORK | {"urn": "urn::x::x::gpu-0", "type": "aws:ec2/instance:Instance"}
#: What is nobody's bill: the stack itself, components, commands, and what exists without the stack.
OTHERS = [
    {"urn": "urn::stack", "type": "pulumi:pulumi:Stack"},
    NETWORK | {"type": "pulumi:providers:aws"},
    NETWORK | {"type": "command:local:Command"},
    NETWORK | {"external": True},
]
WHERE = ["--stack", "dev", "--config-file", "copy.yaml"]


def state(*resources):
    return {"deployment": {"resources": [*OTHERS, *resources]}}


def test_remaining_resources_are_listed_with_their_ids_data_first():
    first, data, network, last = release.lines(state(NETWORK, DATA))
    assert first == "2 resources are left, 1 of them protected, as they hold data:"
    assert data == "  cluster-storage-home (OpenZfsFileSystem): fs-1, protected, billed at an unknown price"
    assert network == "  network (Vpc): vpc-1"
    assert last.endswith("make release DATA=delete")


@pytest.mark.parametrize(
    ("throughput", "says"),
    [
        (125, "billed for 1200 GiB, about 0.238 USD an hour (list price in us-east-1)"),
        (250, "billed for 1200 GiB at an unknown price"),
    ],
)
def test_remaining_resources_show_their_billing_unit_and_their_price_if_two_sources_agree(throughput, says):
    kind = "aws:fsx/lustreFileSystem:LustreFileSystem"
    lustre = DATA | {"type": kind, "outputs": {"storageCapacity": 1200, "perUnitStorageThroughput": throughput}}
    assert release.lines(state(lustre))[1].endswith(f"(LustreFileSystem): fs-1, protected, {says}")


@pytest.mark.parametrize("exported", [state(), {"deployment": {}}])
def test_a_stack_with_nothing_left_says_so(exported):
    assert release.lines(exported) == ["nothing is left in this stack"]


def test_on_request_data_are_unprotected_and_the_rest_is_destroyed():
    ran = []
    release.release(state(NETWORK, DATA), WHERE, ran.append)
    assert ran == [
        ["pulumi", "state", "unprotect", "--yes", "--stack", "dev", DATA["urn"]],
        ["pulumi", "destroy", "--yes", "--skip-preview", *WHERE],
    ]


def test_a_stack_that_has_machines_is_not_released():
    ran = []
    with pytest.raises(release.RefusedError, match=r"still has machines \(gpu-0\); destroy it first: make down"):
        release.release(state(MACHINE, DATA), WHERE, ran.append)
    assert ran == []
