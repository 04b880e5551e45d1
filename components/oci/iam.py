"""Rights of the login node in the cloud: it may read the state of the nodes.

The policy names one instance. The vendor's own stack lets every instance of the compartment manage all of it.
"""

from __future__ import annotations

import pulumi
import pulumi_oci
from pulumi_oci import identity

from components.oci.preflight import Place
from config.oci.model import Oci

#: Enough to list a pool's members and to see why one does not come up; nothing that changes anything.
_MAY = ("read instance-family", "read compute-management-family", "read virtual-network-family")


class Iam(pulumi.ComponentResource):
    """A dynamic group of one instance and its policy.

    Creates: dynamic group, policy; a provider for the home region where it is another one.
    Outputs: `policy_id`.
    """

    policy_id: pulumi.Output[str]

    def __init__(
        self, name: str, wanted: Oci, place: Place, instance_id: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("busbar:oci:Iam", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        if place.home_region not in {None, pulumi_oci.config.region}:
            home = pulumi_oci.Provider(f"{name}-home", region=place.home_region, opts=mine)
            mine = pulumi.ResourceOptions(parent=self, provider=home)
        group = identity.DynamicGroup(
            f"{name}-group",
            compartment_id=place.tenancy,
            name=f"{wanted.name}-login",
            description="The login node of a busbar cluster",
            matching_rule=pulumi.Output.concat("instance.id = '", instance_id, "'"),
            opts=mine,
        )
        policy = identity.Policy(
            f"{name}-policy",
            compartment_id=wanted.compartment,
            name=f"{wanted.name}-login",
            description="Lets the login node of a busbar cluster see the state of its nodes",
            statements=[
                pulumi.Output.concat("Allow dynamic-group ", group.name, f" to {verb} in compartment id {wanted.compartment}")
                for verb in _MAY
            ],
            opts=mine,
        )
        self.policy_id = policy.id
        self.register_outputs({"policy_id": self.policy_id})
