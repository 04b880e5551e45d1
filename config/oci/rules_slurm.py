"""Rules about the Slurm cluster: what its dynamic nodes need, and what no job could use."""

from __future__ import annotations

from collections.abc import Iterator

from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Breach, rule
from scheduler import names

_POWER = "slurm.conf(5), ResumeProgram, SuspendProgram"


@rule("slurm-missing", ERROR, _POWER, guard=True)
def slurm_missing(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Dynamic nodes that nothing starts, and a controller without any."""
    for path, pool in wanted.located:
        if pool.dynamic and wanted.slurm is None:
            yield Breach(
                f"{path}.dynamic",
                f"is {pool.dynamic}, and oci.slurm is not set; nothing would start them, so set oci.slurm: {{}}",
            )
    if wanted.slurm is not None and not any(pool.dynamic for pool in wanted.pools):
        yield Breach(
            "oci.slurm", "is set, and no pool has dynamic nodes; give one a number of them in `dynamic`, or remove oci.slurm"
        )


@rule("slurm-static", ERROR, "components/slurm: dynamic nodes join, static ones are measured over SSH", guard=True)
def slurm_static(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A pool with nodes of both kinds, or whose dynamic nodes no cluster network would join."""
    for path, pool in wanted.located:
        if pool.dynamic and pool.nodes:
            yield Breach(
                f"{path}.nodes",
                f"is {pool.nodes}, and dynamic is {pool.dynamic}; a pool's nodes either always run or belong to the queue, so "
                "make two pools of it",
            )
        if pool.dynamic and not pool.cluster_network:
            yield Breach(
                f"{path}.clusterNetwork", "is false, and the pool has dynamic nodes; each launch of them is a cluster network"
            )


@rule("slurm-home", ERROR, "sbatch(1): a job's output is a file on its first node", guard=True)
def slurm_home(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Jobs whose output would end with their nodes."""
    if wanted.slurm is not None and wanted.storage.home is None:
        yield Breach(
            "oci.storage.home",
            "is not set, and oci.slurm is; jobs write to home folders, which must be on all nodes and outlive them: set "
            "oci.storage.home: {}",
        )


@rule("slurm-software", ERROR, "catalogue/oci/images.py; slurm.conf(5): slurmctld is not older than slurmd", guard=True)
def slurm_software(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Images whose repositories have no Slurm, or another version than the controller's."""
    if wanted.slurm is None:
        return
    own, family = wanted.login.family.slurm, wanted.login.image_family
    able = "ol8, ol9 or ubuntu2404"
    if not own:
        yield Breach(
            "oci.login.imageFamily", f"is {family}, for which there is no package of Slurm 22.05 or later; take {able}"
        )
        return
    for path, pool in wanted.located:
        if pool.dynamic and pool.family.slurm != own:
            has = f"has Slurm {pool.family.slurm}" if pool.family.slurm else "has no package of Slurm 22.05 or later"
            yield Breach(
                f"{path}.image",
                f"is {pool.image} of family {pool.family.key}, which {has}, and the login node has {own}; they must be equal",
            )


@rule("slurm-queue", ERROR, "slurm.conf(5), PartitionName", guard=True)
def slurm_queue(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A queue that cannot have its name."""
    for path, pool in wanted.located:
        why = names.refused_queue(pool.queue)
        if why:
            yield Breach(f"{path}.queue", f"is {pool.queue!r}; {why}")


@rule("slurm-test", ERROR, "a test job between nodes needs two", guard=True)
def slurm_test(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A test job that no pool can run, or that has no fabric to measure."""
    if wanted.slurm is None:
        return
    asked, most = wanted.slurm.test_nodes, max(pool.dynamic for pool in wanted.pools)
    if asked == 1:
        yield Breach("oci.slurm.testNodes", "is 1; one node has no fabric to measure, so it must be at least 2")
    elif most and asked > most:
        yield Breach("oci.slurm.testNodes", f"is {asked}, and no pool has more than {most} dynamic nodes")


@rule("slurm-container", ERROR, "components/slurm: ranks of the test job run on the nodes", guard=True)
def slurm_container(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An image for ranks, which the test job does not run in."""
    if wanted.slurm is not None and wanted.container is not None:
        yield Breach(
            "oci.container", "is set, and oci.slurm is; the test job runs on the nodes themselves, so remove one of them"
        )


@rule("slurm-tenancy", ERROR, "OCI Identity: dynamic groups belong to the tenancy", guard=True)
def slurm_tenancy(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A controller's group of rights without the tenancy that it belongs to."""
    if wanted.slurm is not None and wanted.tenancy is None and not wanted.preflight:
        yield Breach(
            "oci.tenancy",
            "is not set, and oci.preflight is false, so it is not looked up; oci.slurm needs it for a dynamic group",
        )
