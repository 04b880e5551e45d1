"""The AWS components on a recording engine: what they register, in which order, and what they look up in an account."""

from __future__ import annotations

import asyncio
import base64
import fnmatch
import json
import re
from typing import Any

import pulumi
import pytest
import yaml
from aws_facts import GROUP, OTHER, ZONE
from aws_program import (
    HELD,
    MINE,
    OWN_GROUPS,
    PROFILE,
    STORED,
    WANTED,
    Cloud,
    account,
    bought,
    existing,
    network_of,
    nodes,
    program,
    ran,
    storage,
)
from conftest import HOST_KEY, KEY
from failed_invoke import FailedInvoke

from benchmarks.launch.protocol import BuildLine
from benchmarks.launch.protocol import Node as RunnerNode
from benchmarks.plan.ranks import Place, exports, launch
from catalogue.aws.instances import INSTANCES
from components.aws import account_lookups
from components.aws.groups import Groups
from components.aws.iam import partition
from components.inventory import Machine, Node
from components.reach import Access
from config import read
from config.aws.model import Aws
from tools.stack_changes import merged, settled
from tools.stage import ROOT

# On import, the SDK warns about its own deprecated classes.


GPU = {"name": "p5", "static": 2}


#: A stack whose login node is Slurm's controller.
SLURM = {"imageFamily": "ubuntu2404", "login": {"imageFamily": "ubuntu2404"}, "slurm": {}, "storage": {"home": {}}}


@pytest.fixture(scope="module")
def whole() -> tuple[Cloud, dict[str, Any]]:
    return program(STORED)


@pytest.fixture(scope="module")
def cloud(whole) -> Cloud:
    return whole[0]


@pytest.fixture(scope="module")
def bare() -> tuple[Cloud, dict[str, Any]]:
    """The cluster of `whole`, but without file systems."""
    return program()


def template(found: Cloud) -> dict[str, Any]:
    return found.one("LaunchTemplate")


def user_data(text: str) -> dict[str, Any]:
    return dict(yaml.safe_load(text))


# The interface to acceptance


def test_the_aws_cluster_returns_its_nodes_and_access_and_plan_and_inventory(whole):
    _, seen = whole
    assert seen["nodes"] == (Node("ip-10-1-0-19", "10.1.0.19"), Node("ip-10-1-0-20", "10.1.0.20"))
    assert seen["access"] == Access("ubuntu", seen["inventory"].login, "10.1.0.0/17", KEY)
    (planned,) = seen["cluster"].planned
    assert (planned.name, planned.nodes, planned.first_boot, planned.ask) == ("gpu-p5", 2, True, False)
    assert planned.shape.rdma.ports == 32
    assert seen["inventory"].login == Machine("login", "203.0.113.5", "ubuntu", HOST_KEY)
    assert seen["templates"] == {"gpu-p5": "cluster-pool-gpu-p5-template-id"}


def test_rails_are_read_from_the_machines_if_the_catalogue_does_not_name_the_rails_of_the_instance_type():
    _, seen = program(nodes(type="p6-b200.48xlarge"))
    (planned,) = seen["cluster"].planned
    assert planned.ask
    assert planned.shape.rdma is None


def test_the_identity_of_a_node_set_depends_only_on_its_machines_and_image(bare):
    same = bare[1]["identity"]
    assert program({"login": {"root": {"size": "100 GiB"}}})[1]["identity"] == same
    assert program({"image": "ami-2"})[1]["identity"] != same
    assert program(nodes(static=3))[1]["identity"] != same


def test_one_more_node_is_one_more_resource(bare):
    assert len(program(nodes(static=8))[0].made) == len(bare[0].made) + 6


def test_the_refusal_to_replace_machines_contains_number_and_price_and_names_of_the_machines():
    with pytest.raises(pulumi.RunError) as refused:
        program({"image": "ami-2"} | nodes(static=3), running=ran())
    said = str(refused.value)
    assert said.startswith(
        "aws.allowReplace is 0, and 3 running machines would be terminated by this update (3 x p5.48xlarge of gpu-p5, "
    )
    assert "165.12 USD an hour by list price: i-0 (10.1.0.20), i-1 (10.1.0.19), i-2 (10.1.0.18))" in said
    assert said.endswith("Set aws.allowReplace to 3 to allow this, or undo the change.")


def test_the_refusal_says_that_the_price_is_unknown_if_the_queue_no_longer_names_the_type_of_the_machines_to_replace():
    with pytest.raises(pulumi.RunError) as refused:
        program({"image": "ami-2"} | nodes(static=3), running=ran(**{"its type": "p4d.24xlarge"}))
    said = str(refused.value)
    assert "(3 x machines of another type than p5.48xlarge of gpu-p5, price unknown: i-0 (10.1.0.20), " in said


def test_no_resource_of_a_pool_is_registered_if_more_machines_would_be_terminated_than_the_stack_file_allows(monkeypatch):
    made: list[str] = []
    running, register = ran(), Cloud.new_resource
    monkeypatch.setattr(Cloud, "new_resource", lambda self, args: (made.append(args.name), register(self, args))[1])
    with pytest.raises(pulumi.RunError):
        program({"image": "ami-2"} | nodes(static=3), running=running)
    assert not [name for name in made if "-template" in name or re.search(r"-pool-.*-\d$", name)]


def test_as_many_machines_as_the_stack_file_allows_may_be_terminated():
    found, _ = program({"image": "ami-2", "allowReplace": 3} | nodes(static=3), running=ran())
    assert len([1 for _, name, _ in found.made if re.search(r"-pool-.*-\d$", name)]) == 3


def test_reducing_the_number_of_machines_terminates_those_with_the_highest_numbers_and_a_warning_names_them(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: told.append(text))
    running = ran()
    program(running=running)
    assert [text for text in told if "terminates 1 x p5.48xlarge of gpu-p5" in text and "i-2 (" in text]
    assert [text for text in told if "if the update fails before that" in text and "are billed until an update passes" in text]


def test_a_machine_that_is_left_out_is_named_and_terminated_and_the_other_machines_keep_their_numbers(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: told.append(text))
    cloud, _ = program(nodes(static=3, leaveOut=[1]), running=ran())
    assert sorted(name for _, name, _ in cloud.made if re.search(r"-pool-.*-\d$", name)) == [
        "cluster-pool-gpu-p5-0",
        "cluster-pool-gpu-p5-2",
    ]
    (said,) = [text for text in told if "this update terminates" in text]
    assert "terminates 1 x p5.48xlarge of gpu-p5, 55.04 USD an hour by list price: i-1 (10.1.0.19)" in said


@pytest.fixture
def replaced(monkeypatch) -> list[str]:
    """Names of machines that the engine replaces: their ids are unknown at a preview; other machines have ids such as `i-0`."""
    names: list[str] = []
    register = Cloud.new_resource

    def new_resource(self: Cloud, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        found, outputs = register(self, args)
        place = re.search(r"-pool-.*-(\d+)$", args.name)
        return None if args.name in names else f"i-{place[1]}" if place else found, outputs

    monkeypatch.setattr(Cloud, "new_resource", new_resource)
    return names


def test_a_preview_that_replaces_a_machine_shows_the_price_and_is_refused_unless_the_stack_file_allows_the_replacement(
    replaced, monkeypatch
):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: told.append(text))
    running = ran()
    program(nodes(static=3), running=running, preview=True)
    assert told == []
    replaced.append("cluster-pool-gpu-p5-1")
    with pytest.raises(pulumi.RunError) as refused:
        program(nodes(static=3), running=running, preview=True)
    assert "aws.allowReplace is 0, and 1 running machines would be terminated by this update" in str(refused.value)
    assert "(1 x p5.48xlarge of gpu-p5, 55.04 USD an hour by list price: i-1 (10.1.0.19))" in str(refused.value)
    program(nodes(static=3) | {"allowReplace": 1}, running=running, preview=True)
    assert [text for text in told if "terminates 1 machines, as aws.allowReplace allows" in text]


def test_machines_of_a_removed_or_renamed_queue_count_as_terminated():
    with pytest.raises(
        pulumi.RunError, match=r"3 running machines would be terminated by this update \(3 x machines of no queue"
    ):
        program(running=ran(**{"busbar:pool": "old-p5"}))


@pytest.mark.parametrize(
    "changed",
    [
        {"tags": {"team": "x"}},
        {"timezone": "UTC"},
        {"access": {"publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"}},
        {"login": {"image": "ami-9"}},
        {"login": {"type": "m5.large", "root": {"size": "100 GiB"}}},
        {"storage": {"lustre": {"size": "2400 GiB"}}},
        nodes(customActions={"onNodeConfigured": [{"script": "https://example.com/setup.sh", "sha256": "5" * 64}]}),
    ],
)
def test_settings_that_can_change_on_running_machines_terminate_no_machine(whole, changed):
    before = [its for _, name, its in whole[0].made if name.endswith(("-template", "p5-0"))]
    after = [its for _, name, its in program(merged(STORED, changed))[0].made if name.endswith(("-template", "p5-0"))]
    assert [one.get("namePrefix") for one in before] == [one.get("namePrefix") for one in after]
    assert [one.get("launchTemplate") for one in before] == [one.get("launchTemplate") for one in after]


@pytest.mark.parametrize(
    "changed",
    [
        {"image": "ami-2"},
        nodes(type="p4d.24xlarge"),
        nodes(efa=False) | {"suppress": ["efa-cards"]},
        nodes(placement="none"),
        {"root": {"size": "600 GiB"}},
        {"network": {"private": "10.9.0.0/16"}},
        {"storage": {"lustre": {"mount": "/data"}}},
        {"storage": {"home": None}},
    ],
)
def test_settings_that_cannot_change_on_running_machines_need_a_new_template_and_new_machines(whole, changed):
    assert template(program(merged(STORED, changed))[0])["namePrefix"] != template(whole[0])["namePrefix"]


