"""Rules about the Slurm cluster: what its dynamic machines need, and settings that no job could use."""

from __future__ import annotations

from collections.abc import Iterator

from config import slurm_rules
from config.aws.facts import Facts
from config.aws.model import Aws, Machines
from config.rule import ERROR, Breach, rule
from config.slurm_rules import Entry

_SLURM = "slurm.conf(5), ResumeProgram, SuspendProgram, PartitionName; sbatch(1)"
_Breaches = Iterator[Breach]


def _entries(wanted: Aws) -> list[Entry]:
    return [
        Entry(path, "static", len(one.numbers), one.dynamic, rails=_named_rails(one), always_on=one.always_on)
        for path, _, one in wanted.located
    ]


def _named_rails(one: Machines) -> bool:
    return one.row is not None and one.row.rdma is not None


@rule("slurm-idle", ERROR, _SLURM, guard=True)
def slurm_idle(wanted: Aws, _facts: Facts) -> _Breaches:
    """A controller without dynamic machines to start.

    Dynamic machines without a controller are allowed, because the user's own scheduler may start them.
    """
    yield from slurm_rules.idle("aws.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-static", ERROR, "components/slurm: dynamic machines join, static ones are measured over SSH", guard=True)
def slurm_static(wanted: Aws, _facts: Facts) -> _Breaches:
    """An entry with both static and dynamic machines."""
    if wanted.slurm is not None:  # a scheduler of the user's own may be able to mix static and dynamic machines
        yield from slurm_rules.mixed(_entries(wanted))


@rule("slurm-always-on", ERROR, _SLURM, guard=True)
def slurm_always_on(wanted: Aws, _facts: Facts) -> _Breaches:
    """An `alwaysOn` without a controller, or an `alwaysOn` that is greater than `dynamic`."""
    yield from slurm_rules.always_on("aws.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-home", ERROR, _SLURM, guard=True)
def slurm_home(wanted: Aws, _facts: Facts) -> _Breaches:
    """Jobs whose output would be deleted with their nodes, or a shared home of the login user without Slurm jobs to use it."""
    home = wanted.storage.home
    yield from slurm_rules.homeless("aws", wanted.slurm, home)
    yield from slurm_rules.shared_login("aws", wanted.slurm, home is not None and home.share_login_user)


@rule("slurm-software", ERROR, "catalogue/aws/images.py; slurm.conf(5): slurmctld is not older than slurmd", guard=True)
def slurm_software(wanted: Aws, _facts: Facts) -> _Breaches:
    """Image families without a package of Slurm 22.05 or later."""
    if wanted.slurm is None:
        return
    yield from slurm_rules.software("aws.login.imageFamily", wanted.login.image_family, wanted.login.family.slurm)
    if wanted.family.slurm is None:
        yield Breach(
            "aws.imageFamily",
            f"is {wanted.image_family}, for which there is no package of Slurm 22.05 or later; take ubuntu2404",
        )


@rule("slurm-queue", ERROR, _SLURM, guard=True)
def slurm_queue(wanted: Aws, _facts: Facts) -> _Breaches:
    """A queue whose name is not allowed."""
    if wanted.slurm is not None:
        for at, queue in enumerate(wanted.queues):
            yield from slurm_rules.queue_name(f"aws.queues[{at}].name", queue.name)


@rule("slurm-test", ERROR, "a test job between machines needs two of them", guard=True)
def slurm_test(wanted: Aws, _facts: Facts) -> _Breaches:
    """A test job that no entry can run, or that has no fabric to measure."""
    yield from slurm_rules.test_size("aws.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-entry", ERROR, "components/slurm: new machines are tested in pairs over their rails", guard=True)
def slurm_entry(wanted: Aws, _facts: Facts) -> _Breaches:
    """An entry test (a test of new machines) that cannot run."""
    yield from slurm_rules.entry_test("aws.slurm", wanted.slurm, _entries(wanted))


@rule("slurm-container", ERROR, "components/slurm: Pyxis starts ranks in an image", guard=True)
def slurm_container(wanted: Aws, _facts: Facts) -> _Breaches:
    """A test job in an image although the stack has no Pyxis, or a checksum that belongs to another version of Pyxis."""
    yield from slurm_rules.contained("aws", wanted.slurm, wanted.container)


@rule("slurm-profile", ERROR, "IAM: the controller starts machines with its own role", guard=True)
def slurm_profile(wanted: Aws, _facts: Facts) -> _Breaches:
    """An existing profile for the controller: the stack gives the profile's role no permission to start machines."""
    if wanted.slurm is not None and wanted.profiles.existing.login:
        yield Breach(
            "aws.profiles.existing.login",
            f"is {wanted.profiles.existing.login}, but aws.slurm needs the right to start machines, and the stack gives no "
            "rights to the role of an existing profile; leave the key out",
        )
