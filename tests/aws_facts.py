"""A stack file of target aws, and the facts of an account that has everything that such a stack needs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from conftest import KEY, texts

from catalogue.aws.instances import INSTANCES, ON_DEMAND, SPOT
from catalogue.aws.quotas import quota_name
from config import read
from config.aws.facts import Facts, GroupRule, Image, Machine, Profile, Reservation, SecurityGroup, Subnet, Vpc
from config.stack import Stack
from tools.stack_changes import merged

ZONE, OTHER = "ap-northeast-1a", "ap-northeast-1c"
GROUP = "arn:aws:resource-groups:ap-northeast-1:111122223333:group/pool"
GIVEN: dict[str, Any] = {
    "target": "aws",
    "aws": {
        "zone": ZONE,
        "access": {"publicKey": KEY, "sshFrom": ["198.51.100.0/24"]},
        "image": "ami-1",
        "login": {"image": "ami-1"},
        "queues": [{"name": "gpu", "machines": [{"name": "p5", "static": 2}]}],
        "tags": {"team": "training"},
    },
}


def parsed(**changes: Any) -> Stack:
    """Return the parsed stack file, into which `changes` are merged."""
    return read.parse(texts(merged(GIVEN, changes)))


def machine(name: str, **changes: Any) -> Machine:
    """Return an instance type as the account describes it."""
    row = INSTANCES[name]
    return replace(Machine(row.usage, frozenset({"cluster"}), row.efa, row.cards), **changes)


ODCR = Reservation("cr-1", block=False, state="active", instance_type="p5.48xlarge", zone=ZONE, instances=8)
BLOCK = replace(ODCR, block=True)
IMAGE = Image("x86_64", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260901", 75)
VPC, PUBLIC, PRIVATE = "vpc-1", "subnet-1", "subnet-2"
NODES, LOGIN, STORED = "sg-1", "sg-2", "sg-3"
#: The part of a stack file that names an existing network and its security groups.
EXISTING: dict[str, Any] = {
    "network": {
        "existing": {
            "publicSubnet": PUBLIC,
            "privateSubnet": PRIVATE,
            "groups": {"nodes": NODES, "login": LOGIN, "storage": STORED},
        }
    }
}
_EVERY_PORT = (-1, -1)


def own_group(*rules: GroupRule) -> SecurityGroup:
    """Return an existing security group with these rules, in the VPC `VPC`."""
    return SecurityGroup(VPC, rules)


def rules_of(peer: str, protocol: str = "-1", ports: tuple[int, int] = _EVERY_PORT) -> tuple[GroupRule, GroupRule]:
    """Return two rules: one admits traffic from a peer, the other admits traffic to the peer."""
    return GroupRule(False, protocol, ports, peer), GroupRule(True, protocol, ports, peer)


#: Existing security groups. They allow all the traffic that the stack `GIVEN` needs; they also allow other traffic.
GROUPS = {
    NODES: own_group(*rules_of(NODES), *rules_of(LOGIN), *rules_of(STORED), GroupRule(True, "-1", _EVERY_PORT, "0.0.0.0/0")),
    LOGIN: own_group(
        GroupRule(False, "tcp", (22, 22), "198.51.100.0/24"),
        GroupRule(True, "-1", _EVERY_PORT, "0.0.0.0/0"),
        GroupRule(False, "-1", _EVERY_PORT, NODES),
        *rules_of(STORED),
    ),
    STORED: own_group(*rules_of(NODES), *rules_of(LOGIN), *rules_of(STORED)),
}
FACTS = Facts(
    region="ap-northeast-1",
    reservations={"cr-1": ODCR},
    groups={GROUP: (ODCR,)},
    zones=dict.fromkeys(("m5.8xlarge", "m7g.8xlarge", *INSTANCES), (ZONE, OTHER)),
    machines={name: machine(name) for name in INSTANCES},
    images={"ami-1": IMAGE},
    placement_groups={"mine": "cluster"},
    quota_vcpus={its: 3840.0 for kind in INSTANCES for option in (ON_DEMAND, SPOT) if (its := quota_name(kind, option))},
    running={"gpu-p5": 0},
    vpcs={VPC: Vpc(dns=True, host_names=True)},
    subnets={
        PUBLIC: Subnet(VPC, ZONE, "172.16.0.0/24", 251, "igw-1"),
        PRIVATE: Subnet(VPC, ZONE, "172.16.1.0/24", 251, "nat-1"),
    },
    security_groups=GROUPS,
    profiles={"gpu-nodes": Profile("nodes"), "gpu-login": Profile("login"), "empty": Profile(""), "gone": None},
)