def test_new_machines_get_the_newest_image_but_running_machines_stay_if_the_stack_file_names_no_image():
    found, _ = program({"image": None, "login": {"image": None}})
    assert template(found)["imageId"] == found.named("cluster-login-instance")["ami"] == "ami-newest"
    again = ran(**{"busbar:made-of": found.named("cluster-pool-gpu-p5-0")["tags"]["busbar:made-of"]})
    program({"image": None} | nodes(static=3), running=again)


def test_if_an_image_cannot_be_looked_up_the_error_says_to_set_aws_image():
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Refused("api error AccessDeniedException: not authorized to perform ssm:GetParameter")

    with pytest.raises(
        pulumi.RunError, match=r"^aws\.image is not set, and AWS's public parameter /aws/service/.* set aws\.image"
    ):
        program({"image": None}, answers={"getParameter": refuse})


NO_SUBNET = "reading EC2 Subnet: no matching EC2 Subnet found"


def offers(**zones: list[str]) -> dict[str, Any]:
    """Return an account without subnets; `zones` lists, for the types `m5` and `p5`, the zones that offer the type."""

    def offered(args: dict[str, Any]) -> dict[str, Any]:
        ((kind,),) = [one["values"] for one in args["filters"] if one["name"] == "instance-type"]
        return {"locations": zones[kind.partition(".")[0]]}

    return {"getInstanceTypeOfferings": offered, "getSubnet": refusing(NO_SUBNET)}


def refusing(words: str) -> Any:
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Refused(words)

    return refuse


def test_without_a_zone_in_the_stack_file_the_first_zone_that_offers_every_type_is_used_and_reported(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_: said.append(text))
    local = f"{OTHER[:-1]}-tpe-1a"
    made, _ = program({"zone": None}, answers=offers(m5=[ZONE, OTHER, local], p5=[OTHER, local]))
    assert {one["availabilityZone"] for one in made.of("Subnet")} == {OTHER}
    assert said[0] == (f"aws.zone is not set: the stack uses {OTHER}, the first zone that offers m5.8xlarge and p5.48xlarge.")


def test_of_several_zones_that_offer_every_type_the_first_is_used():
    zones = [f"{ZONE[:-1]}{letter}" for letter in "hgfedcba"]
    made, _ = program({"zone": None}, answers=offers(m5=zones, p5=zones))
    assert {one["availabilityZone"] for one in made.of("Subnet")} == {zones[-1]}


def test_a_stack_without_a_named_zone_stays_in_the_zone_of_its_subnet():
    first, _ = program({"zone": None}, answers=offers(m5=[OTHER], p5=[OTHER]))
    private = first.named("cluster-network-private")
    asked: list[dict[str, Any]] = []

    def mine(args: dict[str, Any]) -> dict[str, Any]:
        asked.append(args)
        return {"availabilityZone": private["availabilityZone"]}

    again, _ = program({"zone": None}, answers=offers(m5=[ZONE, OTHER], p5=[ZONE, OTHER]) | {"getSubnet": mine})
    assert sorted(map(str, again.made)) == sorted(map(str, first.made))
    (tags,) = [one["tags"] for one in asked]
    assert tags.items() <= private["tags"].items()
    assert not tags.items() <= first.named("cluster-network-public")["tags"].items()
    assert tags["busbar:stack"] == f"{pulumi.get_organization()}/busbar/aws", (
        "another project may have a stack of the same name in another zone"
    )


def test_a_stack_in_an_existing_network_uses_the_zone_of_its_private_subnet():
    made, _ = program(
        {"zone": None, "name": "other"} | existing(groups=OWN_GROUPS) | {"preflight": True}, answers=account(**network_of())
    )
    assert made.asked[0] == ("aws:ec2/getSubnet:getSubnet", {"id": "subnet-2"})


@pytest.mark.parametrize(
    ("changes", "answers", "says"),
    [
        (
            {},
            offers(m5=[ZONE], p5=[OTHER]),
            f"aws.zone is not set, and no zone of the region offers all types of the stack: m5.8xlarge is in {ZONE}, p5",
        ),
        (
            {},
            offers(m5=[], p5=[ZONE]),
            "aws.zone is not set, and no zone of the region offers all types of the stack: m5.8xlarge is in no zone, p5",
        ),
        (
            {},
            offers(m5=[ZONE]) | {"getSubnet": refusing("api error UnauthorizedOperation: not allowed")},
            "aws.zone is not set, and the subnet of this stack could not be looked up: UnauthorizedOperation: not allowed. ",
        ),
        (bought("open-odcr"), {}, "aws.zone is not set, and aws.queues[0].machines[0].purchase.option is open-odcr; set the"),
    ],
)
def test_if_no_zone_is_set_and_no_zone_can_be_chosen_the_stack_is_refused_and_the_error_says_why(changes, answers, says):
    with pytest.raises(pulumi.RunError) as refused:
        program({"zone": None} | changes, answers=answers)
    assert str(refused.value).startswith(says)


def test_nodes_accept_only_the_operators_ssh_key(cloud):
    boot = user_data(base64.b64decode(template(cloud)["userData"]).decode())
    assert boot["ssh_authorized_keys"] == [KEY]


def test_without_static_machines_there_is_a_template_but_no_node():
    found, seen = program(nodes(static=0, dynamic=4))
    assert (seen["cluster"].planned[0].nodes, seen["cluster"].planned[0].dynamic, seen["nodes"]) == (0, 4, ())
    assert found.of("LaunchTemplate")
    assert len(found.of("Instance")) == 1, "the login node is the only instance"


def test_every_queue_has_its_own_template_and_machines():
    more = {"name": "test", "machines": [{"name": "p4", "type": "p4d.24xlarge", "static": 2}]}
    found, seen = program({"queues": [*WANTED["queues"], more]})
    assert len(found.of("Instance")) == 1 + 2 + 2
    assert set(seen["templates"]) == {"gpu-p5", "test-p4"}
    assert [(one.name, one.nodes) for one in seen["cluster"].planned] == [("gpu-p5", 2), ("test-p4", 2)]
    assert sorted(one["instanceType"] for one in found.of("LaunchTemplate")) == ["p4d.24xlarge", "p5.48xlarge"]


def test_two_queues_with_equal_entries_of_machines_get_a_launch_template_each():
    queues = [
        {"name": name, "machines": [GPU | {"type": "p5.48xlarge", "static": 0, "dynamic": 4}]} for name in ("gpu", "test")
    ]
    found, seen = program(SLURM | {"queues": queues})
    assert [one.launcher.queue for one in seen["cluster"].planned] == ["gpu", "test"]
    assert sorted(one["tags"]["busbar:queue"] for one in found.of("LaunchTemplate")) == ["gpu", "test"]


def test_queues_in_another_order_keep_their_machines():
    more = {"name": "test", "machines": [{"name": "p4", "type": "p4d.24xlarge", "static": 2}]}
    gpu = {"name": "gpu", "machines": [GPU | {"type": "p5.48xlarge"}]}

    def machines(*queues):
        found, _ = program({"queues": list(queues)})
        return sorted((kind, name, str(its)) for kind, name, its in found.made)

    assert machines(gpu, more) == machines(more, gpu)


# The network


def test_the_network_has_two_address_ranges_and_two_subnets_with_a_default_route_each(cloud):
    assert cloud.one("Vpc") | {"tags": 0} == {
        "cidrBlock": "10.0.0.0/16",
        "enableDnsSupport": True,
        "enableDnsHostnames": True,
        "tags": 0,
    }
    assert cloud.one("VpcIpv4CidrBlockAssociation")["cidrBlock"] == "10.1.0.0/16"
    public, private = cloud.named("cluster-network-public"), cloud.named("cluster-network-private")
    assert (public["cidrBlock"], public["mapPublicIpOnLaunch"], public["availabilityZone"]) == ("10.0.0.0/17", True, ZONE)
    assert (private["cidrBlock"], private["mapPublicIpOnLaunch"], private["availabilityZone"]) == ("10.1.0.0/17", False, ZONE)
    assert [route["destinationCidrBlock"] for route in cloud.of("Route")] == ["0.0.0.0/0", "0.0.0.0/0"]


def test_s3_is_reached_through_a_gateway_endpoint_from_both_subnets(cloud):
    endpoint = cloud.one("VpcEndpoint")
    assert endpoint["serviceName"] == "com.amazonaws.ap-northeast-1.s3"
    assert endpoint["vpcEndpointType"] == "Gateway"
    tables = {"cluster-network-private-routes-id", "cluster-network-public-routes-id"}
    assert set(endpoint["routeTableIds"]) == tables == {joined["routeTableId"] for joined in cloud.of("RouteTableAssociation")}


def test_the_private_subnet_waits_for_its_address_range_and_machines_wait_for_their_route_to_the_internet(cloud):
    assert cloud.position("VpcIpv4CidrBlockAssociation") < [name for _, name, _ in cloud.made].index("cluster-network-private")
    for noun in ("NatGateway", "VpcEndpoint", "RouteTableAssociation"):
        assert cloud.position(noun) < cloud.position("LaunchTemplate")


