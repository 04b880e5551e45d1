"""What the bastion may ask of the cloud on its own: the state of the nodes, read-only.

It deliberately names one instance. The vendor's own stack lets every instance of the compartment manage all of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_oci
from pulumi_oci import identity

#: Enough to list a pool's members and to see why one does not come up; nothing that changes anything.
_MAY = ("read instance-family", "read compute-management-family", "read virtual-network-family")


@dataclass(frozen=True, kw_only=True)
class IamArgs:
    """Whom and where.

    Attributes:
        tenancy: OCID; dynamic groups and policies of the tenancy live there.
        compartment: OCID of the compartment that may be read.
        label: prefix of the names.
        home_region: where IAM is written; empty for the stack's own region.
        instance_id: the one instance.
    """

    tenancy: str
    compartment: str
    label: str
    home_region: str
    instance_id: pulumi.Input[str]


class Iam(pulumi.ComponentResource):
    """A dynamic group of one instance and its policy.

    Creates: dynamic group, policy; a provider for the home region where it is another one.
    Outputs: `policy_id`.
    """

    policy_id: pulumi.Output[str]

    def __init__(self, name: str, args: IamArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:oci:Iam", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        if args.home_region:
            home = pulumi_oci.Provider(f"{name}-home", region=args.home_region, opts=mine)
            mine = pulumi.ResourceOptions(parent=self, provider=home)
        group = identity.DynamicGroup(
            f"{name}-group",
            compartment_id=args.tenancy,
            name=f"{args.label}-bastion",
            description="The bastion of a busbar cluster",
            matching_rule=pulumi.Output.concat("instance.id = '", args.instance_id, "'"),
            opts=mine,
        )
        policy = identity.Policy(
            f"{name}-policy",
            compartment_id=args.compartment,
            name=f"{args.label}-bastion",
            description="Lets the bastion of a busbar cluster see the state of its nodes",
            statements=[
                pulumi.Output.concat("Allow dynamic-group ", group.name, f" to {verb} in compartment id {args.compartment}")
                for verb in _MAY
            ],
            opts=mine,
        )
        self.policy_id = policy.id
        self.register_outputs({"policy_id": self.policy_id})
