"""One bare-metal GPU instance, without a cluster network and without an instance configuration."""

from __future__ import annotations

import pulumi
from pulumi_oci import core

from components.inventory import Node, NodeSet
from components.left_behind import never_twice
from components.oci.launch import BOOT_VPUS_PER_GB, LaunchInputs, plugins, tags, user_data
from components.oci.pool import DELETE, node_set
from components.oci.preflight import Place
from components.oci.tagged_machines import RIGHT, instances_named
from config.oci.model import Oci
from config.oci.model import Pool as WantedPool

#: The provider's own timeout for the creation and the update of an instance (terraform-provider-oci, core_instance).
_START = "45m"


class Single(pulumi.ComponentResource):
    """One GPU instance.

    Creates: instance, if one is configured.
    Outputs: `made`, a node set with this instance.
    """

    made: pulumi.Output[NodeSet]

    def __init__(  # noqa: PLR0913, PLR0917 - what is wanted, where, and what other parts made
        self,
        name: str,
        wanted: Oci,
        pool: WantedPool,
        place: Place,
        parts: LaunchInputs,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:oci:Single", name, None, opts)
        if not pool.nodes:
            self.made = pulumi.Output.from_input(node_set(pool, (), ()))
            self.register_outputs({"nodes": []})
            return
        instance = core.Instance(
            f"{name}-node",
            compartment_id=wanted.compartment,
            freeform_tags=tags(wanted, pool),
            availability_domain=place.availability_domain,
            display_name=wanted.label(pool),
            shape=pool.shape,
            source_details=core.InstanceSourceDetailsArgs(
                source_type="image",
                source_id=parts.images.get(pool.image, pool.image),
                boot_volume_size_in_gbs=str(pool.root.size_gb),
                boot_volume_vpus_per_gb=str(BOOT_VPUS_PER_GB),
            ),
            create_vnic_details=core.InstanceCreateVnicDetailsArgs(subnet_id=parts.subnet_id, assign_public_ip="false"),
            instance_options=core.InstanceInstanceOptionsArgs(are_legacy_imds_endpoints_disabled=True),
            agent_config=core.InstanceAgentConfigArgs(
                are_all_plugins_disabled=False,
                is_management_disabled=False,
                is_monitoring_disabled=False,
                plugins_configs=[
                    core.InstanceAgentConfigPluginsConfigArgs(name=plugin, desired_state=state)
                    for plugin, state in plugins(pool).items()
                ],
            ),
            metadata={
                "ssh_authorized_keys": wanted.access.public_key,
                "user_data": user_data(wanted, pool, place, parts),
            },
            opts=pulumi.ResourceOptions(
                parent=self,
                custom_timeouts=pulumi.CustomTimeouts(create=_START, update=_START, delete=DELETE),
                # A changed shape, image or volume replaces the machine. Capacity is scarce, so the old machine is terminated
                # before the new one is created. The provider would also replace a machine if the key or the first boot
                # changes, and would change the image of a running machine. So changes of `metadata` and `sourceDetails`
                # are ignored for a machine that stays.
                replacement_trigger=wanted.machines(pool),
                delete_before_replace=True,
                hooks=never_twice(
                    f"{name}-node",
                    lambda: instances_named(wanted.compartment, wanted.label(pool)),
                    right=RIGHT,
                    preflight=wanted.preflight,
                ),
                ignore_changes=["metadata", "sourceDetails"] if pool.name in place.staying else None,
            ),
        )
        found = pulumi.Output.all(
            ocid=instance.id, name=instance.display_name, address=instance.private_ip, domain=instance.fault_domain
        )
        self.made = found.apply(lambda its: node_set(pool, (Node(its["name"], its["address"], its["domain"]),), [its["ocid"]]))
        self.register_outputs({"nodes": self.made.apply(lambda its: [node.name for node in its.nodes])})
