"""Machines of one type in a queue: launch template, placement group and the static machines, which always run.

Each static machine is a separate resource: an error names the machine, a machine can be replaced without the others, and
adding a machine is one launch. Instant fleets have none of these advantages
(terraform-provider-aws:internal/service/ec2/ec2_fleet.go drops the errors of CreateFleet and does not wait for terminating
machines). A scheduler starts the dynamic machines from the same launch template.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pulumi
from pulumi_aws import ec2

from catalogue.aws import STACK
from catalogue.aws.instances import BLOCK, ON_DEMAND, SPOT
from catalogue.aws.nics import PLAIN, layout
from catalogue.containers import ENROOT
from cloudinit.aws import SCRATCH, ComputeBoot, Mounts, user_data
from components.after import after
from components.aws import bought_blocks
from components.aws.bought_blocks import OFFERING_TAG
from components.aws.launch_inputs import STACK_TAG, LaunchInputs, gp3, stack_tags
from components.aws.tagged_machines import RIGHT, tagged
from components.engine_state import this_stack
from components.left_behind import never_twice
from components.slurm.first_boot import software
from components.wait_for_capacity import begun
from config.aws.model import Aws, Machines

#: Timeout for creating and for deleting a machine. The provider retries for some minutes if there is no capacity, and waits for
#: termination (terraform-provider-aws:internal/service/ec2/service_package.go, ec2_instance.go).
_PATIENCE = "30m"
#: Tags by which running machines are found: the machine's pool, its index in the pool, and a hash of its settings.
POOL_TAG, INDEX_TAG, MADE_TAG = "busbar:pool", "busbar:index", "busbar:made-of"


@dataclass(frozen=True)
class Member:
    """One running machine: its id, its private IPv4 address and the id of its image."""

    id: str
    address: str
    image: str


class Pool(pulumi.ComponentResource):
    """A launch template and its static machines.

    Creates: placement group (if configured), Capacity Block (if its purchase was confirmed), launch template, one instance for
    each static machine.
    Outputs: `members`, in the order of their addresses; `kept`: at a preview, the ids of the members that the
    engine does not replace; `template_id`; `block`, id of the Capacity Block that the machines start in, empty without a block.
    """

    members: pulumi.Output[tuple[Member, ...]]
    kept: pulumi.Output[frozenset[str]]
    template_id: pulumi.Output[str]
    block: pulumi.Output[str]

    def __init__(  # noqa: PLR0913, PLR0917 - what is wanted, and what other parts made
        self,
        name: str,
        wanted: Aws,
        key: str,
        parts: LaunchInputs,
        may_go_on: pulumi.Output[bool],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("busbar:aws:Pool", name, None, opts)
        self._name, self._wanted, self._key, self._parts = name, wanted, key, parts
        self._path, self._machines = next((path, one) for path, its, one in wanted.located if its == key)
        self._label, self._made_of = f"{wanted.name}-{key}", wanted.made_of(self._machines)
        self._mine = pulumi.ResourceOptions(parent=self)
        self._may_go_on = may_go_on
        reservation = self._reservation()
        template = self._template(self._placement(), reservation)
        self.template_id = template.id
        held = reservation if self._machines.purchase.option == BLOCK else None
        self.block = pulumi.Output.from_input(held or "")
        made = self._instances(template, self._begun(reservation))
        self.members = _members(made)
        # A preview does not know the ids of instances that will be replaced.
        known = [one.id.apply(lambda its: {its} if isinstance(its, str) else set(), run_with_unknowns=True) for one in made]
        self.kept = pulumi.Output.all(*known).apply(lambda ids: frozenset().union(*ids))
        self.register_outputs({"template_id": self.template_id})

    def _placement(self) -> pulumi.Input[str] | None:
        machines = self._machines
        if machines.placement == "existing":
            return machines.placement_group
        if not machines.makes_group:
            return None
        group = ec2.PlacementGroup(
            f"{self._name}-group", strategy="cluster", tags=stack_tags(self._wanted, self._key), opts=self._mine
        )
        return group.name

    def _reservation(self) -> pulumi.Input[str] | None:
        """Return the reservation to launch into; buy a Capacity Block only if the stack file confirms its offering id."""
        bought = self._machines.purchase
        if not bought.offering:
            return bought.reservation
        block = ec2.CapacityBlockReservation(
            f"{self._name}-block",
            capacity_block_offering_id=bought.offering,
            instance_platform="Linux/UNIX",
            tags=self._wanted.named(self._key) | {OFFERING_TAG: bought.offering},
            # A changed offering must not buy a second block, and a bought block must outlive the stack.
            opts=pulumi.ResourceOptions(
                parent=self,
                ignore_changes=["capacityBlockOfferingId", "instancePlatform", f'tags["{OFFERING_TAG}"]'],
                retain_on_delete=True,
                hooks=bought_blocks.never_twice(
                    f"{self._name}-block", f"{self._path}.purchase", bought.offering, preflight=self._wanted.preflight
                ),
            ),
        )
        # A destroy drops the block from the state, but the offering is still in the stack file.
        block.id.apply(
            lambda its: pulumi.log.warn(
                f"{self._path}.purchase.confirm is still {bought.confirm}: Capacity Block {its} of this offering is bought and "
                "outlives the stack. After a destroy, set the key `reservation` to the id of this block, and remove the keys "
                "`offering` and `confirm`.",
                self,
            )
        )
        return block.id

    def _template(self, group: pulumi.Input[str] | None, reservation: pulumi.Input[str] | None) -> ec2.LaunchTemplate:
        wanted, parts, machines = self._wanted, self._parts, self._machines
        tags = self._tags()
        return ec2.LaunchTemplate(
            f"{self._name}-template",
            # A changed prefix replaces the template and the machines. Any other change makes a new version of the template,
            # which only new machines use.
            name_prefix=f"{self._label}-{self._made_of}-",
            # No change that could terminate a machine is registered before `running.judged` has allowed it.
            image_id=self._may_go_on.apply(lambda _: parts.image),
            instance_type=machines.type,
            ebs_optimized="true",
            instance_initiated_shutdown_behavior="terminate",
            update_default_version=True,
            iam_instance_profile=ec2.LaunchTemplateIamInstanceProfileArgs(name=parts.profile),
            metadata_options=ec2.LaunchTemplateMetadataOptionsArgs(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1
            ),
            block_device_mappings=[_root(wanted)],
            network_interfaces=self._interfaces(),
            placement=ec2.LaunchTemplatePlacementArgs(group_name=group) if group else None,
            instance_market_options=_market(machines),
            capacity_reservation_specification=_capacity(machines, reservation),
            tag_specifications=[
                ec2.LaunchTemplateTagSpecificationArgs(resource_type=noun, tags=tags) for noun in ("instance", "volume")
            ],
            user_data=self._first_boot(),
            tags=tags,
            # Without a configured image, the image comes from a look-up, whose answer changes with AWS's releases. A
            # changed answer is ignored, because all nodes of a pool must have the same image.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=[] if wanted.image else ["imageId"]),
        )

    def _first_boot(self) -> pulumi.Output[str]:
        """Return the user data; dynamic machines also accept SSH from Slurm's controller."""
        wanted, machines, parts = self._wanted, self._machines, self._parts
        if parts.controller_key is None or not machines.dynamic:
            return pulumi.Output.from_input(parts.mounts).apply(lambda mounts: _user_data(wanted, machines, mounts, ()))
        return pulumi.Output.all(mounts=parts.mounts, key=parts.controller_key).apply(
            lambda its: _user_data(wanted, machines, its["mounts"], (its["key"],))
        )

    def _begun(self, reservation: pulumi.Input[str] | None) -> pulumi.Output[str]:
        """Return the start time of the Capacity Block; the output is not known before the block has begun.

        Before that time, EC2 launches no machines into a block. The result is empty without a block or without static machines.
        The provider waits only until a block is `scheduled`
        (terraform-provider-aws:internal/service/ec2/ec2_capacity_block_reservation.go).
        """
        if self._machines.purchase.option != BLOCK or reservation is None or not self._machines.numbers:
            return pulumi.Output.from_input("")
        found = ec2.get_capacity_block_reservation_output(id=reservation)
        return begun(f"{self._name}-begun", found.start_date, reservation, self._mine)

    def _instances(self, template: ec2.LaunchTemplate, begun_at: pulumi.Output[str]) -> list[ec2.Instance]:
        version = after(template.latest_version, begun_at).apply(str)
        return [
            ec2.Instance(
                f"{self._name}-{index}",
                launch_template=ec2.InstanceLaunchTemplateArgs(id=template.id, version=version),
                # These are all tags, including the launch template's: the provider reads all tags of the machine back, and
                # would remove tags that are missing here.
                tags={**self._tags(), INDEX_TAG: str(index)},
                opts=pulumi.ResourceOptions(
                    parent=self,
                    custom_timeouts=pulumi.CustomTimeouts(create=_PATIENCE, delete=_PATIENCE),
                    ignore_changes=["launchTemplate.version"],
                    # Capacity is scarce, so the old machine is terminated before the new one is launched.
                    delete_before_replace=True,
                    hooks=never_twice(
                        f"{self._name}-{index}",
                        functools.partial(tagged, self._place(index)),
                        right=RIGHT,
                        preflight=self._wanted.preflight,
                    ),
                ),
            )
            for index in self._machines.numbers
        ]

    def _tags(self) -> dict[str, str]:
        queue = self._wanted.queue_of(self._key)
        names = {"busbar:queue": queue, "busbar:compute-resource": self._machines.name, "busbar:node-type": "compute"}
        ours = {STACK_TAG: this_stack(), POOL_TAG: self._key, MADE_TAG: self._made_of}
        return {**self._wanted.named(self._key), **names, **ours}

    def _place(self, index: int) -> dict[str, str]:
        return {STACK_TAG: this_stack(), POOL_TAG: self._key, INDEX_TAG: str(index)}

    def _interfaces(self) -> list[ec2.LaunchTemplateNetworkInterfaceArgs]:
        machines = self._machines
        if machines.instance is None:
            raise ValueError(f"{machines.type} is not in the catalogue")
        return [
            ec2.LaunchTemplateNetworkInterfaceArgs(
                network_card_index=nic.card,
                device_index=nic.device,
                interface_type=nic.kind,
                subnet_id=self._parts.subnet_id,
                security_groups=[self._parts.group_id],
                delete_on_termination="true",
                # EC2 accepts this argument only for machines with one interface.
                associate_public_ip_address=None,
                description=f"{self._label} {'front end' if nic.kind == PLAIN else 'EFA'}",
            )
            for nic in layout(machines.instance, efa=machines.has_efa, legacy=machines.legacy_efa)
        ]