def test_a_second_private_subnet_is_created_only_if_a_file_system_needs_two_subnets(cloud):
    assert "cluster-network-second" not in {name for _, name, _ in cloud.made}
    found, _ = program({"secondZone": OTHER} | storage(home={"deployment": "MULTI_AZ_1"}))
    second = found.named("cluster-network-second")
    assert (second["cidrBlock"], second["availabilityZone"]) == ("10.1.128.0/17", OTHER)
    home = found.one("OpenZfsFileSystem")
    assert home["subnetIds"] == ["cluster-network-private-id", "cluster-network-second-id"]
    assert home["preferredSubnetId"] == "cluster-network-private-id"
    assert home["routeTableIds"] == ["cluster-network-private-routes-id", "cluster-network-public-routes-id"]


# An existing network


def owned(wanted: dict[str, Any], **changes: Any) -> tuple[Cloud, dict[str, Any]]:
    return program({"preflight": True} | wanted, answers=account(**network_of(**changes)))


def test_a_stack_in_an_existing_network_uses_that_networks_subnets_and_creates_no_network():
    found, seen = owned(existing())
    kinds = {kind.partition(":")[2].partition("/")[0] for kind, _, _ in found.made if kind.startswith("aws:")}
    network = ("Vpc", "Subnet", "RouteTable", "Route", "InternetGateway", "NatGateway", "Eip", "VpcEndpoint")
    assert not [noun for noun in network if found.of(noun)], kinds
    assert {one["vpcId"] for one in found.of("SecurityGroup")} == {"vpc-1"}
    assert {nic["subnetId"] for nic in template(found)["networkInterfaces"]} == {"subnet-2"}
    assert found.named("cluster-login-instance")["subnetId"] == "subnet-1"
    assert seen["access"].network == "172.16.1.0/24"


def test_existing_security_groups_are_used_unchanged_for_machines_and_file_systems():
    found, _ = owned(merged(STORED, existing(groups=OWN_GROUPS)))
    assert not found.of("SecurityGroup")
    assert not found.of("SecurityGroupIngressRule") + found.of("SecurityGroupEgressRule")
    assert {group for nic in template(found)["networkInterfaces"] for group in nic["securityGroups"]} == {"sg-1"}
    assert found.named("cluster-login-instance")["vpcSecurityGroupIds"] == ["sg-2"]
    lustre, home = found.one("LustreFileSystem"), found.one("OpenZfsFileSystem")
    assert (lustre["subnetIds"], lustre["securityGroupIds"]) == ("subnet-2", ["sg-3"])
    assert (home["subnetIds"], home["securityGroupIds"]) == (["subnet-2"], ["sg-3"])


def with_rule(**its: Any) -> dict[str, Any]:
    """Return the answers for an existing network in which every security group has an additional rule for incoming traffic."""
    answers = network_of()
    listed, one = answers["getSecurityGroupRules"], answers["getSecurityGroupRule"]

    def rules(args: dict[str, Any]) -> dict[str, Any]:
        return {"ids": [*listed(args)["ids"], "more"]}

    def rule(args: dict[str, Any]) -> dict[str, Any]:
        more = {"ipProtocol": "-1", "isEgress": False} | its
        return more if args["securityGroupRuleId"] == "more" else one(args)

    return {"getSecurityGroupRules": rules, "getSecurityGroupRule": rule}


@pytest.mark.parametrize("rule", [{"referencedSecurityGroupId": "111122223333/sg-9"}, {"cidrIpv6": "fd00:10::/48"}])
def test_a_security_group_with_a_rule_for_ipv6_or_for_another_accounts_group_is_accepted_if_its_other_rules_suffice(rule):
    assert owned(existing(groups=OWN_GROUPS), **with_rule(**rule))[0].made


def test_a_security_group_of_the_login_node_that_is_open_to_the_whole_internet_over_ipv6_is_refused():
    with pytest.raises(pulumi.RunError, match=r"groups\.login is sg-2, which allows SSH from ::/0, the whole Internet"):
        owned(existing(groups=OWN_GROUPS), **with_rule(cidrIpv6="::/0"))


def mounted(**systems: Any) -> dict[str, Any]:
    """Return a stack in an existing network that mounts existing file systems."""
    return existing(groups=OWN_GROUPS) | {"storage": {"lustre": None, "home": None} | systems}


def test_existing_file_systems_are_looked_up_and_mounted_and_none_is_created():
    found, _ = owned(mounted(lustre={"existing": "fs-1"}, home={"existing": "fs-2", "mount": "/shared"}))
    assert sorted(found.read) == [
        ("aws:fsx/lustreFileSystem:LustreFileSystem", "fs-1"),
        ("aws:fsx/openZfsFileSystem:OpenZfsFileSystem", "fs-2"),
    ]
    assert not [kind for kind, _, _ in found.made if ":fsx/" in kind]
    boot = base64.b64decode(template(found)["userData"]).decode()
    assert "fs-lustre@tcp:/abcdefgh /fsx lustre" in boot
    assert "fs-home:/fsx/ /shared nfs" in boot
    others = owned(mounted(lustre={"existing": "fs-9"}, home={"existing": "fs-2", "mount": "/shared"}))[0]
    assert template(others)["namePrefix"] != template(found)["namePrefix"], "a new mount needs new machines"


def test_an_existing_file_system_that_nodes_cannot_reach_or_that_lacks_efa_is_refused():
    with pytest.raises(pulumi.RunError, match=r"lustre\.efa is true, but fs-1 was created without EFA, and EFA cannot be"):
        owned(mounted(lustre={"existing": "fs-1", "efa": True, "efaSetupSha256": "e" * 64}))
    assert owned(mounted(lustre={"existing": "fs-efa", "efa": True, "efaSetupSha256": "e" * 64}))[0].made
    elsewhere = network_of(getSubnet=lambda _: {"vpcId": "vpc-2", "cidrBlock": "172.16.1.0/24"})
    for kind, system in (("home", "fs-2"), ("lustre", "fs-1")):
        with pytest.raises(
            pulumi.RunError, match=rf"{kind}\.existing is {system}, which is in vpc-1, but machines are in vpc-2; a file"
        ):
            program(mounted(**{kind: {"existing": system}}), answers=elsewhere)


def test_a_subnet_without_its_own_route_table_is_judged_by_the_main_route_table():
    def table(args: dict[str, Any]) -> dict[str, Any]:
        if "subnetId" in args:
            raise Unassociated
        assert args["routeTableId"] == "rtb-main"
        return {"routes": [{"cidrBlock": "0.0.0.0/0", "gatewayId": "igw-1"}]}

    with pytest.raises(pulumi.RunError) as refused:
        owned(existing(), getRouteTable=table)
    assert str(refused.value).startswith(
        "aws.network.existing.privateSubnet is subnet-2, which sends 0.0.0.0/0 to igw-1; nodes"
    )


def test_a_missing_subnet_or_security_group_is_refused_before_anything_is_registered():
    def none(_: dict[str, Any]) -> dict[str, Any]:
        raise Nothing

    with pytest.raises(
        pulumi.RunError, match=r"privateSubnet is subnet-2, which is not in ap-northeast-1, or this account may"
    ):
        owned(existing(), getSubnet=none)
    with pytest.raises(pulumi.RunError, match=r"groups\.login is sg-2, which is not in ap-northeast-1"):
        owned(existing(groups=OWN_GROUPS), getSecurityGroup=none)


def test_running_machines_need_no_free_addresses_and_are_replaced_if_the_subnet_or_group_changes():
    few = {"vpcId": "vpc-1", "availabilityZone": ZONE, "cidrBlock": "172.16.1.0/24", "availableIpAddressCount": 1}
    with pytest.raises(pulumi.RunError, match="which has 1 free addresses, and the machines to be launched need 2"):
        owned(existing(), getSubnet=few)
    running = {"ids": ["i-1"], "privateIps": ["172.16.1.9"]}
    assert owned(existing() | {"allowReplace": 1}, getSubnet=few, getInstances=running)[0].made
    names = [
        template(program(wanted, answers=network_of())[0])["namePrefix"]
        for wanted in (None, existing(), existing(privateSubnet="subnet-1"), existing(groups=OWN_GROUPS))
    ]
    assert len(set(names)) == 4
    others = existing(groups=OWN_GROUPS | {"login": "sg-3", "storage": None})
    assert template(program(others, answers=network_of())[0])["namePrefix"] == names[3]


# Groups

NODES, LOGIN, STORAGE = (f"cluster-groups-{noun}-id" for noun in ("nodes", "login", "storage"))
ALL = ("-1", None, None)


def rules(found: Cloud, direction: str) -> set[tuple[str, str, tuple[str, int | None, int | None]]]:
    return {
        (
            rule["securityGroupId"],
            rule.get("referencedSecurityGroupId") or rule["cidrIpv4"],
            (rule["ipProtocol"], rule.get("fromPort"), rule.get("toPort")),
        )
        for rule in found.of(f"SecurityGroup{direction}Rule")
    }


LUSTRE = {("tcp", 988, 988), ("tcp", 1018, 1023)}
ZFS = {(protocol, *ports) for protocol in ("tcp", "udp") for ports in ((111, 111), (2049, 2049), (20001, 20003))}
BASE_IN = {(NODES, NODES, ALL), (NODES, LOGIN, ALL), (LOGIN, NODES, ALL), (LOGIN, "198.51.100.0/24", ("tcp", 22, 22))}
BASE_OUT = {(NODES, NODES, ALL), (NODES, "0.0.0.0/0", ALL), (LOGIN, "0.0.0.0/0", ALL)}


