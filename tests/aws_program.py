"""Runs the AWS cluster on a recording engine, with an account that answers look-ups, and changes stack files for tests."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pulumi
from aws_facts import GIVEN, OTHER, ZONE
from conftest import HOST_KEY
from early_refusal import early_refusal

from catalogue.aws.instances import INSTANCES
from components.aws.cluster import AwsCluster
from config import read
from config.aws.model import Aws
from config.measure import Measure
from tools.stack_changes import DEFAULT, merged, settled

MADE: dict[str, dict[str, Any]] = {
    "instance:Instance": {"publicIp": "203.0.113.5", "privateIp": "10.1.0.50"},
    "launchTemplate:LaunchTemplate": {"latestVersion": 3},
    "eip:Eip": {"publicIp": "203.0.113.77"},
    "role:Role": {"arn": "arn:aws:iam::111122223333:role/node"},
    "lustreFileSystem:LustreFileSystem": {"dnsName": "fs-lustre", "mountName": "abcdefgh"},
    "openZfsFileSystem:OpenZfsFileSystem": {"dnsName": "fs-home"},
}
#: What the login node reports about itself if it is Slurm's controller.
CONTROLLER = {
    "public_key": "ssh-ed25519 AAAA busbar-controller",
    "region": "",
    "facts": {"hostname": "busbar-login", "version": "23.11.4", "cgroups": 2},
}
#: The filter of machines by instance profile, and the profile that the stack creates.
PROFILE, MINE = "iam-instance-profile.arn", "arn:cluster-iam-node-profile"


@dataclass
class Cloud(pulumi.runtime.Mocks):
    """Records look-ups in the account, and registrations in their order with their inputs."""

    running: dict[str, dict[str, str]]
    written: str
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    made: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    read: list[tuple[str, str]] = field(default_factory=list)
    answers: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = field(default_factory=dict)

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if args.resource_id:  # the resource exists: it is read, not created
            self.read.append((args.typ, args.resource_id))
            found = next(found for kind, found in MADE.items() if args.typ.endswith(kind))
            return args.resource_id, found | {"vpcId": "vpc-1", "efaEnabled": args.resource_id == "fs-efa"}
        self.made.append((args.typ, args.name, args.inputs))
        outputs = {"name": args.name, "arn": f"arn:{args.name}", "bucket": "made-bucket", "stdout": "", "stderr": ""}
        outputs |= args.inputs | next((found for kind, found in MADE.items() if args.typ.endswith(kind)), {})
        if args.name == "cluster-slurm-identity":
            outputs["stdout"] = json.dumps(CONTROLLER)
        place = re.search(r"-pool-.*-(\d+)$", args.name)
        if args.typ.endswith(":Instance") and place:
            outputs |= {"privateIp": f"10.1.0.{20 - int(place[1])}", "ami": self.of("LaunchTemplate")[0]["imageId"]}
        return f"{args.name}-id", outputs

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[str, Any]:
        if args.token.endswith(":readStackOutputs"):
            return {"name": args.args["name"], "outputs": {}}
        self.asked.append((args.token, args.args))
        noun = args.token.rpartition(":")[2]
        if noun in self.answers:
            return self.answers[noun](args.args)
        if noun == "getParameter":
            public = args.args["name"].startswith(
                "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-22.04/"
            )
            return {"insecureValue": "ami-newest" if public else self.written}
        if noun == "getCapacityBlockReservation":
            return {"startDate": "2026-12-01T11:30:00Z", "id": args.args["id"]}
        assert noun == "getInstances", args.token
        asked = {one["name"]: one["values"] for one in args.args["filters"]}
        kinds = asked.pop("instance-type", None)
        if kinds and not asked:  # the look-up for a quota asks for all machines of some types: here it finds none
            return {"ids": []}
        found = {
            name: tags
            for name, tags in self.running.items()
            if all(_matches({PROFILE: MINE} | tags, key, values) for key, values in asked.items())
            and (kinds is None or tags.get("its type", "p5.48xlarge") in kinds)
        }
        return {"ids": list(found), "privateIps": [f"10.1.0.{20 - n}" for n in range(len(found))]}

    def of(self, noun: str) -> list[dict[str, Any]]:
        return [inputs for kind, _, inputs in self.made if kind.endswith(f":{noun}")]

    def one(self, noun: str) -> dict[str, Any]:
        (found,) = self.of(noun)
        return found

    def named(self, name: str) -> dict[str, Any]:
        (found,) = [inputs for _, its, inputs in self.made if its == name]
        return found

    def position(self, noun: str) -> int:
        return [kind.rpartition(":")[2] for kind, _, _ in self.made].index(noun)


WANTED = merged(GIVEN["aws"], {"name": "training", "timezone": "Asia/Tokyo", "preflight": False, "tags": DEFAULT}) | {
    "storage": {"lustre": None, "home": None}
}
#: Half of all resources are security group rules for file systems, so only tests of file systems have file systems.
STORED = {"storage": {"lustre": {"mirrors": [{"path": "/data"}]}, "home": {}}}


def _matches(tags: dict[str, str], key: str, values: list[str]) -> bool:
    """Tell whether a machine passes one filter of DescribeInstances."""
    if key == "tag-key":
        return any(value in tags for value in values)
    return tags.get(key.removeprefix("tag:")) in values


def program(
    changes: dict[str, Any] | None = None,
    *,
    running: Any = None,
    written: str = "",
    answers: Any = None,
    preview: bool = False,
) -> tuple[Cloud, dict[str, Any]]:
    """Run the cluster on a recording engine until it is idle; return the recorded registrations and the cluster's outputs."""
    cloud = Cloud(running or {}, written or f"cluster-login-instance-id {HOST_KEY}", answers=answers or {})
    asyncio.set_event_loop(asyncio.new_event_loop())
    pulumi.runtime.set_mocks(cloud, project="busbar", stack="aws", organization="organization", preview=preview)
    seen: dict[str, Any] = {}
    wanted, wrong = read.group("aws", Aws, json.dumps(settled(merged(WANTED, changes or {}))))
    assert isinstance(wanted, Aws), wrong

    @pulumi.runtime.test
    def run() -> None:
        cluster = AwsCluster("cluster", wanted, Measure(ready_timeout_s=600))
        seen["cluster"] = cluster
        handed = {"inventory": cluster.inventory, "access": cluster.reach.access, "templates": cluster.templates}
        for name, output in handed.items():
            output.apply(lambda value, name=name: seen.setdefault(name, value))

    with early_refusal(cloud.made):
        run()
    if "inventory" in seen:  # some previews do not know the inventory
        found = seen["inventory"].sets[0]
        seen |= {"nodes": found.nodes, "identity": found.identity}
    return cloud, seen


