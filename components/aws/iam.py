"""IAM roles of machines: the login node publishes its host key, and Session Manager can reach every machine.

If a scheduler may add machines, the login node may start machines in this cluster's subnet and terminate this stack's machines.
The policy recognizes this stack's machines by the nodes' profile or, if the stack file names that profile, by the stack's tag.
The provider generates the names of roles and profiles, so these names differ even between stacks with the same name. The SSM
parameter for a host key is named after the role that may write it, so the parameters differ, too.
A profile that the stack file names is used as it is; the owner of that profile decides what the profile's role may do. If the
stack file names the login node's profile, the login node's SSM parameter is named after the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_aws import iam

from components.after import after
from components.aws.launch_inputs import STACK_TAG, slurms_stack, stack_tags
from components.engine_state import this_stack
from config.aws.model import Aws

_SESSION_MANAGER = "AmazonSSMManagedInstanceCore"
#: AWS's managed policy for each right that a stack file can give to nodes, as awsome-distributed-training attaches them.
_RIGHTS = {"s3-read": "AmazonS3ReadOnlyAccess", "ecr-pull": "AmazonEC2ContainerRegistryReadOnly"}

#: A condition of a policy: {operator: {key: value}}.
_Condition = dict[str, dict[str, str]]


def partition(region: str) -> str:
    """Return the AWS partition of `region`, as in ARNs."""
    if region.startswith("us-gov-"):
        return "aws-us-gov"
    return "aws-cn" if region.startswith("cn-") else "aws"


def _service(region: str) -> str:
    """Return the service principal of EC2 in `region`, for trust policies."""
    return "ec2.amazonaws.com.cn" if region.startswith("cn-") else "ec2.amazonaws.com"


class Iam(pulumi.ComponentResource):
    """Roles of login node and nodes.

    Creates: two roles, each with Session Manager's policy and an instance profile; one more such role for each login node in
    addition to Slurm's controller; the login nodes' own policies. If the stack file names a profile, no role is created for
    the machines with that profile.
    Outputs: `login_profile`, `node_profile` (names of instance profiles, known once the roles' policies are attached);
    `node_profile_arn`, None if other stacks may use that profile, too; `parameter`, name of the SSM parameter that the
    login node may write; `people`, the profile and the parameter of each additional login node.
    """

    login_profile: pulumi.Output[str]
    node_profile: pulumi.Output[str]
    node_profile_arn: pulumi.Output[str] | None
    parameter: pulumi.Output[str]
    people: tuple[tuple[pulumi.Output[str], pulumi.Output[str]], ...]

    def __init__(
        self, name: str, wanted: Aws, subnet_id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("busbar:aws:Iam", name, None, opts)
        self._name, self._wanted = name, wanted
        self._mine = pulumi.ResourceOptions(parent=self)
        passed, ending = self._nodes(wanted.profiles.existing.nodes)
        own = wanted.profiles.existing.login
        if own:
            self.login_profile = pulumi.Output.from_input(own)
            self.parameter = pulumi.Output.from_input(f"/busbar/{wanted.name}/host-key")
        else:
            known = pulumi.Output.all(subnet=subnet_id, node_role=passed, ours=ending)
            self.login_profile, self.parameter = self._login("login", known)
        # Every user may log in to the additional login nodes, so their roles may write only their own host keys.
        self.people = tuple(self._login(f"login-{number}") for number in range(1, wanted.people + 1))
        self.register_outputs({"login_profile": self.login_profile, "node_profile": self.node_profile})

    def _nodes(self, own: str | None) -> tuple[pulumi.Output[str], pulumi.Output[_Condition]]:
        """Set the nodes' profile; return its role's ARN and the policy condition that only this stack's nodes meet.

        The ARN is empty if the stack file names the profile and there are no dynamic machines.
        """
        name, wanted = self._name, self._wanted
        if own:
            self.node_profile, self.node_profile_arn = pulumi.Output.from_input(own), None
            ours = {"StringEquals": {f"ec2:ResourceTag/{STACK_TAG}": slurms_stack() if wanted.slurm else this_stack()}}
            found = wanted.has_dynamic and iam.get_instance_profile_output(name=own).role_arn
            return pulumi.Output.from_input(found or ""), pulumi.Output.from_input(ours)
        node = self._role("node")
        profile = iam.InstanceProfile(f"{name}-node-profile", role=node.name, tags=stack_tags(wanted, "role"), opts=self._mine)
        self.node_profile_arn = profile.arn
        rights = [self._attached("node", node, right, _RIGHTS[right]) for right in dict.fromkeys(wanted.node_rights)]
        self.node_profile = self._usable("node", node, profile, *rights)
        return node.arn, profile.arn.apply(lambda arn: {"ArnEquals": {"ec2:InstanceProfile": arn}})

    def _login(
        self, noun: str, known: pulumi.Output[dict[str, Any]] | None = None
    ) -> tuple[pulumi.Output[str], pulumi.Output[str]]:
        """Create a login node's role; return its profile, and the parameter that the role may write.

        `known` has the values for a scheduler's permissions; None if no scheduler runs on the node.
        """
        name, wanted = self._name, self._wanted
        role = self._role(noun)
        parameter = role.name.apply(lambda role: f"/busbar/{role}/host-key")
        policy = pulumi.Output.all(known=known, parameter=parameter, role=role.arn).apply(
            lambda its: _policy(wanted, _account(its["role"]), its["parameter"], its["known"])
        )
        own = iam.RolePolicy(f"{name}-{noun}-policy", role=role.name, policy=policy, opts=self._mine)
        its = iam.InstanceProfile(f"{name}-{noun}-profile", role=role.name, tags=stack_tags(wanted, "role"), opts=self._mine)
        return self._usable(noun, role, its, own), parameter

    def _role(self, noun: str) -> iam.Role:
        trust = {"Effect": "Allow", "Principal": {"Service": _service(self._wanted.region)}, "Action": "sts:AssumeRole"}
        return iam.Role(
            f"{self._name}-{noun}",
            assume_role_policy=_document(trust),
            description=f"The {noun} of busbar cluster {self._wanted.name}",
            tags=stack_tags(self._wanted, "role"),
            opts=self._mine,
        )

    def _usable(
        self, noun: str, role: iam.Role, profile: iam.InstanceProfile, *policies: pulumi.CustomResource
    ) -> pulumi.Output[str]:
        """Return the name of a profile as an output that is known once all policies are attached to the profile's role."""
        attached = self._attached(noun, role, "session-manager", _SESSION_MANAGER)
        return after(profile.name, attached.id, *(each.id for each in policies))

    def _attached(self, noun: str, role: iam.Role, right: str, policy: str) -> iam.RolePolicyAttachment:
        return iam.RolePolicyAttachment(
            f"{self._name}-{noun}-{right}",
            role=role.name,
            policy_arn=f"arn:{partition(self._wanted.region)}:iam::aws:policy/{policy}",
            opts=self._mine,
        )


def _document(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _account(arn: str) -> str:
    return arn.split(":")[4]


def _publishes(wanted: Aws, account: str, parameter: str) -> dict[str, Any]:
    arn = f"arn:{partition(wanted.region)}:ssm:{wanted.region}:{account}:parameter{parameter}"
    return {"Effect": "Allow", "Action": "ssm:PutParameter", "Resource": arn}


def _policy(wanted: Aws, account: str, parameter: str, known: Mapping[str, Any] | None) -> str:
    statements = [_publishes(wanted, account, parameter)]
    if known is not None and wanted.has_dynamic:
        statements += _elastic(wanted, account, **known)
    return _document(*statements)


def _elastic(wanted: Aws, account: str, subnet: str, node_role: str, ours: _Condition) -> list[dict[str, Any]]:
    """Return the permissions for a scheduler's calls (scheduler/elastic/aws.py), limited to this cluster.

    Source: aws-parallelcluster:cli/src/pcluster/templates/cdk_builder_utils.py, which permits further calls.
    """
    ec2 = f"arn:{partition(wanted.region)}:ec2:{wanted.region}:{account}"
    nouns = ("instance", "network-interface", "volume", "security-group", "launch-template", "placement-group")
    image = f"arn:{partition(wanted.region)}:ec2:{wanted.region}::image/*"  # images have no owner in their ARN
    start = [*(f"{ec2}:{noun}/*" for noun in nouns), f"{ec2}:subnet/{subnet}", image]
    reservations = dict.fromkeys(one.purchase.reservation or "" for _, _, one in wanted.located)
    held = [f"{ec2}:capacity-reservation/{name}" for name in reservations if name.startswith("cr-")]
    blocks = [one.purchase for _, _, one in wanted.located if one.in_block and one.dynamic]
    if any(one.offering for one in blocks):
        held.append(f"{ec2}:capacity-reservation/*")  # a block's id is not known before its purchase
    groups = [name for name in reservations if name.startswith("arn:")]
    seen = ["ec2:DescribeInstances", "ec2:DescribeInstanceTopology", *(["ec2:DescribeCapacityReservations"] if blocks else [])]
    passed = {"iam:PassedToService": _service(wanted.region)}
    made = {"ec2:CreateAction": "RunInstances"}
    found: list[dict[str, Any]] = [
        # Describe calls take no resource and, with few exceptions, no condition.
        *({"Effect": "Allow", "Action": one, "Resource": "*"} for one in seen),
        {"Effect": "Allow", "Action": "ec2:RunInstances", "Resource": start + held},
        # Tags may be set only at launch: otherwise the login node could tag any machine as this stack's and then terminate it.
        {"Effect": "Allow", "Action": "ec2:CreateTags", "Resource": start, "Condition": {"StringEquals": made}},
        {"Effect": "Allow", "Action": "ec2:TerminateInstances", "Resource": f"{ec2}:instance/*", "Condition": ours},
        {"Effect": "Allow", "Action": "iam:PassRole", "Resource": node_role, "Condition": {"StringEquals": passed}},
    ]
    if groups:
        used = ["ec2:RunInstances", "resource-groups:ListGroupResources"]
        found.append({"Effect": "Allow", "Action": used, "Resource": groups})
    return found
