"""Rules about file systems: sizes, throughput, S3, mount points, zones, and what a destroy would take along."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from catalogue.aws.intent import AwsIntent
from catalogue.aws.regions import OPENZFS_GIB, OPENZFS_MBPS, OPENZFS_MISSING, needs_second_zone
from catalogue.aws.rule import ERROR, WARNING, rule
from catalogue.file_systems import ON_DESTROY, misplaced

_FSX = "aws-parallelcluster:cli/src/pcluster/validators/fsx_validators.py"
_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_LUSTRE_API = "FSx API, LustreConfiguration"
_SMALLEST_GIB, _STEP_GIB = 1200, 2400
_THROUGHPUT = (125, 250, 500, 1000)
#: EFA needs whole servers: steps of storage by throughput for each TiB (FSx for Lustre user guide, EFA-enabled file systems).
_EFA_STEP_GIB = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
_REPOSITORIES_MOST = 8
_BACKUP_DAYS_MOST = 90
#: Where the image's local disks are.
_SCRATCH = "/scratch"


@rule(31, "lustre-capacity", ERROR, f"{_FSX} FsxStorageCapacityValidator")
def lustre_capacity(intent: AwsIntent) -> Iterator[str]:
    """A size that PERSISTENT_2 cannot have."""
    if intent.lustre is None:
        return
    size = intent.lustre.capacity_gib
    if size != _SMALLEST_GIB and (size < _STEP_GIB or size % _STEP_GIB):
        yield f"the Lustre file system has {size} GiB; it must be {_SMALLEST_GIB} or a multiple of {_STEP_GIB}."


@rule(31, "lustre-throughput", ERROR, f"{_FSX} FsxPersistentOptionsValidator")
def lustre_throughput(intent: AwsIntent) -> Iterator[str]:
    """A throughput that PERSISTENT_2 cannot have."""
    if intent.lustre is not None and intent.lustre.throughput not in _THROUGHPUT:
        steps = ", ".join(map(str, _THROUGHPUT))
        yield f"the Lustre file system has {intent.lustre.throughput} MB/s for each TiB; PERSISTENT_2 has {steps}."


@rule(0, "lustre-efa", ERROR, f"{_LUSTRE_API}: EfaEnabled")
def lustre_efa(intent: AwsIntent) -> Iterator[str]:
    """EFA on a file system whose size does not fill its servers, or without clients that have EFA."""
    lustre = intent.lustre
    if lustre is None or not lustre.efa:
        return
    step = _EFA_STEP_GIB.get(lustre.throughput)
    if step is not None and (lustre.capacity_gib < step or lustre.capacity_gib % step):
        yield (
            f"the Lustre file system has EFA, {lustre.capacity_gib} GiB and {lustre.throughput} MB/s for each TiB; with EFA "
            "it must "
            f"be a multiple of {step} GiB."
        )
    if not any(one.has_efa for one in intent.compute):
        yield "the Lustre file system has EFA, and no machine has, so nobody could use it; turn it off, or EFA on."


@rule(32, "repositories", ERROR, f"{_FSX} FsxS3Validator and data repository associations")
def repositories(intent: AwsIntent) -> Iterator[str]:
    """Associations that cannot be made."""
    if intent.lustre is None:
        return
    found = intent.lustre.repositories
    if len(found) > _REPOSITORIES_MOST:
        yield f"the Lustre file system mirrors {len(found)} S3 locations; it takes {_REPOSITORIES_MOST}."
    paths = [PurePosixPath(one.path) for one in found]
    for path in paths:
        if not path.is_absolute():
            yield f"a folder that mirrors S3 is {str(path)!r}; it must begin with a slash."
    for index, path in enumerate(paths):
        for other in paths[index + 1 :]:
            if path == other or path in other.parents or other in path.parents:
                yield f"the folders {path} and {other} both mirror S3 and overlap; each must be apart from the others."


@rule(32, "backups-of-mirror", ERROR, f"{_FSX} FsxBackupOptionsValidator")
def backups_of_mirror(intent: AwsIntent) -> Iterator[str]:
    """Backups of a file system that mirrors S3, or for longer than there are any."""
    for noun, system in (("Lustre", intent.lustre), ("OpenZFS", intent.home)):
        if system is not None and not 0 <= system.backup_days <= _BACKUP_DAYS_MOST:
            yield f"the {noun} file system keeps backups for {system.backup_days} days; it must be 0 to {_BACKUP_DAYS_MOST}."
    if intent.lustre is not None and intent.lustre.repositories and intent.lustre.backup_days:
        yield (
            f"the Lustre file system mirrors S3 and keeps backups for {intent.lustre.backup_days} days; one that mirrors S3 "
            "has "
            "none, for S3 holds the data."
        )


@rule(33, "storage-zones", ERROR, f"{_CLUSTER} MultiAzFsxValidator")
def storage_zones(intent: AwsIntent) -> Iterator[str]:
    """File systems for machines of several zones, or in a zone that nobody named."""
    if not intent.mounts:
        return
    for one in intent.compute:
        if len(set(one.zones)) > 1:
            yield f"{one.key} stands in {', '.join(one.zones)}, and a file system made here serves machines of one zone."
    deployment = intent.home_deployment
    if intent.home is not None and needs_second_zone(deployment) and not intent.second_zone:
        yield f"the OpenZFS file system is {deployment}, which stands in two zones; name a second zone of {intent.region}."


@rule(33, "storage-far", WARNING, f"{_CLUSTER} FSx in another zone")
def storage_far(intent: AwsIntent) -> Iterator[str]:
    """Machines in another zone than the file systems."""
    for one in intent.compute:
        if intent.mounts and one.zones and intent.zone not in one.zones:
            yield (
                f"{one.key} stands in {', '.join(one.zones)}, and its file systems in {intent.zone}: more latency, and traffic "
                "between zones is paid."
            )


@rule(
    34, "mount-points", ERROR, f"{_CLUSTER} DuplicateMountDirValidator, OverlappingMountDirValidator, ReservedMountDirValidator"
)
def mount_points(intent: AwsIntent) -> Iterator[str]:
    """Mount points that hide something or each other."""
    yield from (f"{sentence}." for sentence in misplaced(intent.mounts))


@rule(34, "mount-scratch", WARNING, f"{_CLUSTER} ephemeral mount clash")
def mount_scratch(intent: AwsIntent) -> Iterator[str]:
    """A mount point where local disks are."""
    for path in intent.mounts:
        if path == _SCRATCH or path.startswith(f"{_SCRATCH}/"):
            yield f"a file system is mounted at {path}, where the machines' own disks are; they will not be seen."


@rule(35, "destroy-undecided", ERROR, f"{_CLUSTER} DeletionPolicy")
def destroy_undecided(intent: AwsIntent) -> Iterator[str]:
    """File systems of which nobody said what a destroy does."""
    for noun, system in (("Lustre", intent.lustre), ("OpenZFS", intent.home)):
        if system is not None and system.on_destroy not in ON_DESTROY:
            yield f"the {noun} file system has onDestroy {system.on_destroy!r}; it must be one of {', '.join(ON_DESTROY)}."


@rule(35, "destroy-takes-data", WARNING, f"{_CLUSTER} DeletionPolicy notice")
def destroy_takes_data(intent: AwsIntent) -> Iterator[str]:
    """File systems whose data go with the stack."""
    for noun, system in (("Lustre", intent.lustre), ("OpenZFS", intent.home)):
        if system is not None and system.on_destroy == "delete":
            yield f"the {noun} file system at {system.mount} has onDestroy delete: destroying the stack deletes what is on it."


@rule(0, "openzfs-type", ERROR, "FSx for OpenZFS user guide, Availability by AWS Region; awsome-distributed-ai 1097, 1102")
def openzfs_type(intent: AwsIntent) -> Iterator[str]:
    """A deployment type that does not exist, or not in this region."""
    if intent.home is None:
        return
    deployment = intent.home_deployment
    if deployment not in OPENZFS_MBPS:
        yield f"the OpenZFS file system is {deployment!r}; deployment types are {', '.join(OPENZFS_MBPS)}."
    elif intent.region in OPENZFS_MISSING.get(deployment, frozenset()):
        others = [name for name in OPENZFS_MBPS if intent.region not in OPENZFS_MISSING.get(name, frozenset())]
        yield (
            f"the OpenZFS file system is {deployment}, which {intent.region} does not offer; it has "
            f"{', '.join(name for name in others if name == 'MULTI_AZ_1' or name.startswith('SINGLE_AZ_HA'))}."
        )


@rule(0, "openzfs-size", ERROR, "FSx API, OpenZFSConfiguration: ThroughputCapacity, StorageCapacity")
def openzfs_size(intent: AwsIntent) -> Iterator[str]:
    """Throughput or size that the deployment type cannot have."""
    if intent.home is None:
        return
    deployment, home = intent.home_deployment, intent.home
    may = OPENZFS_MBPS.get(deployment, ())
    if may and home.mbps not in may:
        yield f"the OpenZFS file system has {home.mbps} MB/s; {deployment} has {', '.join(map(str, may))}."
    if not OPENZFS_GIB[0] <= home.capacity_gib <= OPENZFS_GIB[1]:
        yield f"the OpenZFS file system has {home.capacity_gib} GiB; it must be {OPENZFS_GIB[0]} to {OPENZFS_GIB[1]}."