def test_security_groups_allow_only_outgoing_traffic_and_traffic_in_the_cluster_and_ssh_from_the_operators_network(cloud):
    lustre_in = {(STORAGE, peer, ports) for peer in (NODES, LOGIN, STORAGE) for ports in LUSTRE}
    to_clients = {(peer, STORAGE, ports) for peer in (NODES, LOGIN) for ports in LUSTRE}
    zfs = {(STORAGE, peer, ports) for peer in (NODES, LOGIN) for ports in ZFS}
    assert rules(cloud, "Ingress") == BASE_IN | lustre_in | to_clients | zfs
    assert rules(cloud, "Egress") == BASE_OUT | lustre_in
    for _, _, inputs in cloud.made:
        assert not {"ingress", "egress"} & set(inputs), "rules are resources of their own: inline rules would undo them"


def test_outgoing_efa_traffic_of_nodes_is_allowed_to_the_security_group_of_the_nodes(cloud):
    assert (NODES, NODES, ALL) in rules(cloud, "Egress")


def test_lustre_over_efa_allows_all_traffic_between_servers_and_nodes():
    found, _ = program(storage(lustre={"efa": True, "efaSetupSha256": "e" * 64, "size": "19200 GiB"}))
    for pair in ((STORAGE, STORAGE), (STORAGE, NODES), (NODES, STORAGE)):
        assert (*pair, ALL) in rules(found, "Ingress") & rules(found, "Egress")
    assert found.one("LustreFileSystem")["efaEnabled"] is True


def test_without_file_systems_there_is_no_security_group_for_file_systems():
    found, _ = program(storage(lustre=None, home=None))
    assert rules(found, "Ingress") == BASE_IN
    assert rules(found, "Egress") == BASE_OUT
    assert not found.of("LustreFileSystem")


def test_file_systems_wait_for_the_rules_of_their_security_group_and_not_only_for_the_group_itself(cloud):
    kinds = [kind.rpartition(":")[2] for kind, _, _ in cloud.made]
    storage = [
        index
        for index, (kind, _, inputs) in enumerate(cloud.made)
        if "GroupIngressRule" in kind or "GroupEgressRule" in kind
        if inputs["securityGroupId"] == STORAGE
    ]
    assert len(storage) == 24
    assert max(storage) < kinds.index("LustreFileSystem")
    assert max(storage) < kinds.index("OpenZfsFileSystem")


def test_a_security_group_is_used_only_after_all_its_rules_exist():
    """The test checks what the group's id waits for, because the order of registrations could also be right by chance."""
    cloud = Cloud({}, "")
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(cloud, project="busbar", stack="aws", organization="organization", preview=False)
    wanted, _ = read.group("aws", Aws, json.dumps(settled(merged(WANTED, STORED))))
    waits: dict[str, set[str]] = {}

    async def run() -> None:
        groups = Groups("cluster", wanted, "vpc-1")
        for group in ("nodes", "login", "storage"):
            waits[group] = {each.pulumi_resource_name for each in await getattr(groups, f"{group}_id").resources()}

    pulumi.runtime.test(run)()
    for group, names in waits.items():
        rules = {
            name
            for kind, name, inputs in cloud.made
            if "GroupIngressRule" in kind or "GroupEgressRule" in kind
            if inputs["securityGroupId"] == f"cluster-{group}-id"
        }
        assert rules
        assert names == rules | {f"cluster-{group}"}


# Roles


def policy(found: Cloud) -> list[dict[str, Any]]:
    return list(json.loads(found.one("RolePolicy")["policy"])["Statement"])


