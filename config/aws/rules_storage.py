"""Rules about file systems: sizes, throughput, S3, mount points, zones, and data that a destroy deletes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from catalogue.aws.regions import OPENZFS_GIB, OPENZFS_MB_S, OPENZFS_MISSING, needs_second_zone
from catalogue.aws.versions import LUSTRE_EFA
from catalogue.file_systems import misplaced, over_login_homes
from config.aws.facts import Facts
from config.aws.model import Aws
from config.rule import ERROR, WARNING, Breach, rule

_FSX = "aws-parallelcluster:cli/src/pcluster/validators/fsx_validators.py"
_CLUSTER = "aws-parallelcluster:cli/src/pcluster/validators/cluster_validators.py"
_LUSTRE = "FSx for Lustre user guide,"
_LUSTRE_API = "FSx API, LustreConfiguration"
_LUSTRE_SMALLEST_GIB, _LUSTRE_STEP_GIB = 1200, 2400
_LUSTRE_MB_S_PER_TIB = (125, 250, 500, 1000)
#: A file system with EFA consists of whole file servers, so its size is a multiple of this step. The step depends on the
#: throughput in MB/s per TiB (FSx for Lustre user guide, EFA-enabled file systems).
_EFA_STEP_GIB = {125: 38_400, 250: 19_200, 500: 9_600, 1000: 4_800}
_MIRRORS_MOST = 8
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_BACKUP_DAYS_MOST = 90
#: Where first boot makes a machine's local disks available.
_SCRATCH = "/scratch"
_Breaches = Iterator[Breach]


@rule("lustre-size", ERROR, f"{_FSX} FsxStorageCapacityValidator", number=31)
def lustre_size(wanted: Aws, _facts: Facts) -> _Breaches:
    """A size that PERSISTENT_2 cannot have."""
    if wanted.storage.lustre is None:
        return
    size = wanted.storage.lustre.size_gib
    if size != _LUSTRE_SMALLEST_GIB and (size < _LUSTRE_STEP_GIB or size % _LUSTRE_STEP_GIB):
        yield Breach(
            "aws.storage.lustre.size",
            f"is {size} GiB; it must be {_LUSTRE_SMALLEST_GIB} GiB or a multiple of {_LUSTRE_STEP_GIB} GiB",
        )


@rule("lustre-throughput", ERROR, f"{_FSX} FsxPersistentOptionsValidator", number=31)
def lustre_throughput(wanted: Aws, _facts: Facts) -> _Breaches:
    """A throughput that PERSISTENT_2 cannot have."""
    lustre = wanted.storage.lustre
    if lustre is not None and lustre.throughput_mb_s not in _LUSTRE_MB_S_PER_TIB:
        steps = ", ".join(map(str, _LUSTRE_MB_S_PER_TIB))
        yield Breach("aws.storage.lustre.throughput", f"is {lustre.throughput_mb_s} MB/s per TiB; PERSISTENT_2 offers {steps}")


@rule("lustre-efa", ERROR, f"{_LUSTRE_API}: EfaEnabled")
def lustre_efa(wanted: Aws, _facts: Facts) -> _Breaches:
    """EFA on a file system whose size is not a whole number of file servers, or in a stack whose machines have no EFA."""
    lustre = wanted.storage.lustre
    if lustre is None or not lustre.efa:
        return
    step = None if lustre.existing else _EFA_STEP_GIB.get(lustre.throughput_mb_s)
    if step is not None and (lustre.size_gib < step or lustre.size_gib % step):
        yield Breach(
            "aws.storage.lustre.size",
            f"is {lustre.size_gib} GiB with EFA and {lustre.throughput_mb_s} MB/s per TiB; with EFA it must be a multiple "
            f"of {step} GiB",
        )
    if not any(one.has_efa for _, _, one in wanted.located):
        yield Breach("aws.storage.lustre.efa", "is true, but no machine has EFA, so no machine could use it; set it to false")


@rule("lustre-efa-setup", ERROR, f"{_LUSTRE} Configuring EFA clients; the archive has no version and no checksum", guard=True)
def lustre_efa_setup(wanted: Aws, _facts: Facts) -> _Breaches:
    """EFA without the checksum of the setup archive, which machines run as root."""
    lustre = wanted.storage.lustre
    if lustre is not None and lustre.efa and lustre.efa_setup_sha256 is None:
        yield Breach(
            "aws.storage.lustre.efaSetupSha256",
            f"is not set, but efa is true: machines run {LUSTRE_EFA} as root, and AWS publishes no checksum of this archive; "
            "read what its scripts do, and give its sha256",
        )


@rule("lustre-key-unchecked", WARNING, f"{_LUSTRE} Installing the Lustre client, which states no fingerprint")
def lustre_key_unchecked(wanted: Aws, _facts: Facts) -> _Breaches:
    """A Lustre client on Ubuntu nodes whose signing key nobody has checked. The login node's image is not considered."""
    lustre = wanted.storage.lustre
    if lustre is not None and lustre.client_key is None and wanted.family.release:
        yield Breach(
            "aws.storage.lustre.clientKey",
            f"is not set: machines on {wanted.image_family} trust whichever key AWS's bucket serves at first boot for the "
            "Lustre client's packages; give the key's fingerprint, which is in the machines' log, and first boot checks it",
        )


