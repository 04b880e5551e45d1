"""Makes the login node Slurm's controller: grants permissions in the tenancy, and describes each pool's dynamic nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi

from catalogue.oci.permissions import CONTROLLER
from catalogue.oci.processors import PROCESSORS
from components.engine_state import folder_name
from components.oci.login_node import LoginNode
from components.oci.pool import Pool
from components.oci.preflight import Place
from components.oci.tagged_machines import slurms_stack, stack_tags
from components.reach import Machine
from components.slurm.controller import Controller, DynamicSet, Submitting
from config.oci.model import OWNER, STACK, Oci
from config.oci.model import Pool as WantedPool
from config.slurm import Scheduler, job_folder
from scheduler.cluster import Cores, Hardware, nvidia_gpus


@dataclass(frozen=True)
class Starts:
    """The dynamic nodes of one pool: the pool's settings, and the component that has its instance configuration."""

    wanted: WantedPool
    made: Pool


class Rights(pulumi.ComponentResource):
    """Permissions of the controller to launch and terminate machines in the stack's compartment.

    Creates: a dynamic group whose only member is the login node, and the group's policy in the compartment.
    Outputs: none; the controller can launch machines once `resources` exist.
    """

    resources: tuple[pulumi.Resource, ...]

    def __init__(
        self,
        name: str,
        wanted: Oci,
        tenancy: str,
        instance_id: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        # This module of the SDK takes half a second to import, and only stacks with Slurm need it.
        from pulumi_oci import identity  # noqa: PLC0415

        super().__init__("busbar:oci:Rights", name, None, opts)
        mine = pulumi.ResourceOptions(parent=self)
        label = f"{wanted.name}-{pulumi.get_stack()}-controller"
        group = identity.DynamicGroup(
            f"{name}-group",
            compartment_id=tenancy,
            name=label,
            description=f"The login node of busbar cluster {wanted.name}, Slurm's controller: it launches and terminates nodes",
            matching_rule=instance_id.apply(lambda ocid: f"instance.id = '{ocid}'"),
            freeform_tags=stack_tags(wanted),
            opts=mine,
        )
        policy = identity.Policy(
            f"{name}-policy",
            compartment_id=wanted.compartment,
            name=label,
            description=f"What the login node of busbar cluster {wanted.name} may do to launch and terminate nodes",
            statements=group.name.apply(lambda one: [_statement(one, right, wanted.compartment) for right in CONTROLLER]),
            freeform_tags=stack_tags(wanted),
            opts=mine,
        )
        self.resources = (group, policy)
        self.register_outputs({})


def _statement(group: str, right: str, compartment: str) -> str:
    place = "tenancy" if compartment.startswith("ocid1.tenancy.") else f"compartment id {compartment}"
    return f"Allow dynamic-group {group} to {right} in {place}"


def started(  # noqa: PLR0913 - each part of a cluster is an argument
    name: str,
    controller: Controller,
    wanted: Oci,
    scheduler: Scheduler,
    pools: Sequence[Starts],
    *,
    login: LoginNode,
    people: Sequence[LoginNode],
    place: Place,
    subnet_id: pulumi.Output[str],
    needed: Sequence[pulumi.Resource],
    opts: pulumi.ResourceOptions,
) -> pulumi.Output[Machine]:
    """Register the Slurm cluster of `pools`; return the controller once it accepts jobs."""
    rights = Rights(f"{name}-rights", wanted, place.tenancy, login.instance_id, opts)
    sets = [_set(wanted, one, place) for one in pools]
    # The user's tags are passed separately: they may change, and the controller must still find machines with the old tags.
    tags = {OWNER: wanted.name, STACK: slurms_stack()}
    given = {"compartment": wanted.compartment, "tags": tags, "more_tags": wanted.tags}
    cloud = pulumi.Output.all(region=controller.region, subnet=subnet_id).apply(lambda its: {**given, **its})
    return controller.install(
        scheduler,
        sets,
        allowed=wanted.allow_replace,
        address=login.private_address,
        cloud=cloud,
        user=pools[0].wanted.family.login,
        home=wanted.storage.home_mount,
        shared=job_folder(wanted.storage.home_mount, folder_name()),
        logins=[Submitting(one.machine, one.instance_id, one.private_address) for one in people],
        needed=[*rights.resources, *(one.made.configuration for one in pools), *needed],
    )


def _set(wanted: Oci, one: Starts, place: Place) -> DynamicSet:
    pool = one.wanted
    gpus = nvidia_gpus(pool.row.gpu, pool.row.gpus)
    hardware = Hardware(Cores(*PROCESSORS[pool.shape]), pool.row.memory_gib * 1024, gpus)
    spec = one.made.configuration.id.apply(
        lambda ocid: {
            "configuration": ocid,
            "label": wanted.slurms_label(pool),
            "domains": [place.availability_domain, *pool.fallback_domains],
        }
    )
    return DynamicSet(pool.queue, pool.name, pool.name, pool.dynamic, pool.always_on, hardware, spec)
