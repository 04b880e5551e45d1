"""Rules about file systems: sizes and speeds that the vendor offers, and mount points."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue import IMAGES
from catalogue.file_systems import misplaced, over_login_homes
from catalogue.oci.storage import LUSTRE_STEP_GB, LUSTRE_TIERS, MOUNT_TARGET_GBIT_S
from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Breach, rule

_LUSTRE = "oci-hpc: lustre.tf, schema.yaml"
#: Where first boot mounts the local disks.
_SCRATCH = "/mnt/localdisk"


@rule("home-throughput", ERROR, "OCI File Storage: Updating Mount Target Performance")
def home_throughput(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A throughput that no mount target has."""
    home = wanted.storage.home
    if home is not None and home.throughput_gbit_s not in MOUNT_TARGET_GBIT_S:
        offered = ", ".join(map(str, MOUNT_TARGET_GBIT_S))
        yield Breach("oci.storage.home.throughput", f"is {home.throughput_gbit_s} Gbit/s; the vendor offers {offered}")


@rule("lustre-size", ERROR, _LUSTRE)
def lustre_size(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A capacity that is not sold."""
    lustre = wanted.storage.lustre
    if lustre is not None and (lustre.size_gb < LUSTRE_STEP_GB or lustre.size_gb % LUSTRE_STEP_GB):
        yield Breach("oci.storage.lustre.size", f"is {lustre.size_gb} GB; it must be a multiple of {LUSTRE_STEP_GB} GB")


@rule("lustre-throughput", ERROR, _LUSTRE)
def lustre_throughput(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A throughput tier that is not sold."""
    lustre = wanted.storage.lustre
    if lustre is not None and lustre.throughput_mb_s not in LUSTRE_TIERS:
        tiers = ", ".join(map(str, LUSTRE_TIERS))
        yield Breach("oci.storage.lustre.throughput", f"is {lustre.throughput_mb_s} MB/s for each TB; tiers are {tiers}")


@rule("lustre-client", ERROR, "oci-hpc: roles/lustre_client")
def lustre_client(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """An image for which no Lustre client can be built."""
    able = ", ".join(key for key, family in IMAGES.items() if family.lustre)
    for path, pool in wanted.located:
        if wanted.storage.lustre is not None and not pool.family.lustre:
            yield Breach(
                f"{path}.imageFamily",
                f"is {pool.image_family}, for which no Lustre client can be built, but oci.storage.lustre is set; use {able}",
            )


@rule("mount-points", ERROR, "first boot writes mount points into tables and scripts", guard=True)
def mount_points(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Mount points that hide the system's folders or each other."""
    systems = wanted.storage.systems
    mounts = {f"oci.storage.{key}.mount": one.mount for key, one in systems.items()}
    yield from (Breach(*one) for one in misplaced(mounts, (_SCRATCH,)))
    logins = dict.fromkeys(pool.family.login for pool in wanted.pools)
    yield from (Breach(*one) for one in over_login_homes(mounts, logins, "oci.storage.home.mount"))