def nodes(**changes: Any) -> dict[str, Any]:
    """Return the changes to a stack file that change its machines."""
    return {"queues": [{"machines": [changes]}]}


def bought(option: str, **more: Any) -> dict[str, Any]:
    """Return the changes to a stack file that set how its machines are bought."""
    return nodes(purchase={"option": option, **more}, placement="none")


def storage(**systems: Any) -> dict[str, Any]:
    return merged(STORED, {"storage": systems})


@functools.cache
def _launched() -> tuple[dict[str, str], ...]:
    """Return the tags with which the program launches three nodes."""
    made = {name: its for _, name, its in program(nodes(static=3))[0].made if re.search(r"-pool-.*-\d$", name)}
    # The program registers the nodes at the same time, so their order is random.
    return tuple(made[name]["tags"] for name in sorted(made))


def ran(**tags: str) -> dict[str, dict[str, str]]:
    """Return the tags of three running nodes, by id: the tags with which the program launches them, and `tags`."""
    return {f"i-{at}": its | tags for at, its in enumerate(_launched())}


OWN_GROUPS = {"nodes": "sg-1", "login": "sg-2", "storage": "sg-3"}
OWN = {"publicSubnet": "subnet-1", "privateSubnet": "subnet-2"}


def existing(**changes: Any) -> dict[str, Any]:
    """Return the changes that put a stack into an existing VPC."""
    return {"network": {"existing": merged(OWN, changes)}}


