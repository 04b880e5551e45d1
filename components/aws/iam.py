"""What machines may do on their own: the head publishes its host key, all can be reached by Session Manager, and no more.

Where a scheduler may add machines, the head may start machines in this cluster's subnet and end those of its tag. It
deliberately grants no managed policy but Session Manager's: data reach the nodes through the file system.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
from pulumi_aws import iam

_SESSION_MANAGER = "AmazonSSMManagedInstanceCore"
#: Tag by which machines of a cluster are known; ending one asks for it.
CLUSTER_TAG = "busbar:cluster"


def partition(region: str) -> str:
    """Return the part of the vendor's world that `region` lies in, as ARNs spell it."""
    if region.startswith("us-gov-"):
        return "aws-us-gov"
    return "aws-cn" if region.startswith("cn-") else "aws"


@dataclass(frozen=True, kw_only=True)
class IamArgs:
    """Whom and what.

    Attributes:
        label: of the cluster.
        region: where.
        parameter: name of the SSM parameter that takes the head's host key.
        elastic: a scheduler on the head may add machines.
        subnet_id: the nodes' subnet.
        reservations: ids of capacity reservations and ARNs of groups of them that it may use.
        tags: on everything.
    """

    label: str
    region: str
    parameter: str
    elastic: bool
    subnet_id: pulumi.Input[str]
    reservations: tuple[str, ...]
    tags: Mapping[str, str]


class Iam(pulumi.ComponentResource):
    """Roles of head and nodes.

    Creates: two roles, each with Session Manager's policy and an instance profile; the head's own policy.
    Outputs: `head_profile`, `node_profile` (names of instance profiles, usable once their policies are attached).
    """

    head_profile: pulumi.Output[str]
    node_profile: pulumi.Output[str]

    def __init__(self, name: str, args: IamArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:aws:Iam", name, None, opts)
        self._name, self._args = name, args
        self._mine = pulumi.ResourceOptions(parent=self)
        node = self._role("node")
        self.node_profile = self._profile("node", node)
        head = self._role("head")
        policy = pulumi.Output.all(args.subnet_id, node.arn).apply(lambda found: _policy(args, str(found[0]), str(found[1])))
        own = iam.RolePolicy(f"{name}-head-policy", role=head.name, policy=policy, opts=self._mine)
        self.head_profile = self._profile("head", head, own)
        self.register_outputs({"head_profile": self.head_profile, "node_profile": self.node_profile})

    def _role(self, noun: str) -> iam.Role:
        service = "ec2.amazonaws.com.cn" if self._args.region.startswith("cn-") else "ec2.amazonaws.com"
        trust = {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"}
        return iam.Role(
            f"{self._name}-{noun}",
            assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
            description=f"The {noun} of busbar cluster {self._args.label}",
            tags=dict(self._args.tags),
            opts=self._mine,
        )

    def _profile(self, noun: str, role: iam.Role, *policies: pulumi.CustomResource) -> pulumi.Output[str]:
        attached = iam.RolePolicyAttachment(
            f"{self._name}-{noun}-session-manager",
            role=role.name,
            policy_arn=f"arn:{partition(self._args.region)}:iam::aws:policy/{_SESSION_MANAGER}",
            opts=self._mine,
        )
        made = iam.InstanceProfile(f"{self._name}-{noun}-profile", role=role.name, tags=dict(self._args.tags), opts=self._mine)
        return pulumi.Output.all(made.name, attached.id, *(each.id for each in policies)).apply(lambda found: str(found[0]))


def _policy(args: IamArgs, subnet: str, node_role: str) -> str:
    parameter = f"arn:{partition(args.region)}:ssm:{args.region}:*:parameter{args.parameter}"
    statements: list[dict[str, Any]] = [{"Effect": "Allow", "Action": "ssm:PutParameter", "Resource": parameter}]
    if args.elastic:
        statements += _elastic(args, subnet, node_role)
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _elastic(args: IamArgs, subnet: str, node_role: str) -> list[dict[str, Any]]:
    """Return what a scheduler needs, in this cluster alone.

    Source: aws-parallelcluster:cli/src/pcluster/templates/cdk_builder_utils.py.
    """
    ec2 = f"arn:{partition(args.region)}:ec2:{args.region}:*"
    nouns = ("fleet", "instance", "network-interface", "volume", "security-group", "launch-template", "placement-group")
    image = f"arn:{partition(args.region)}:ec2:{args.region}::image/*"  # images have no owner in their ARN
    start = [*(f"{ec2}:{noun}/*" for noun in nouns), f"{ec2}:subnet/{subnet}", image]
    held = [f"{ec2}:capacity-reservation/{name}" for name in args.reservations if name.startswith("cr-")]
    groups = [name for name in args.reservations if name.startswith("arn:")]
    ours = {"StringEquals": {f"ec2:ResourceTag/{CLUSTER_TAG}": args.label}}
    look = ("Instances", "InstanceStatus", "InstanceAttribute", "InstanceTypes", "InstanceTopology")
    seen = [f"ec2:Describe{noun}" for noun in (*look, "CapacityReservations", "LaunchTemplates")]
    found: list[dict[str, Any]] = [
        {"Effect": "Allow", "Action": seen, "Resource": "*"},
        {"Effect": "Allow", "Action": ["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateTags"], "Resource": start + held},
        {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": f"{ec2}:instance/*", "Condition": ours},
        {"Effect": "Allow", "Action": "ec2:GetConsoleOutput", "Resource": f"{ec2}:instance/*", "Condition": ours},
        {"Effect": "Allow", "Action": "iam:PassRole", "Resource": node_role},
    ]
    if groups:
        found.append({"Effect": "Allow", "Action": "resource-groups:ListGroupResources", "Resource": groups})
    return found