def test_the_login_node_may_only_write_its_host_key(cloud):
    assert policy(cloud) == [
        {
            "Effect": "Allow",
            "Action": "ssm:PutParameter",
            "Resource": "arn:aws:ssm:ap-northeast-1:111122223333:parameter/busbar/cluster-iam-login/host-key",
        }
    ]
    assert {one["policyArn"] for one in cloud.of("RolePolicyAttachment")} == {
        "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    }


def test_nodes_may_read_s3_and_pull_images_only_if_the_stack_file_says_so(cloud):
    def policies(found: Cloud) -> set[str]:
        return {one["policyArn"].rpartition("/")[2] for one in found.of("RolePolicyAttachment")}

    assert policies(cloud) == {"AmazonSSMManagedInstanceCore"}
    found, _ = program({"nodeRights": ["s3-read", "ecr-pull"]})
    assert policies(found) - policies(cloud) == {"AmazonS3ReadOnlyAccess", "AmazonEC2ContainerRegistryReadOnly"}
    assert {one["role"] for one in found.of("RolePolicyAttachment") if "SSM" not in one["policyArn"]} == {"cluster-iam-node"}


def test_a_scheduler_may_start_and_terminate_only_machines_of_its_cluster():
    purchase = {"option": "odcr-group", "reservation": GROUP}
    more = {"name": "more", "static": 0, "dynamic": 8, "purchase": purchase, "placement": "none"}
    found, seen = program({"queues": [{"machines": [GPU, more]}]})
    by_action = {json.dumps(one["Action"]): one for one in policy(found)}
    start = by_action['"ec2:RunInstances"']["Resource"]
    made = {"StringEquals": {"ec2:CreateAction": "RunInstances"}}
    assert by_action['"ec2:CreateTags"']["Condition"] == made, "no running machine can be tagged and then terminated"
    assert by_action['"iam:PassRole"']["Condition"] == {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
    assert [arn for arn in start if "subnet" in arn] == [
        "arn:aws:ec2:ap-northeast-1:111122223333:subnet/cluster-network-private-id"
    ]
    assert by_action['"ec2:TerminateInstances"']["Condition"] == {
        "ArnEquals": {"ec2:InstanceProfile": "arn:cluster-iam-node-profile"}
    }
    assert by_action['"iam:PassRole"']["Resource"] == "arn:aws:iam::111122223333:role/node"
    # ParallelCluster's statement AllowManagingReservedCapacity has both actions, too.
    assert by_action['["ec2:RunInstances", "resource-groups:ListGroupResources"]']["Resource"] == [GROUP]
    assert all(one["Resource"] != "*" or one["Action"].startswith("ec2:Describe") for one in policy(found))
    assert ":*:" not in json.dumps(policy(found)), "no ARN covers all accounts or all regions"
    called = set(re.findall(r'_(?:call|about)\(\s*"(\w+)"', (ROOT / "scheduler" / "elastic" / "aws.py").read_text()))
    actions = [one["Action"] for one in policy(found)]
    granted = {name for its in actions for name in ([its] if isinstance(its, str) else its)} - {"ec2:CreateTags"}
    for_blocks = {"ec2:DescribeCapacityReservations"}
    wanted = {f"ec2:{call}" for call in called} - for_blocks
    assert wanted == {one for one in granted if one.startswith("ec2:")}, "only the controller's own calls are permitted"
    assert set(seen["templates"]) == {"gpu-p5", "gpu-more"}
    tags = [spec["tags"]["busbar:cluster"] for made in found.of("LaunchTemplate") for spec in made["tagSpecifications"]]
    assert tags == ["training"] * 4


OWN_PROFILES = {"profiles": {"existing": {"nodes": "gpu-nodes", "login": "gpu-login"}}}


def test_existing_instance_profiles_are_used_unchanged_and_no_role_is_created():
    found, _ = program(OWN_PROFILES)
    assert not [kind for kind, _, _ in found.made if kind.startswith("aws:iam/")]
    assert template(found)["iamInstanceProfile"] == {"name": "gpu-nodes"}
    assert found.named("cluster-login-instance")["iamInstanceProfile"] == "gpu-login"
    assert found.one("Parameter")["name"] == "/busbar/training/host-key"
    assert template(found)["namePrefix"] != template(program()[0])["namePrefix"], "another profile needs new machines"
    by_half = program({"profiles": {"existing": {"nodes": "gpu-nodes"}}})[0]
    assert [one["role"] for one in by_half.of("InstanceProfile")] == ["cluster-iam-login"]


@pytest.mark.parametrize(
    ("changes", "tags", "before"),
    [
        ({"image": "ami-2"}, {}, OWN_PROFILES),
        ({"image": "ami-2", "name": "renamed"}, {}, OWN_PROFILES),
        ({}, {PROFILE: MINE}, {}),
    ],
    ids=["another image", "another image and another name", "machines launched with the stack's own profile"],
)
def test_machines_with_a_shared_instance_profile_are_found_by_the_tags_of_their_stack(changes, tags, before):
    launched = program(before | nodes(static=2))[0]
    mine = {
        name: its["tags"] | {PROFILE: "arn:theirs"} | tags
        for _, name, its in launched.made
        if "-pool-gpu-p5-" in name and "tags" in its
    }
    mine = {name: its for name, its in mine.items() if "busbar:index" in its}
    others = {"i-9": mine["cluster-pool-gpu-p5-0"] | {"busbar:stack": "they/busbar/aws", "busbar:cluster": "theirs"}}
    with pytest.raises(pulumi.RunError, match="2 running machines would be terminated") as refused:
        program(OWN_PROFILES | changes, running=mine | others)
    assert "i-9" not in str(refused.value)
    assert program(before, running=mine | others)[0].made, "machines stay if their settings are those of their launch"


def test_with_a_shared_instance_profile_login_nodes_do_not_count_as_machines_to_terminate():
    launched = program(OWN_PROFILES)[0]
    ran_there = {name: its["tags"] for _, name, its in launched.made if "busbar:index" in its.get("tags", {})}
    login = {"i-login": launched.named("cluster-login-instance")["tags"]}
    assert program(OWN_PROFILES, running=ran_there | login)[0].made


def test_machines_launched_with_an_existing_profile_are_found_after_the_stack_file_stops_naming_that_profile():
    launched = program(OWN_PROFILES)[0]
    ran_there = {
        name: its["tags"] | {PROFILE: "arn:theirs"} for _, name, its in launched.made if "busbar:index" in its.get("tags", {})
    }
    with pytest.raises(pulumi.RunError, match="2 running machines would be terminated"):
        program(running=ran_there)


def test_an_instance_profile_that_does_not_exist_or_has_no_role_is_refused():
    def none(_: dict[str, Any]) -> dict[str, Any]:
        raise Nothing

    with pytest.raises(pulumi.RunError) as refused:
        ask(OWN_PROFILES, getInstanceProfile=none)
    assert "aws.profiles.existing.nodes is gpu-nodes, and the account has no such profile" in str(refused.value)
    with pytest.raises(pulumi.RunError, match=r"profiles\.existing\.login is gpu-login, which has no role"):
        ask(OWN_PROFILES, getInstanceProfile={"roleName": ""})
    assert ask(OWN_PROFILES, **HELD).made


def test_with_a_shared_profile_a_scheduler_terminates_only_machines_of_its_stack():
    wanted = {"profiles": {"existing": {"nodes": "gpu-nodes"}}} | nodes(dynamic=4)
    found, _ = program(wanted, answers={noun: lambda _, its=its: its for noun, its in HELD.items()})
    by_action = {json.dumps(one["Action"]): one for one in policy(found)}
    (tag,) = by_action['"ec2:TerminateInstances"']["Condition"]["StringEquals"].items()
    assert by_action['"iam:PassRole"']["Resource"] == "arn:aws:iam::111122223333:role/theirs"
    launched = [spec["tags"] for spec in template(found)["tagSpecifications"] if spec["resourceType"] == "instance"]
    assert [its[tag[0].removeprefix("ec2:ResourceTag/")] for its in launched] == [tag[1]]


def test_with_a_shared_profile_slurms_controller_may_terminate_the_machines_that_the_controller_launches():
    """The permission names a tag. The controller must set this tag in its RunInstances calls.

    The tags of a RunInstances call replace the tags of the launch template (EC2 API).
    """
    wanted = SLURM | {"profiles": {"existing": {"nodes": "gpu-nodes"}}} | nodes(dynamic=4, static=0)
    found, _ = program(wanted, answers={noun: lambda _, its=its: its for noun, its in HELD.items()})
    (ending,) = [one for one in policy(found) if one["Action"] == "ec2:TerminateInstances"]
    ((key, value),) = ending["Condition"]["StringEquals"].items()
    launched = json.loads(found.named("cluster-slurm-install")["stdin"])["settings"]["cloud"]["tags"]
    assert launched[key.removeprefix("ec2:ResourceTag/")] == value


@pytest.mark.parametrize(("region", "name"), [("us-gov-east-1", "aws-us-gov"), ("cn-north-1", "aws-cn"), ("eu-west-1", "aws")])
def test_arns_begin_with_the_partition_of_the_region(region, name):
    assert partition(region) == name


@pytest.mark.parametrize(("region", "service"), [("cn-north-1", "ec2.amazonaws.com.cn"), ("eu-west-1", "ec2.amazonaws.com")])
def test_roles_trust_the_service_principal_that_ec2_has_in_the_partition(region, service):
    found, _ = program({"region": region, "zone": f"{region}a"})
    trusted = [json.loads(role["assumeRolePolicy"])["Statement"][0]["Principal"] for role in found.of("Role")]
    assert trusted == [{"Service": service}] * 2


# The login node


def test_the_login_node_is_hardened_and_reached_by_ssh_and_has_no_efa(cloud):
    login = cloud.named("cluster-login-instance")
    assert login["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert login["rootBlockDevice"]["volumeType"] == "gp3"
    assert login["rootBlockDevice"]["encrypted"] is True
    assert login["ebsOptimized"] is True
    assert login["vpcSecurityGroupIds"] == [LOGIN]
    assert login["subnetId"] == "cluster-network-public-id"
    assert "networkInterfaces" not in login
    assert login["userDataReplaceOnChange"] is True
    boot = user_data(login["userData"])
    assert boot["ssh_authorized_keys"] == [KEY]
    assert "fs-home:/fsx/ /home nfs" in login["userData"]
    assert "fs-lustre@tcp:/abcdefgh /fsx lustre" in login["userData"]


def test_an_elastic_address_is_given_to_the_login_node_without_replacing_the_node(bare):
    found, seen = program({"login": {"elasticIp": True}})
    machine = "cluster-login-instance"
    assert found.named(machine) == bare[0].named(machine), "a running login node is not replaced"
    address = found.named("cluster-login-address")
    assert (address["instance"], address["domain"]) == (f"{machine}-id", "vpc")
    assert seen["inventory"].login == Machine("login", "203.0.113.77", "ubuntu", HOST_KEY)
    assert '"203.0.113.77"' in found.named("cluster-login-announced")["stdin"].replace("'", '"')
    assert "203.0.113.77" in json.dumps(found.named("cluster-login-booted")["connection"])
    assert {one["tags"]["busbar:cluster"] for one in found.of("Eip")} == {"training"}


def test_an_elastic_address_beyond_the_quota_is_refused_and_the_stacks_own_address_counts_once():
    def held(*others: str, ours: int = 0) -> dict[str, Any]:
        return {
            "getEips": lambda args: {"publicIps": ["mine"] * ours + ([] if args.get("tags") else list(others))},
            "getServiceQuota": lambda args: {"value": 5.0 if "Elastic" in args["quotaName"] else 384.0},
        }

    wanted = {"login": {"elasticIp": True}}
    with pytest.raises(pulumi.RunError, match=r"elasticIp is true, so the cluster needs 2 of .* for the NAT .* 4 others"):
        ask(wanted, **held("a", "b", "c", "d"))
    assert ask(wanted, **held("a", "b", "c", ours=2)).made
    with pytest.raises(
        pulumi.RunError,
        match=r"so the cluster needs 1 of the account's Elastic IP addresses; the account has 5 others in ap-northeast-1",
    ):
        owned(existing() | wanted, **held(*"abcde"))
    assert "getEips" not in {token.rpartition(":")[2] for token, _ in ask().asked}


def test_the_login_nodes_host_key_is_read_from_its_parameter_and_pinned_before_anything_connects(cloud):
    kinds = [kind.rpartition(":")[2] for kind, _, _ in cloud.made]
    assert kinds.index("Parameter") < kinds.index("Instance") < kinds.index("Command")
    assert cloud.one("Parameter")["insecureValue"] == "not written yet"
    looked = cloud.named("cluster-login-booted")
    connection = looked["connection"]["value"]
    assert connection["hostKey"] == HOST_KEY
    assert not {"privateKey", "agentSocketPath"} & set(connection)


@pytest.mark.parametrize("written", [f"i-predecessor {HOST_KEY}", "not written yet", "cluster-login-instance-id ssh-ed25519"])
def test_a_host_key_that_the_new_login_node_did_not_write_is_not_trusted(written):
    with pytest.raises(pulumi.RunError, match="the key cannot be pinned, so nothing connects"):
        program(written=written)


# File systems


def test_lustre_is_persistent_and_compressed_and_mirrors_a_private_bucket(cloud):
    lustre = cloud.one("LustreFileSystem")
    assert (lustre["deploymentType"], lustre["storageCapacity"], lustre["perUnitStorageThroughput"]) == (
        "PERSISTENT_2",
        1200,
        250,
    )
    assert (lustre["dataCompressionType"], lustre["metadataConfiguration"]) == ("LZ4", {"mode": "AUTOMATIC"})
    assert (lustre["subnetIds"], lustre["securityGroupIds"]) == ("cluster-network-private-id", [STORAGE])
    mirror = cloud.one("DataRepositoryAssociation")
    assert (mirror["dataRepositoryPath"], mirror["fileSystemPath"]) == ("s3://made-bucket", "/data")
    assert mirror["batchImportMetaDataOnCreate"] is True
    events = {"events": ["NEW", "CHANGED", "DELETED"]}
    assert mirror["s3"] == {"autoImportPolicy": events, "autoExportPolicy": events}
    closed = cloud.one("BucketPublicAccessBlock")
    assert all(closed[key] for key in ("blockPublicAcls", "blockPublicPolicy", "ignorePublicAcls", "restrictPublicBuckets"))
    assert cloud.position("BucketPublicAccessBlock") < cloud.position("DataRepositoryAssociation")


def test_a_mirror_of_an_existing_bucket_creates_no_bucket():
    found, _ = program(storage(lustre={"mirrors": [{"path": "/in", "bucket": "theirs", "prefix": "/sets/"}]}))
    assert not found.of("Bucket")
    assert found.one("DataRepositoryAssociation")["dataRepositoryPath"] == "s3://theirs/sets"


def test_machines_mount_lustre_only_after_its_mirror_exists(cloud):
    mirrored = cloud.position("DataRepositoryAssociation")
    assert mirrored < min(cloud.position("Instance"), cloud.position("LaunchTemplate"))


def test_resources_that_aws_creates_slowly_have_long_timeouts(patience):
    program(STORED)
    assert patience == {
        **dict.fromkeys(("cluster-pool-gpu-p5-0", "cluster-pool-gpu-p5-1"), ("30m", "30m")),
        **{f"cluster-storage-{name}": ("60m", "60m") for name in ("lustre", "mirror-0", "bucket", "home")},
    }


def test_a_retained_file_system_retains_only_those_parts_of_its_network_that_cost_nothing(protection):
    program(storage(home={"onDestroy": "retain"}))
    left = {name for name, (_, kept) in protection.items() if kept} - {"cluster-storage-home"}
    ports = {f"cluster-groups-storage-{way}-itself-tcp-{port}" for way in ("from", "to") for port in (988, 1018)}
    network = {"cluster-network-vpc", "cluster-network-second-network", "cluster-network-private"}
    assert left == network | {"cluster-groups-storage"} | ports


def test_openzfs_has_a_deployment_type_that_the_region_offers(cloud):
    home = cloud.one("OpenZfsFileSystem")
    assert home["deploymentType"] == "SINGLE_AZ_HA_2"
    assert home["subnetIds"] == ["cluster-network-private-id"]
    assert not {"preferredSubnetId", "routeTableIds"} & set(home)
    exported = home["rootVolumeConfiguration"]["nfsExports"]["clientConfigurations"]
    assert exported == [{"clients": "*", "options": ["rw", "no_root_squash", "crossmnt"]}]


@pytest.mark.parametrize(
    ("on_destroy", "protect", "retain"), [("refuse", True, False), ("retain", False, True), ("delete", False, False)]
)
def test_the_stack_file_decides_whether_resources_with_data_are_protected_or_retained(on_destroy, protect, retain, protection):
    program(storage(lustre={"onDestroy": on_destroy}, home={"onDestroy": on_destroy}))
    holding = {"cluster-storage-lustre", "cluster-storage-home", "cluster-storage-bucket"}
    with_it = {"cluster-storage-mirror-0", "cluster-storage-bucket-closed", "cluster-storage-bucket-owner"}
    assert {name for name, (kept, _) in protection.items() if kept} == (holding if protect else set())
    left = {name for name, (_, left) in protection.items() if left and name.startswith("cluster-storage-")}
    assert left == (holding | with_it if retain else set())


# Machines


@pytest.mark.parametrize(
    ("kind", "count", "first"),
    [
        ("p5.48xlarge", 33, ("interface", "efa-only")),
        ("p6-b300.48xlarge", 17, ("interface", "efa-only")),
        ("p4d.24xlarge", 5, ("interface", "efa-only")),
    ],
)
def test_the_launch_template_has_the_network_interfaces_of_its_instance_type(kind, count, first):
    found, _ = program(nodes(type=kind))
    nics = template(found)["networkInterfaces"]
    assert len(nics) == count
    assert tuple(nic["interfaceType"] for nic in nics[:2]) == first
    assert {nic["subnetId"] for nic in nics} == {"cluster-network-private-id"}
    assert all(nic["securityGroups"] == [NODES] for nic in nics)
    assert not any("associatePublicIpAddress" in nic for nic in nics)
    assert min((nic["networkCardIndex"], nic["deviceIndex"]) for nic in nics) == (0, 0)


@pytest.mark.parametrize(("changes", "devices"), [({}, 32), ({"efa": False}, 0), ({"type": "p4d.24xlarge"}, 4)])
def test_first_boot_waits_for_exactly_the_efa_devices_of_the_launch(changes, devices):
    boot = base64.b64decode(template(program(nodes(**changes) | {"suppress": ["efa-cards"]})[0])["userData"]).decode()
    assert ("step=efa-devices" in boot) is bool(devices)
    assert not devices or re.search(rf"\b{devices}\b", boot.partition("step=efa-devices")[2].partition("step=")[0])


def test_the_template_is_hardened_and_terminates_its_machines_when_they_shut_down(cloud):
    made = template(cloud)
    assert re.fullmatch("training-gpu-p5-[0-9a-f]{10}-", made["namePrefix"])
    assert made["metadataOptions"] == {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert made["instanceInitiatedShutdownBehavior"] == "terminate"
    assert made["ebsOptimized"] == "true"
    (root,) = made["blockDeviceMappings"]
    assert root["deviceName"] == "/dev/sda1"
    assert root["ebs"]["volumeType"] == "gp3"
    assert "vpcSecurityGroupIds" not in made, "in a template with interfaces, security groups belong to the interfaces"
    assert [spec["resourceType"] for spec in made["tagSpecifications"]] == ["instance", "volume"]
    boot = user_data(base64.b64decode(made["userData"]).decode())
    assert boot["ssh_authorized_keys"] == [KEY]


def test_the_stack_file_can_request_legacy_efa_interfaces_or_no_efa_interfaces():
    legacy = template(program(nodes(legacyEfa=True))[0])["networkInterfaces"]
    assert {nic["interfaceType"] for nic in legacy} == {"efa"}
    assert len(template(program(nodes(efa=False) | {"suppress": ["efa-cards"]})[0])["networkInterfaces"]) == 1


def test_all_machines_are_launched_from_one_template_into_one_placement_group(cloud):
    assert cloud.one("PlacementGroup")["strategy"] == "cluster"
    assert template(cloud)["placement"] == {"groupName": "cluster-pool-gpu-p5-group"}
    launched = [cloud.named(f"cluster-pool-gpu-p5-{index}") for index in range(2)]
    assert [one["launchTemplate"] for one in launched] == [{"id": "cluster-pool-gpu-p5-template-id", "version": "3"}] * 2
    (spec,) = [one for one in template(cloud)["tagSpecifications"] if one["resourceType"] == "instance"]
    for index, one in enumerate(launched):
        assert one["tags"] == spec["tags"] | {"busbar:index": str(index)}, "the provider removes tags that it was not given"


def capacity(option: str, **more: Any) -> tuple[dict[str, Any], Cloud]:
    found, _ = program(bought(option, **more))
    return template(found), found


@pytest.mark.parametrize(
    ("kind", "option", "quota"),
    [
        ("p5.48xlarge", "spot", "All P5 Spot Instance Requests"),
        ("p5en.48xlarge", "spot", "All P5 Spot Instance Requests"),
        ("p4d.24xlarge", "spot", "All P4, P3 and P2 Spot Instance Requests"),
        ("g6e.48xlarge", "spot", "All G and VT Spot Instance Requests"),
        ("p6-b200.48xlarge", "spot", None),
        ("p6-b200.48xlarge", "on-demand", "Running On-Demand P instances"),
        ("g6e.48xlarge", "on-demand", "Running On-Demand G and VT instances"),
    ],
)
def test_the_instance_type_and_the_purchase_option_decide_against_which_quota_the_machines_count(kind, option, quota):
    machines = {"name": "gpu", "type": kind, "static": 2, "purchase": {"option": option}}
    wanted, wrong = read.group("aws", Aws, json.dumps(settled(merged(WANTED, {"queues": [{"machines": [machines]}]}))))
    assert isinstance(wanted, Aws), wrong
    assert [one.quota for _, _, one in wanted.located] == [quota]


def test_the_template_of_spot_machines_requests_spot_and_terminates_interrupted_machines():
    made, _ = capacity("spot", maxPrice="20 USD")
    options = {"maxPrice": "20", "spotInstanceType": "one-time", "instanceInterruptionBehavior": "terminate"}
    assert made["instanceMarketOptions"] == {"marketType": "spot", "spotOptions": options}


def test_with_an_open_reservation_the_template_names_no_reservation():
    made, _ = capacity("open-odcr")
    assert "capacityReservationSpecification" not in made


def test_the_template_targets_the_reservation_that_the_stack_file_names():
    made, _ = capacity("targeted-odcr", reservation="cr-1")
    assert made["capacityReservationSpecification"] == {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    assert "placement" not in made
    assert "instanceMarketOptions" not in made


def test_a_group_of_reservations_is_the_templates_target():
    made, _ = capacity("odcr-group", reservation=GROUP)
    target = made["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationResourceGroupArn": GROUP}


def test_machines_in_a_capacity_block_are_launched_without_a_placement_group():
    found, _ = program(nodes(purchase={"option": "capacity-block", "reservation": "cr-1"}))
    made = template(found)
    assert made["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert made["capacityReservationSpecification"] == {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    assert not found.of("PlacementGroup")
    assert not found.of("CapacityBlockReservation")


def test_machines_of_a_capacity_block_wait_until_the_block_has_begun():
    for how in ({"reservation": "cr-1"}, {"offering": "cb-1", "confirm": "cb-1"}):
        found, _ = program(bought("capacity-block", **how))
        names = [name for _, name, _ in found.made]
        waits = found.named("cluster-pool-gpu-p5-begun")
        assert '"start": "2026-12-01T11:30:00Z"' in waits["stdin"]
        assert names.index("cluster-pool-gpu-p5-begun") < names.index("cluster-pool-gpu-p5-0")
    found, _ = program(merged(bought("capacity-block", offering="cb-1", confirm="cb-1"), nodes(static=0)))
    assert "cluster-pool-gpu-p5-begun" not in {name for _, name, _ in found.made}, "without static machines nothing waits"


def test_no_update_waits_for_the_beginning_of_a_capacity_block_into_which_slurms_controller_will_launch_nodes():
    machines = nodes(static=0, dynamic=4, alwaysOn=4)
    for how, block in (
        (bought("capacity-block", reservation="cr-1"), "cr-1"),
        (bought("capacity-block", offering="cb-1", confirm="cb-1"), "cluster-pool-gpu-p5-block-id"),
        (bought("targeted-odcr", reservation="cr-1"), None),
    ):
        found, seen = program(merged(merged(how, machines), SLURM))
        ((key, one),) = json.loads(found.named("cluster-slurm-install")["stdin"])["settings"]["sets"].items()
        assert (key, one["always_on"], one["spec"].get("block")) == ("gpu/p5", 4, block)
        (planned,) = seen["cluster"].planned
        assert (planned.job_nodes, bool(planned.start_limit_s)) == (4, block is None)
        assert "cluster-pool-gpu-p5-begun" not in {name for _, name, _ in found.made}
        rights = {one["Action"]: one["Resource"] for one in policy(found) if isinstance(one["Action"], str)}
        assert ("ec2:DescribeCapacityReservations" in rights) == (block is not None)
        (held,) = [arn for arn in rights["ec2:RunInstances"] if ":capacity-reservation/" in arn]
        assert held.rpartition("/")[2] == ("*" if "offering" in json.dumps(how) else "cr-1")


def test_machines_that_slurm_may_launch_install_slurm_and_slurm_knows_their_processors_and_memory():
    def boot(found: Cloud) -> str:
        return base64.b64decode(template(found)["userData"]).decode()

    found, _ = program(merged(nodes(static=0, dynamic=4), SLURM))
    assert "apt-get -o DPkg::Lock::Timeout=300 install -y slurmctld slurmd slurm-client munge" in boot(found)
    sent = json.loads(found.named("cluster-slurm-install")["stdin"])
    assert sent["shared"] == "/home/.busbar/busbar.aws"
    conf = sent["files"]["slurm.conf"]
    # A p5.48xlarge has 192 vCPUs and 2,048 GiB of memory, of which Slurm gets 95 %.
    assert "NodeName=gpu-dy-p5-[1-4] Sockets=2 CoresPerSocket=48 ThreadsPerCore=2 RealMemory=1992294 Gres=gpu:h100:8 " in conf
    assert "slurmd" not in boot(program(nodes(static=2))[0])


def test_a_capacity_block_is_bought_only_if_its_id_is_given_twice(monkeypatch):
    told: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: told.append(text))
    found, _ = program(bought("capacity-block", offering="cb-1", confirm="cb-1"))
    said = "aws.queues[0].machines[0].purchase.confirm is still cb-1: Capacity Block cluster-pool-gpu-p5-block-id of this "
    assert [text for text in told if text.startswith(said)], told
    assert found.one("CapacityBlockReservation")["capacityBlockOfferingId"] == "cb-1"
    target = template(found)["capacityReservationSpecification"]["capacityReservationTarget"]
    assert target == {"capacityReservationId": "cluster-pool-gpu-p5-block-id"}
    for suppress in ([], ["purchase-unconfirmed"]):
        with pytest.raises(pulumi.RunError, match=r"purchase\.confirm is None, but Capacity Block cb-1 would be bought"):
            program(bought("capacity-block", offering="cb-1") | {"suppress": suppress})


def test_an_existing_placement_group_is_used_and_none_is_created():
    found, _ = program(nodes(placement="existing", placementGroup="mine"))
    assert template(found)["placement"] == {"groupName": "mine"}
    assert not found.of("PlacementGroup")


def test_unless_the_rule_is_suppressed_a_stack_that_breaks_a_rule_is_refused_before_anything_is_registered():
    odd = storage(lustre={"size": "1300 GiB"})
    with pytest.raises(pulumi.RunError, match=r"^aws\.storage\.lustre\.size is 1300 GiB; .* \[lustre-size\]$"):
        program(odd)
    assert program(odd | {"suppress": ["lustre-size"]})[0].made


# The account


class Refused(FailedInvoke):
    """The engine's error for a resource that does not exist."""

    words = (
        "operation error CloudControl: GetResource, https response error StatusCode: 400, RequestID: 1b6c, "
        "ResourceNotFoundException: Resource of type 'AWS::X' with identifier 'x' was not found"
    )


def controlled(**by_kind: dict[str, Any]) -> dict[str, Any]:
    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        noun = arguments["typeName"].rpartition("::")[2]
        if noun not in by_kind:
            raise Refused
        return {"properties": json.dumps(by_kind[noun])}

    return {"getResource": answer}


ODCR = {
    "InstanceType": "p5.48xlarge",
    "AvailabilityZone": ZONE,
    "InstanceCount": 4,
    "TotalInstanceCount": 4,
    "PlacementGroupArn": "",
}


def ask(wanted: dict[str, Any] | None = None, **changes: Any) -> Cloud:
    return program({"preflight": True} | (wanted or {}), answers=account(**changes))[0]


def test_no_rule_is_broken_if_the_account_has_everything_that_the_stack_needs():
    asked = ask()
    tokens = {token.rpartition(":")[2] for token, _ in asked.asked}
    assert {"getInstanceType", "getInstanceTypeOfferings", "getAmi", "getServiceQuota"} <= tokens
    quota = next(arguments for token, arguments in asked.asked if token.endswith("getServiceQuota"))
    assert quota == {"serviceCode": "ec2", "quotaName": "Running On-Demand P instances"}
    # EC2 still starts machines from a deprecated image, but a look-up finds a deprecated image only with this argument.
    assert all(arguments["includeDeprecated"] for token, arguments in asked.asked if token.endswith("getAmi"))


def test_without_preflight_the_account_is_not_queried_and_notes_say_what_was_not_checked(cloud, monkeypatch):
    assert {token.rpartition(":")[2] for token, _ in cloud.asked} == {"getParameter", "getInstances"}
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "info", said.append)
    program()
    assert sum("was not checked, because this is not known" in text for text in said) == 8


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"getRegion": {"region": "us-east-1"}}, r"^aws\.zone is .*, and aws:region of this stack is us-east-1"),
        (
            {"getInstanceTypeOfferings": {"locations": [OTHER]}},
            r"machines\[0\]\.type is p5.48xlarge, and ap-northeast-1a does not offer",
        ),
        (
            {"getServiceQuota": {"value": 192.0}},
            r"static is 2, which takes 2 x 192 = 384 vCPUs, and the account's on-demand quota is 192",
        ),
    ],
)
def test_a_stack_is_refused_before_anything_is_registered_if_the_aws_account_lacks_what_the_stack_needs(changes, part):
    with pytest.raises(pulumi.RunError, match=part):
        ask(**changes)


