"""Rules about the Slurm cluster: what its dynamic nodes need, and settings that no job could use."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue import gpus
from config import slurm_rules
from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Breach, NotAskedError, rule
from config.slurm_rules import Entry

_SLURM = "slurm.conf(5), ResumeProgram, SuspendProgram, PartitionName; sbatch(1)"


def _entries(wanted: Oci) -> list[Entry]:
    return [
        Entry(path, "nodes", pool.nodes, pool.dynamic, rails=pool.row.rdma is not None, always_on=pool.always_on)
        for path, pool in wanted.located
    ]


@rule("slurm-missing", ERROR, _SLURM, guard=True)
def slurm_missing(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Dynamic nodes without a controller, or a controller without dynamic nodes."""
    yield from slurm_rules.unstarted("oci.slurm", wanted.slurm, _entries(wanted))
    yield from slurm_rules.idle("oci.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-static", ERROR, "components/slurm: dynamic nodes join, static ones are measured over SSH", guard=True)
def slurm_static(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A pool with both static and dynamic nodes, or with dynamic nodes but without a cluster network."""
    yield from slurm_rules.mixed(_entries(wanted))
    for path, pool in wanted.located:
        if pool.dynamic and not pool.cluster_network:
            yield Breach(
                f"{path}.clusterNetwork", "is false, but the pool has dynamic nodes; each launch creates a cluster network"
            )


@rule("slurm-gpus", ERROR, "gres.conf(5), File; scheduler/cluster.py: nvidia_gpus", guard=True)
def slurm_gpus(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Dynamic nodes with GPUs that are not NVIDIA's, on which slurmd would not start."""
    for path, pool in wanted.located:
        if pool.dynamic and not gpus.is_nvidia(pool.row.gpu):
            yield Breach(
                f"{path}.shape",
                f"is {pool.shape} with {pool.row.gpu} GPUs, but dynamic is {pool.dynamic}; Slurm's settings are for NVIDIA's "
                "GPUs, so slurmd would find no GPU on these nodes and not start",
            )


@rule("slurm-home-region", ERROR, "OCI IAM, 403-NotAllowed (Please go to your home region); terraform-oci-iam issue 14")
def slurm_home_region(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """A Slurm cluster outside the tenancy's home region, the only region in which IAM takes the controller's permissions."""
    if wanted.slurm is None:
        return
    if facts.home_region is None:
        raise NotAskedError("the tenancy's home region")
    if facts.region and facts.home_region and facts.region != facts.home_region:
        yield Breach(
            "oci.slurm",
            f"is set, but the stack's region is {facts.region} and the tenancy's home region is {facts.home_region}; OCI "
            "accepts the controller's dynamic group and policy only in the home region, so build the cluster there",
        )


@rule("slurm-fallback-domains", ERROR, "OCI Identity, ListAvailabilityDomains; Compute, ListShapes", guard=True)
def slurm_fallback_domains(wanted: Oci, facts: Facts) -> Iterator[Breach]:
    """Fallback domains of a pool without dynamic nodes, a domain that is tried twice, or one that cannot start the nodes."""
    own = facts.domain(wanted.availability_domain, frozenset(pool.shape for pool in wanted.pools))
    for path, pool in wanted.located:
        at, names = f"{path}.fallbackDomains", pool.fallback_domains
        if names and not pool.dynamic:
            yield Breach(at, f"is {', '.join(names)}, but the pool has no dynamic nodes; static nodes start in one domain only")
        twice = next((one for one in names if names.count(one) > 1 or one == own), None)
        if twice is not None:
            yield Breach(
                at, f"has {twice} twice, or repeats the stack's availability domain, which is tried first; name each one once"
            )
    if not any(pool.fallback_domains for _, pool in wanted.located):
        return
    if not facts.domains:
        raise NotAskedError("the region's availability domains")
    for path, pool in wanted.located:
        for name in pool.fallback_domains:
            if name not in facts.domains:
                yield Breach(
                    f"{path}.fallbackDomains", f"has {name!r}, but this tenancy's region has {', '.join(facts.domains)}"
                )
            elif pool.shape not in facts.shapes.get(name, {}):
                yield Breach(f"{path}.fallbackDomains", f"has {name}, which does not offer {pool.shape}; leave it out")


@rule("slurm-always-on", ERROR, _SLURM, guard=True)
def slurm_always_on(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An `alwaysOn` without a controller, or an `alwaysOn` that is greater than `dynamic`."""
    yield from slurm_rules.always_on("oci.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-home", ERROR, _SLURM, guard=True)
def slurm_home(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Jobs whose output would be deleted with their nodes, or a shared home of the login user without Slurm jobs to use it."""
    home = wanted.storage.home
    yield from slurm_rules.homeless("oci", wanted.slurm, home)
    yield from slurm_rules.shared_login("oci", wanted.slurm, home is not None and home.share_login_user)


@rule("slurm-software", ERROR, "catalogue/oci/images.py; slurm.conf(5): slurmctld is not older than slurmd", guard=True)
def slurm_software(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A login node or dynamic nodes without Slurm 22.05 or later, or with versions of Slurm that are not equal."""
    if wanted.slurm is None:
        return
    own = wanted.login.family.slurm
    yield from slurm_rules.software("oci.login.imageFamily", wanted.login.image_family, own)
    for path, pool in wanted.located:
        its = pool.family.slurm
        if own and pool.dynamic and (its is None or its.version != own.version):
            has = f"has Slurm {its.version}" if its else "has no package of Slurm 22.05 or later"
            yield Breach(
                f"{path}.image",
                f"is {pool.image} of family {pool.family.key}, which {has}, and the login node has {own.version}; the versions "
                "must be equal",
            )


@rule("slurm-queue", ERROR, _SLURM, guard=True)
def slurm_queue(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A queue whose name is not allowed."""
    for path, pool in wanted.located:
        yield from slurm_rules.queue_name(f"{path}.queue", pool.queue)


@rule("slurm-test", ERROR, "a test job between nodes needs two of them", guard=True)
def slurm_test(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A test job with more nodes than any pool has, or with one node only, which has no fabric to measure."""
    yield from slurm_rules.test_size("oci.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-entry", ERROR, "components/slurm: new machines are tested in pairs over their rails", guard=True)
def slurm_entry(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An entry test, which tests new machines, if it cannot run."""
    yield from slurm_rules.entry_test("oci.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-container", ERROR, "components/slurm: Pyxis starts ranks in an image", guard=True)
def slurm_container(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A test job in an image although the stack has no Pyxis, or a checksum that belongs to another version of Pyxis."""
    yield from slurm_rules.contained("oci", wanted.slurm, wanted.container)


@rule("slurm-tenancy", ERROR, "OCI Identity: dynamic groups belong to the tenancy", guard=True)
def slurm_tenancy(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A stack that needs a dynamic group for Slurm's controller, but whose tenancy is not known."""
    if wanted.slurm is not None and wanted.tenancy is None and not wanted.preflight:
        yield Breach(
            "oci.tenancy",
            "is not set, and oci.preflight is false, so it is not looked up; oci.slurm needs it for a dynamic group",
        )