def network_of(**changes: Any) -> dict[str, Any]:
    """Return, for each look-up, the account's answer about the existing VPC, or a function that returns the answer.

    `changes` replace some of these answers.
    """
    subnets = {"subnet-1": "172.16.0.0/24", "subnet-2": "172.16.1.0/24"}
    ways = {"subnet-1": {"gatewayId": "igw-1"}, "subnet-2": {"natGatewayId": "nat-1"}}
    every = {"ipProtocol": "-1", "fromPort": -1, "toPort": -1}
    rules = {
        f"{group}/{way}/{peer}": every | {"isEgress": way == "out", "referencedSecurityGroupId": peer}
        for way in ("in", "out")
        for group, peer in itertools.product(OWN_GROUPS.values(), OWN_GROUPS.values())
        if group != "sg-2" or peer != "sg-2"
    }
    for group in ("sg-1", "sg-2"):
        rules[f"{group}/out/anywhere"] = every | {"isEgress": True, "cidrIpv4": "0.0.0.0/0"}
    ssh = {"ipProtocol": "tcp", "fromPort": 22, "toPort": 22, "isEgress": False, "cidrIpv4": "198.51.100.0/24"}
    rules["sg-2/in/ssh"] = ssh

    def of_group(args: dict[str, Any]) -> dict[str, Any]:
        (asked,) = args["filters"]
        assert asked["name"] == "group-id"
        return {"ids": [name for name in rules if name.partition("/")[0] in asked["values"]]}

    return {
        "getVpc": {"enableDnsSupport": True, "enableDnsHostnames": True, "mainRouteTableId": "rtb-main"},
        "getSubnet": lambda args: {
            "vpcId": "vpc-1",
            "availabilityZone": ZONE,
            "cidrBlock": subnets[args["id"]],
            "availableIpAddressCount": 200,
        },
        "getRouteTable": lambda args: {"routes": [{"cidrBlock": "0.0.0.0/0", **ways[args["subnetId"]]}]},
        "getSecurityGroup": {"vpcId": "vpc-1"},
        "getSecurityGroupRules": of_group,
        "getSecurityGroupRule": lambda args: rules[args["securityGroupRuleId"]],
    } | changes


HELD = {"getInstanceProfile": {"roleArn": "arn:aws:iam::111122223333:role/theirs", "roleName": "theirs"}}


def account(**changes: Any) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return, for each look-up, a function that returns the account's answer; `changes` replace some answers."""
    row = INSTANCES["p5.48xlarge"]
    cards = [{"index": n, "maximumInterfaces": most} for n, most in enumerate(row.cards)]
    disks = [{"deviceName": "/dev/sda1", "ebs": {"volume_size": "75"}}, {"deviceName": "/dev/sdb", "ebs": {}}]
    answers: dict[str, dict[str, Any]] = {
        "getRegion": {"region": "ap-northeast-1"},
        "getInstanceTypeOfferings": {"locations": [OTHER, ZONE]},
        "getInstanceType": {
            "supportedUsagesClasses": ["on-demand", "spot", "capacity-block"],
            "supportedPlacementStrategies": ["cluster"],
            "efaSupported": True,
            "efaMaximumInterfaces": 32,
            "networkCards": cards,
        },
        "getAmi": {
            "architecture": "x86_64",
            "name": "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260901",
            "description": "",
            "rootDeviceName": "/dev/sda1",
            "blockDeviceMappings": disks,
        },
        "getServiceQuota": {"value": 384.0},
        "getEips": {"publicIps": []},
        "getCapacityBlockReservation": {
            "state": "active",
            "instanceType": "p5.48xlarge",
            "availabilityZone": ZONE,
            "instanceCount": 2,
            "placementGroupArn": "",
        },
    } | changes
    return {noun: (lambda _, answer=answer: answer) if not callable(answer) else answer for noun, answer in answers.items()}