@rule("mirrors", ERROR, f"{_FSX} FsxS3Validator and data repository associations", number=32)
def mirrors(wanted: Aws, _facts: Facts) -> _Breaches:
    """Mirrors that cannot be created."""
    if wanted.storage.lustre is None:
        return
    found = wanted.storage.lustre.mirrors
    where = "aws.storage.lustre.mirrors"
    if len(found) > _MIRRORS_MOST:
        yield Breach(where, f"names {len(found)} folders; a file system can have at most {_MIRRORS_MOST}")
    paths = [PurePosixPath(one.path) for one in found]
    for index, path in enumerate(paths):
        if not path.is_absolute():
            yield Breach(f"{where}[{index}].path", f"is {str(path)!r}; it must begin with a slash")
        for other in paths[:index]:
            if path == other or path in other.parents or other in path.parents:
                yield Breach(f"{where}[{index}].path", f"is {path}, which overlaps {other}; mirrored folders must not overlap")
        if found[index].prefix and not found[index].bucket:
            yield Breach(
                f"{where}[{index}].prefix", f"is {found[index].prefix!r} without a bucket; name the bucket that has this folder"
            )


@rule("mirror-bucket", ERROR, "S3 user guide, General purpose bucket naming rules")
def mirror_bucket(wanted: Aws, _facts: Facts) -> _Breaches:
    """A bucket's name that S3 does not allow."""
    for index, one in enumerate(wanted.storage.lustre.mirrors if wanted.storage.lustre else ()):
        if one.bucket and not _BUCKET.fullmatch(one.bucket):
            yield Breach(
                f"aws.storage.lustre.mirrors[{index}].bucket",
                f"is {one.bucket!r}; a bucket's name has 3 to 63 lower-case letters, digits, hyphens and dots, and begins and "
                "ends with a letter or digit",
            )


@rule("backups", ERROR, f"{_FSX} FsxBackupOptionsValidator", number=32)
def backups(wanted: Aws, _facts: Facts) -> _Breaches:
    """Backups of a file system that mirrors S3, or backups that are to be kept longer than AWS allows."""
    for key, system in wanted.storage.systems.items():
        if system.backups_days > _BACKUP_DAYS_MOST:
            yield Breach(f"aws.storage.{key}.backups", f"is {system.backups_days} days; it must be 0 to {_BACKUP_DAYS_MOST}")
    lustre = wanted.storage.lustre
    if lustre is not None and lustre.mirrors and lustre.backups_days:
        yield Breach(
            "aws.storage.lustre.backups",
            f"is {lustre.backups_days} days, but mirrors is set; a file system that mirrors S3 cannot have backups, because S3 "
            "has the data",
        )


