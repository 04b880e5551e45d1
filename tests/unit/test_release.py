"""Resources that a destroy left behind are listed. They are deleted only on request, and only once the machines are gone."""

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
#: Resources that are not listed: the stack itself, a provider, a command, and a resource that the stack only reads.
OTHERS = [
    {"urn": "urn::stack", "type": "pulumi:pulumi:Stack"},
    NETWORK | {"type": "pulumi:providers:aws"},
    NETWORK | {"type": "command:local:Command"},
    NETWORK | {"external": True},
]
WHERE = ["--stack", "dev", "--config-file", "copy.yaml"]


def state(*resources):
    return {"deployment": {"resources": [*OTHERS, *resources]}}


def test_the_list_of_remaining_resources_shows_ids_and_begins_with_the_resources_that_contain_data():
    first, data, network, sum_of_all, last = release.lines(state(NETWORK, DATA))
    assert first == "2 resources are left, 1 of them protected, because they contain data:"
    assert data == "  cluster-storage-home (OpenZfsFileSystem): fs-1, protected, billed at an unknown price"
    assert network == "  network (Vpc): vpc-1"
    assert sum_of_all == "in all: 1 at an unknown price: see your bill"
    assert last.endswith("make release DATA=delete")


@pytest.mark.parametrize(
    ("throughput", "says"),
    [
        (125, "billed for 1200 GiB, about 0.238 USD an hour (list price in us-east-1)"),
        (250, "billed for 1200 GiB at an unknown price"),
    ],
)
def test_the_list_says_what_a_remaining_resource_is_billed_for_and_shows_a_price_if_two_sources_agree(throughput, says):
    kind = "aws:fsx/lustreFileSystem:LustreFileSystem"
    lustre = DATA | {"type": kind, "outputs": {"storageCapacity": 1200, "perUnitStorageThroughput": throughput}}
    assert release.lines(state(lustre))[1].endswith(f"(LustreFileSystem): fs-1, protected, {says}")


LUSTRE = DATA | {
    "type": "aws:fsx/lustreFileSystem:LustreFileSystem",
    "outputs": {"storageCapacity": 1200, "perUnitStorageThroughput": 125},
}
GATEWAY, ADDRESS, ENDPOINT = (
    NETWORK | {"type": f"aws:ec2/{kind[0].lower()}{kind[1:]}:{kind}"} for kind in ("NatGateway", "Eip", "VpcEndpoint")
)
TARGET = NETWORK | {"type": "oci:FileStorage/mountTarget:MountTarget"}


@pytest.mark.parametrize(
    ("one", "says"),
    [
        (GATEWAY, ", billed, about 0.045 USD an hour (list price in us-east-1)"),
        (ADDRESS, ", billed, about 0.005 USD an hour (list price in us-east-1)"),
        (ENDPOINT, ""),
        (ENDPOINT | {"outputs": {"vpcEndpointType": "Interface"}}, ", billed at an unknown price"),
        (TARGET | {"outputs": {"requestedThroughput": "1"}}, ""),
        (TARGET | {"outputs": {"requestedThroughput": "20"}}, ", billed at an unknown price"),
        (
            NETWORK | {"type": "oci:Lustre/x:FileStorageLustreFileSystem", "outputs": {"capacityInGbs": 31200}},
            ", billed for 31200 GiB at an unknown price",
        ),
    ],
)
def test_resources_billed_by_the_hour_are_shown_with_a_price_and_free_resources_without_a_price(one, says):
    assert release.lines(state(one))[1] == f"  {one['urn'].rpartition('::')[2]} ({one['type'].rpartition(':')[2]}): vpc-1{says}"


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ([NETWORK], "none of these resources is billed"),
        ([NETWORK, GATEWAY, LUSTRE], "in all: about 0.283 USD an hour (list prices in us-east-1)"),
        (
            [GATEWAY, DATA, DATA],
            "in all: about 0.045 USD an hour (list prices in us-east-1), and 2 at an unknown price: see your bill",
        ),
    ],
)
def test_the_prices_of_all_resources_that_are_left_are_added_up(found, says):
    assert release.lines(state(*found))[-2] == says


@pytest.mark.parametrize("exported", [state(), {"deployment": {}}])
def test_for_a_stack_without_resources_the_tool_says_that_nothing_is_left(exported):
    assert release.lines(exported) == ["nothing is left in this stack"]


def test_on_request_all_resources_are_destroyed_after_protected_data_are_unprotected():
    ran = []
    release.release(state(NETWORK, DATA), WHERE, ran.append)
    assert ran == [
        ["pulumi", "state", "unprotect", "--yes", "--stack", "dev", DATA["urn"]],
        ["pulumi", "destroy", "--yes", "--skip-preview", *WHERE],
    ]


@pytest.mark.parametrize("word", ["Delete", "yes"])
def test_any_word_except_delete_is_refused_before_anything_is_read(word, capsys):
    assert release.main([word, *WHERE]) == 2
    assert capsys.readouterr().err == f"release: DATA is {word!r}; it must be delete, or be left out to see what remains\n"


def test_a_stack_that_has_machines_is_not_released():
    ran = []
    with pytest.raises(release.RefusedError, match=r"still has machines \(gpu-0\); destroy it first: make down"):
        release.release(state(MACHINE, DATA), WHERE, ran.append)
    assert ran == []