def test_capacity_reservations_and_groups_of_reservations_are_looked_up_and_judged():
    targeted = bought("targeted-odcr", reservation="cr-1")
    assert ask(targeted, **controlled(CapacityReservation=ODCR)).made
    with pytest.raises(pulumi.RunError, match=r"is cr-1, which contains 1 machines, but gpu-p5 may have 2"):
        ask(targeted, **controlled(CapacityReservation=ODCR | {"TotalInstanceCount": 1}))
    inside = ODCR | {"PlacementGroupArn": "arn:aws:ec2:r:1:placement-group/mine"}
    with pytest.raises(pulumi.RunError, match="cr-1 was created in placement group mine"):
        ask(targeted, **controlled(CapacityReservation=inside))
    pool = {
        "Configuration": [{"Type": "AWS::EC2::CapacityReservationPool"}],
        "Resources": ["arn:aws:ec2:r:1:capacity-reservation/cr-1"],
    }
    grouped = bought("odcr-group", reservation=GROUP)
    assert ask(grouped, **controlled(CapacityReservation=ODCR, Group=pool)).made
    with pytest.raises(pulumi.RunError, match="reservation-pool"):
        ask(grouped, **controlled(CapacityReservation=ODCR, Group={"Configuration": []}))


def test_capacity_blocks_and_placement_groups_are_looked_up():
    assert ask(bought("capacity-block", reservation="cr-1")).made
    existing = nodes(placement="existing", placementGroup="mine")
    assert ask(existing, **controlled(PlacementGroup={"Strategy": "cluster"})).made
    with pytest.raises(pulumi.RunError, match="placement-missing"):
        ask(existing, **controlled())