@rule("storage-zones", ERROR, f"{_CLUSTER} MultiAzFsxValidator", guard=True, number=33)
def storage_zones(wanted: Aws, _facts: Facts) -> _Breaches:
    """A file system in two zones, although the stack names only one zone."""
    deployment = wanted.home_deployment
    home = wanted.storage.home
    if home is not None and not home.existing and needs_second_zone(deployment) and not wanted.second_zone:
        yield Breach(
            "aws.storage.home.deployment",
            f"is {deployment}, which is in two zones; set aws.secondZone to a second zone of {wanted.region}",
        )


@rule(
    "mount-points",
    ERROR,
    f"{_CLUSTER} DuplicateMountDirValidator, OverlappingMountDirValidator, ReservedMountDirValidator",
    guard=True,
    number=34,
)
def mount_points(wanted: Aws, _facts: Facts) -> _Breaches:
    """Mount points that hide the system's folders or each other."""
    mounts = {f"aws.storage.{key}.mount": system.mount for key, system in wanted.storage.systems.items()}
    yield from (Breach(*one) for one in misplaced(mounts))
    logins = sorted({wanted.family.login, wanted.login.family.login})
    yield from (Breach(*one) for one in over_login_homes(mounts, logins, "aws.storage.home.mount"))


@rule("mount-scratch", WARNING, f"{_CLUSTER} ephemeral mount clash", number=34)
def mount_scratch(wanted: Aws, _facts: Facts) -> _Breaches:
    """A mount point at or below the folder of the local disks."""
    for key, system in wanted.storage.systems.items():
        if system.mount == _SCRATCH or system.mount.startswith(f"{_SCRATCH}/"):
            yield Breach(
                f"aws.storage.{key}.mount", f"is {system.mount}, where the machines' local disks are; the mount will hide them"
            )


@rule("destroy-deletes-data", WARNING, f"{_CLUSTER} DeletionPolicy notice", number=35)
def destroy_deletes_data(wanted: Aws, _facts: Facts) -> _Breaches:
    """File systems whose data is deleted with the stack."""
    for key, system in wanted.storage.systems.items():
        if system.on_destroy == "delete":
            yield Breach(
                f"aws.storage.{key}.onDestroy",
                f"is delete: a destroy, or an update that removes the file system, deletes what is on {system.mount}",
            )


@rule("openzfs-type", ERROR, "FSx for OpenZFS user guide, Availability by AWS Region; awsome-distributed-ai 1097, 1102")
def openzfs_type(wanted: Aws, _facts: Facts) -> _Breaches:
    """A deployment type that does not exist, or that this region does not offer."""
    if wanted.storage.home is None or wanted.storage.home.existing:
        return
    deployment, region = wanted.home_deployment, wanted.region
    if deployment not in OPENZFS_MB_S:
        yield Breach("aws.storage.home.deployment", f"is {deployment!r}; deployment types are {', '.join(OPENZFS_MB_S)}")
    elif region in OPENZFS_MISSING.get(deployment, frozenset()):
        others = [name for name in OPENZFS_MB_S if region not in OPENZFS_MISSING.get(name, frozenset())]
        able = ", ".join(name for name in others if name == "MULTI_AZ_1" or name.startswith("SINGLE_AZ_HA"))
        yield Breach(
            "aws.storage.home.deployment",
            f"is {deployment}, which {region} does not offer; the highly available types in {region} are {able}",
        )


@rule("openzfs-size", ERROR, "FSx API, OpenZFSConfiguration: ThroughputCapacity, StorageCapacity")
def openzfs_size(wanted: Aws, _facts: Facts) -> _Breaches:
    """Throughput or size that the deployment type does not offer."""
    home = wanted.storage.home
    if home is None:
        return
    offered = OPENZFS_MB_S.get(wanted.home_deployment, ())
    if offered and home.throughput_mb_s not in offered:
        yield Breach(
            "aws.storage.home.throughput",
            f"is {home.throughput_mb_s} MB/s; {wanted.home_deployment} offers {', '.join(map(str, offered))}",
        )
    if not OPENZFS_GIB[0] <= home.size_gib <= OPENZFS_GIB[1]:
        yield Breach("aws.storage.home.size", f"is {home.size_gib} GiB; it must be {OPENZFS_GIB[0]} to {OPENZFS_GIB[1]} GiB")
