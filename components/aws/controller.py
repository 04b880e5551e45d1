"""Makes the login node Slurm's controller, with the settings to launch the dynamic machines of each entry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pulumi

from components.aws.compute import Pool
from components.aws.launch_inputs import STACK_TAG, slurms_stack
from components.aws.login_node import LoginNode
from components.engine_state import folder_name
from components.reach import Machine
from components.slurm.controller import Controller, DynamicSet, Submitting
from config.aws.model import Aws, Machines
from config.slurm import Scheduler, job_folder
from scheduler.cluster import Cores, Hardware, nvidia_gpus

_X86 = "x86_64"
#: A type with this many vCPUs or more counts as a machine with two processors. This assumption is true for p4d and p5 (EC2 user
#: guide, instance types). For other types it may be wrong, which does no harm: Slurm compares only the product of processors,
#: cores and threads.
_TWO_SOCKETS = 96


def started(  # noqa: PLR0913, PLR0917 - what a cluster is made of
    controller: Controller,
    wanted: Aws,
    scheduler: Scheduler,
    pools: Mapping[str, Pool],
    login: LoginNode,
    people: Sequence[LoginNode],
    needed: Sequence[pulumi.Resource],
) -> pulumi.Output[Machine]:
    """Register the Slurm cluster of all entries with dynamic machines; return the controller once it accepts jobs."""
    sets = [
        _set(queue.name, one, pools[f"{queue.name}-{one.name}"])
        for queue in wanted.queues
        for one in queue.machines
        if one.dynamic
    ]
    tags = {"busbar:cluster": wanted.name, STACK_TAG: slurms_stack()}
    suffix = ".cn" if wanted.region.startswith("cn-") else ""
    cloud = {"region": wanted.region, "endpoint": f"https://ec2.{wanted.region}.amazonaws.com{suffix}/", "tags": tags}
    return controller.install(
        scheduler,
        sets,
        allowed=wanted.allow_replace,
        address=login.private_address,
        cloud=pulumi.Output.from_input(cloud),
        user=wanted.family.login,
        home=wanted.storage.home_mount,
        shared=job_folder(wanted.storage.home_mount, folder_name()),
        logins=[Submitting(one.machine, one.instance_id, one.private_address) for one in people],
        needed=[*pools.values(), *needed],
    )


def _set(queue: str, one: Machines, pool: Pool) -> DynamicSet:
    instance = one.instance
    if instance is None:
        raise ValueError(f"{one.type} is not in the catalogue")
    threads = 2 if instance.architecture == _X86 else 1
    gpus = nvidia_gpus(instance.gpu, instance.gpus)
    sockets = 2 if instance.vcpus >= _TWO_SOCKETS else 1
    cores = Cores(sockets, instance.vcpus // threads // sockets, threads)
    hardware = Hardware(cores, instance.memory_gib * 1024, gpus)
    spec = pulumi.Output.all(template=pool.template_id, block=pool.block).apply(
        lambda its: {"template": its["template"], "tags": {}, **({"block": its["block"]} if its["block"] else {})}
    )
    return DynamicSet(queue, one.name, f"{queue}-{one.name}", one.dynamic, one.always_on, hardware, spec)