def test_an_offered_capacity_block_is_shown_with_its_price_and_not_bought():
    on_offer = {
        "capacityBlockOfferingId": "cb-9",
        "capacityDurationHours": 24,
        "instanceCount": 2,
        "instanceType": "p5.48xlarge",
        "availabilityZone": ZONE,
        "startDateRange": "2026-12-01T11:30:00Z",
        "upfrontFee": "1500.00",
        "currencyCode": "USD",
    }
    shown = r"names its offering\. \[reservation-missing\]\nOn offer is cb-9: 2 x p5.48xlarge .* for 24 hours .* 1500.00 USD"
    with pytest.raises(pulumi.RunError, match=shown):
        ask(bought("capacity-block", showOfferings="24 h"), getCapacityBlockOffering=on_offer)


# NCCL on EFA


def test_ranks_get_only_variables_that_the_ofi_plugin_does_not_set_itself():
    shape = INSTANCES["p5.48xlarge"].shape()
    built = BuildLine("b", "/h", "", "/t", {}, "/mpi", "/cuda", "/nccl", {}, 1.0)
    place = Place((RunnerNode("a", "10.1.0.19"), RunnerNode("b", "10.1.0.20")), "10.1.0.0/17", built)
    told = exports(shape, 2, place)
    assert told["NCCL_SOCKET_IFNAME"] == "^docker,lo,veth"
    set_by_plugin = {"NCCL_BUFFSIZE", "NCCL_P2P_NET_CHUNKSIZE", "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_NVLS_CHUNKSIZE"}
    needless = {"FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "FI_EFA_FORK_SAFE", "RDMAV_FORK_SAFE", "NCCL_TUNER_PLUGIN"}
    assert not (set_by_plugin | needless | {"UCX_NET_DEVICES"}) & set(told)
    assert (launch(place, shape).mca["pml"], launch(place, shape).mca["btl"]) == ("ob1", "tcp,self")


class Nothing(Refused):
    """The engine's error for something that the provider does not find."""

    words = "reading EC2 Subnet: no matching EC2 Subnet found"


class Unassociated(Refused):
    """The engine's error for a subnet that no route table is associated with."""

    words = "query returned no results. Please change your search criteria"


class Throttled(Refused):
    """The engine's error for a look-up that the account throttles."""

    words = "api error Throttling: Rate exceeded"


class Denied(Refused):
    """The engine's error for a look-up that the caller has no permission for."""

    words = "api error UnauthorizedOperation: You are not authorized to perform this"


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("api error InvalidSubnetID.NotFound: The subnet ID 'x' does not exist", True),
        ("operation error IAM: X, https response error StatusCode: 404, RequestID: 1b6c, NoSuchEntity: no such profile", True),
        ("operation error SSM: X, https response error StatusCode: 400, RequestID: 1, HostID: a/=, ParameterNotFound: ", True),
        ("invoking aws:ec2/getSubnet:getSubnet: 1 error occurred:\n\t* no matching EC2 Subnet found\n\n", True),
        ("invoking aws:x:x: 1 error occurred:\n\t* reading IAM Instance Profile (x): couldn't find resource\n\n", True),
        ("Your query returned no results. Please change your search criteria and try again.", True),
        ("api error AccessDenied: not authorized to perform iam:GetInstanceProfile on x.NotFound, NoSuchEntity", False),
        ("reading IAM Instance Profile (NotFound): api error AccessDenied: no", False),
        ("reading IAM Instance Profile (NoSuchEntity): empty result", False),
    ],
)
def test_only_a_services_code_or_the_providers_own_words_say_that_a_resource_is_missing(said, missing):
    def fails() -> None:
        raise ValueError(f"invocation of aws:x:x returned an error: {said}")

    for question in (fails, lambda: account_lookups.ask("no matching NotFound: x", "ec2/getSubnet:getSubnet", fails)):
        with pytest.raises((ValueError, pulumi.RunError)) as failed:
            question()
        assert account_lookups.is_missing(failed.value) is missing
    assert "error occurred" not in str(failed.value)