def _root(wanted: Aws) -> ec2.LaunchTemplateBlockDeviceMappingArgs:
    return ec2.LaunchTemplateBlockDeviceMappingArgs(
        device_name=wanted.family.root_device,
        ebs=ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
            **gp3(wanted.root),
            encrypted="true",
            delete_on_termination="true",
        ),
    )


def _market(machines: Machines) -> ec2.LaunchTemplateInstanceMarketOptionsArgs | None:
    bought = machines.purchase
    if bought.usage == ON_DEMAND:
        return None
    most = ec2.LaunchTemplateInstanceMarketOptionsSpotOptionsArgs(
        max_price=f"{bought.max_price_usd:g}" if bought.max_price_usd else None,
        spot_instance_type="one-time",
        instance_interruption_behavior="terminate",
    )
    return ec2.LaunchTemplateInstanceMarketOptionsArgs(
        market_type=bought.usage, spot_options=most if bought.option == SPOT else None
    )


def _capacity(
    machines: Machines, reservation: pulumi.Input[str] | None
) -> ec2.LaunchTemplateCapacityReservationSpecificationArgs | None:
    if reservation is None:
        return None
    by_group = machines.purchase.option == "odcr-group"
    target = ec2.LaunchTemplateCapacityReservationSpecificationCapacityReservationTargetArgs(
        capacity_reservation_id=None if by_group else reservation,
        capacity_reservation_resource_group_arn=reservation if by_group else None,
    )
    return ec2.LaunchTemplateCapacityReservationSpecificationArgs(capacity_reservation_target=target)


def _user_data(wanted: Aws, machines: Machines, mounts: Mounts, controllers: tuple[str, ...]) -> str:
    slurm = software(wanted.family.slurm, wanted.slurm, scratch=SCRATCH) if controllers else None
    boot = ComputeBoot(
        image=wanted.family,
        timezone=wanted.timezone,
        keys=(wanted.access.public_key, *controllers),
        mounts=mounts,
        slurm=slurm,
        actions=machines.custom_actions,
        efa=machines.instance.efa if machines.instance and machines.has_efa else 0,
        stack=STACK,
        enroot=ENROOT if wanted.container and not (slurm and slurm.containers) else "",
        enroot_sha256=wanted.container.enroot_sha256 if wanted.container else (),
    )
    return user_data(boot).packed


def _members(made: list[ec2.Instance]) -> pulumi.Output[tuple[Member, ...]]:
    each = [pulumi.Output.all(id=one.id, address=one.private_ip, image=one.ami) for one in made]
    return pulumi.Output.all(*each).apply(
        lambda found: tuple(sorted((Member(**one) for one in found), key=lambda one: _order(one.address)))
    )


def _order(address: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in (address or "").split(".") if part.isdecimal())
