"""Security groups of the stand-in for AWS, with real packets on the front end and between EFA's rails."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from aws_cloud import Stack, fleet, template
from rehearsed_hosts import end_world

from rehearsal.aws.cloud import Cloud
from rehearsal.host import hosts
from rehearsal.host.spec import load
from rehearsal.net import network, wires
from rehearsal.net.rules import render_fabric
from rehearsal.world.world import World

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("rules")]


def reaches(world: World, sender: hosts.HostSpec, address: str, port: int) -> bool:
    """Return whether a TCP connection gets an answer within two seconds; a refused connection is an answer, too."""
    script = (
        f"import socket,sys\ns=socket.socket()\ns.settimeout(2)\nsys.exit(s.connect_ex(({address!r}, {port})) not in (0, 111))"
    )
    return hosts.enter(world, sender.id, ["/usr/bin/python3", "-c", script]).returncode == 0


def rail_address(world: World, host: hosts.HostSpec, rail: int) -> str:
    shown = wires.call(["ip", "-n", hosts.namespace(world, host.id), "-o", "-4", "addr", "show", "dev", host.rails[rail].name])
    return shown.split()[3].partition("/")[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World.at(tmp_path_factory.mktemp("aws") / "world")
    made.folder()
    network.ensure_operator(made)
    yield made
    end_world(made)


@pytest.fixture(scope="module")
def built(world: World) -> Iterator[tuple[Stack, list[hosts.HostSpec]]]:
    """A stack with three running hosts: a head, and two machines with four rails each.

    After the tests, the fixture deletes every resource and checks that nothing remains.
    """
    stack = Stack(Cloud(world)).network().rules().roles()
    stack.head()
    stack.make("PlacementGroup", "group", strategy="cluster")
    wanted: dict[str, Any] = copy.deepcopy(template(stack.ids)) | {"instanceType": "p4d.24xlarge"}
    wanted["networkInterfaces"] = wanted["networkInterfaces"][:5]
    stack.make("LaunchTemplate", "template", **wanted)
    stack.make("Fleet", "fleet", **fleet(stack.ids["template"], 2))
    specs = [load(world, one.short) for one in stack.cloud.store.read().of("aws:ec2/instance:Instance")]
    yield stack, sorted(specs, key=lambda one: one.index)
    for name in reversed(list(stack.ids)):
        stack.delete(name)
    assert not (world.path / "aws.json").exists()
    assert wires.namespaces(world) == [network.OPERATOR]


def test_the_front_end_passes_traffic_that_a_security_group_allows_by_group_id_or_by_network(
    world: World, built: tuple[Stack, list[hosts.HostSpec]]
) -> None:
    stack, (head, one, two) = built
    assert reaches(world, head, one.address, 22), "nodes admit the head by the id of its group"
    assert reaches(world, one, two.address, 4000), "nodes admit each other by the id of their group"
    assert not reaches(world, one, head.address, 4000), "the head admits only SSH, and only from one network"
    stack.delete("nodes-from-head")
    assert not reaches(world, head, one.address, 22)
    port = {"ipProtocol": "tcp", "fromPort": 4000, "toPort": 4001}
    stack.rule("Ingress", "by-network", "head", cidrIpv4="10.1.0.0/16", **port)
    assert reaches(world, one, head.address, 4000)
    assert not reaches(world, one, head.address, 4002)
    stack.delete("by-network")
    stack.rule("Ingress", "nodes-from-head", "nodes", peer="head")
    assert reaches(world, head, one.address, 22)


def test_rails_carry_nothing_unless_egress_to_the_nodes_own_security_group_is_allowed(
    world: World, built: tuple[Stack, list[hosts.HostSpec]]
) -> None:
    stack, (_, one, two) = built
    there = [rail_address(world, two, rail) for rail in range(4)]
    assert all(reaches(world, one, address, 5000) for address in there)
    stack.delete("nodes-out")
    assert not any(reaches(world, one, address, 5000) for address in there), "0.0.0.0/0 does not include EFA"
    assert reaches(world, one, two.address, 4000), "egress to 0.0.0.0/0 allows traffic of the front end"
    stack.rule("Egress", "nodes-out", "nodes", peer="nodes")
    assert all(reaches(world, one, address, 5000) for address in there)


def test_a_machine_uses_the_name_service_of_its_vpc(world: World, built: tuple[Stack, list[hosts.HostSpec]]) -> None:
    _, (_, one, two) = built
    found = hosts.enter(world, one.id, ["getent", "hosts", two.hostname])
    assert found.stdout.split()[:1] == [two.address], found


def test_without_security_groups_a_fabric_passes_all_traffic_but_with_them_only_traffic_of_listed_pairs_of_hosts() -> None:
    assert render_fabric(None).splitlines() == ["table bridge fabric", "delete table bridge fabric"]
    text = render_fabric([("aaaaaaaa", "bbbbbbbb")])
    assert 'iifname "haaaaaaaar*" oifname "hbbbbbbbbr*" accept' in text
    assert "policy drop" in text


def test_a_saved_network_plan_contains_the_security_groups_and_the_resolver(
    world: World, built: tuple[Stack, list[hosts.HostSpec]]
) -> None:
    _, (head, *_) = built
    plan = network.load_vcn(world, head.vcn_id)
    assert plan.groups
    assert plan.resolver == "169.254.169.253"
    assert any(rule.group for group in plan.groups for rule in group.rules)