@pytest.mark.parametrize(
    ("noun", "refusal", "what", "right"),
    [
        ("getRegion", Throttled, "the region", "sign in"),
        ("getInstanceTypeOfferings", Denied, "the zones that offer m5.8xlarge", "ec2:DescribeInstanceTypeOfferings"),
        ("getInstanceType", Denied, "type p5.48xlarge", "ec2:DescribeInstanceTypes"),
        ("getAmi", Denied, "image ami-", "ec2:DescribeImages"),
        ("getServiceQuota", Denied, 'the quota "Running On-Demand P instances"', "servicequotas:ListServiceQuotas and"),
        ("getResource", Denied, "AWS::EC2::CapacityReservation cr-1", "cloudformation:GetResource"),
    ],
)
def test_the_error_of_a_failed_look_up_on_aws_names_the_needed_permission_and_the_way_to_skip_look_ups(
    noun, refusal, what, right
):
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise refusal

    wanted = bought("targeted-odcr", reservation="cr-1") if noun == "getResource" else None
    with pytest.raises(pulumi.RunError) as refused:
        ask(wanted, **{noun: refuse})
    said = str(refused.value)
    assert said.startswith(f"aws.preflight is true, but {what}")
    words = "Throttling: Rate exceeded" if refusal is Throttled else "UnauthorizedOperation: You are not authorized"
    assert f"could not be looked up: {words}" in said
    assert f"this permission: {right}" in said
    assert said.endswith("To skip such look-ups, set aws.preflight: false.")


class Unheard(Refused):
    """The engine's error for a quota that the service does not know."""

    words = "api error NoSuchResourceException: no quota of that name"


def test_a_quota_that_the_service_does_not_know_causes_only_a_warning(monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_, **__: said.append(text))

    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Unheard

    assert ask(getServiceQuota=refuse).named("cluster-pool-gpu-p5-1")
    assert [text for text in said if "does not report how many p5.48xlarge the account may run" in text]


def test_running_machines_reduce_the_free_quota_but_the_stacks_own_machines_are_not_counted_twice():
    lifecycles = {"i-1": "", "i-2": "", "i-3": "spot", "i-4": "capacity-block", "i-5": ""}
    types = dict.fromkeys(lifecycles, "p5.48xlarge") | {"i-5": "p4d.24xlarge"}
    own = {"busbar:cluster": "training", "busbar:pool": "gpu-p5"}
    asked: list[dict[str, list[str]]] = []

    def running(args: dict[str, Any], *mine: str) -> dict[str, Any]:
        wants = {one["name"]: one["values"] for one in args["filters"]}
        asked.append(wants)
        if "instance-type" not in wants or any(name.startswith("tag:") for name in wants):
            is_ours = {key.removeprefix("tag:"): values for key, values in wants.items()} == {k: [v] for k, v in own.items()}
            return {"ids": list(mine) if is_ours else [], "privateIps": ["10.1.0.9"] * len(mine) if is_ours else []}
        found = [name for name, kind in types.items() if any(fnmatch.fnmatch(kind, one) for one in wants["instance-type"])]
        return {"ids": [name for name in found if lifecycles[name] in wants.get("instance-lifecycle", [lifecycles[name]])]}

    taken = 2 * 192 + 96  # vCPUs of the three on-demand machines, one of which is a p4d
    with pytest.raises(pulumi.RunError, match=rf"quota is {taken + 383}, of which at least {taken} are in use; request"):
        ask(getInstances=running, getServiceQuota={"value": taken + 383.0})
    assert ask(getInstances=running, getServiceQuota={"value": taken + 384.0}).made
    for one_runs in (False, True):  # without and with one running machine of this stack (i-1)
        room = {"value": taken + (192.0 if one_runs else 384.0)}
        mine = ("i-1",) if one_runs else ()
        assert ask(getInstances=lambda args, mine=mine: running(args, *mine), getServiceQuota=room).made
    spot = bought("spot")
    with pytest.raises(pulumi.RunError, match=r"spot quota is 500, of which at least 192 are in use"):
        ask(spot, getInstances=running, getServiceQuota={"value": 500.0})
    asked.clear()
    assert ask(getInstances=lambda args: asked.append(args) or {"ids": [], "privateIps": []}).made
    assert len([1 for one in asked if "instance-type" in str(one) and "tag:" not in str(one)]) == 3, (
        "if no machine runs, three look-ups of running machines are enough"
    )


def test_a_quota_and_its_use_are_looked_up_once_for_all_pools_that_share_the_quota():
    def questions(found: Cloud) -> list[str]:
        kinds = [(token.rpartition(":")[2], args) for token, args in found.asked]
        # Look-ups by tags are left out: they find a pool's own machines, and no quota needs them.
        filters = [(noun, str(args.get("filters"))) for noun, args in kinds]
        return [noun for noun, said in filters if noun == "getServiceQuota" or ("instance-type" in said and "tag:" not in said)]

    more = {"name": "more", "static": 0, "placement": "none"}
    one = questions(ask())
    assert sorted(set(one)) == ["getInstanceTypeOfferings", "getInstances", "getServiceQuota"]
    assert questions(ask({"queues": [{"machines": [GPU, more | {"type": "p5.48xlarge"}]}]})) == one
    spot = more | {"type": "p5.48xlarge", "purchase": {"option": "spot"}}
    assert questions(ask({"queues": [{"machines": [GPU, spot]}]})).count("getServiceQuota") == 2, "spot has its own quota"


def test_if_running_machines_cannot_be_listed_the_update_stops_and_names_the_missing_permission():
    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise Denied

    with pytest.raises(
        pulumi.RunError, match=r"^the running nodes of this stack could not be looked up: Unauthorized.* the permission "
    ):
        program(answers=account(getInstances=refuse))


def test_a_missing_reservation_or_group_is_reported_in_a_sentence():
    with pytest.raises(pulumi.RunError, match=r"reservation is cr-1, which is not in ap-northeast-1, or"):
        ask(bought("targeted-odcr", reservation="cr-1"), **controlled())
    with pytest.raises(pulumi.RunError, match=r"which is no group of type .* \[reservation-pool\]"):
        ask(bought("odcr-group", reservation=GROUP), **controlled())


def test_each_additional_login_node_has_its_own_role_that_may_only_publish_this_nodes_host_key():
    families = {"imageFamily": "ubuntu2404", "login": {"imageFamily": "ubuntu2404", "elasticIp": True}}
    wanted = merged(nodes(static=0, dynamic=4), families | {"slurm": {"loginNodes": 2}, "storage": {"home": {}}})

    def written(asked: dict[str, Any]) -> dict[str, Any]:
        if asked["name"].startswith("/aws/"):
            return {"insecureValue": "ami-newest"}
        return {"insecureValue": f"{asked['name'].split('/')[2].replace('iam-', '')}-instance-id {HOST_KEY}"}

    found, seen = program(wanted, answers={"getParameter": written})
    for own in ("login-1", "login-2"):
        (statement,) = json.loads(found.named(f"cluster-iam-{own}-policy")["policy"])["Statement"]
        assert statement["Action"] == "ssm:PutParameter"
        assert statement["Resource"].endswith(f":parameter/busbar/cluster-iam-{own}/host-key")
        assert found.named(f"cluster-{own}-instance")["iamInstanceProfile"] == f"cluster-iam-{own}-profile"
    first = found.named("cluster-login-1-instance")
    assert first["tags"]["busbar:login-of"] == f"{found.named('cluster-login-instance')['tags']['busbar:login-of']}/1"
    assert "ssh-ed25519 AAAA busbar-controller" in first["userData"]
    assert "ssh-ed25519 AAAA busbar-controller" not in found.named("cluster-login-instance")["userData"]
    assert [one["instance"] for one in found.of("Eip") if "instance" in one] == ["cluster-login-instance-id"]
    assert found.named("cluster-groups-login-from-itself")["ipProtocol"] == "-1"
    assert sorted(json.loads(found.named("cluster-slurm-install")["stdin"])["logins"]) == ["login-1", "login-2"]
    assert [one.name for one in seen["inventory"].submitting] == ["login-1", "login-2"]
