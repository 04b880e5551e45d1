"""File systems that OCI rents, File Storage behind a mount target and Lustre: their sizes, speeds and addresses.

It deliberately knows no resource and no network: only what nobody could rent is refused here.
Sources: oci-hpc:fss.tf, lustre.tf, schema.yaml; the vendor's pages "Updating Mount Target Performance" and "Deploy Lustre file
systems: configuring connectivity".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from catalogue.file_systems import ON_DESTROY

#: Throughput of a mount target in Gb/s: the standard one, and the high-performance ones, which are paid for 30 days at least.
MOUNT_TARGET_GBIT_S = (1, 20, 40, 80)
#: A mount target takes three addresses: two as it comes up, one to fail over to.
_MOUNT_TARGET_ADDRESSES = 3
LUSTRE_STEP_GB = 31_200
#: MB/s for each TB.
LUSTRE_TIERS = (125, 250, 500, 1000)
#: The vendor asks for 43 to 60 addresses for each 100 TB, by tier; the most is kept free.
_LUSTRE_ADDRESSES, _LUSTRE_ADDRESSES_FOR_GB = 60, 100_000


@dataclass(frozen=True, kw_only=True)
class Nfs:
    """A File Storage file system behind one mount target.

    Attributes:
        mount: where nodes mount it.
        target_gbit_s: throughput of the mount target, Gb/s, one of `MOUNT_TARGET_GBIT_S`.
        on_destroy: what destroying the stack does to it, one of `ON_DESTROY`.
    """

    mount: str = "/fss"
    target_gbit_s: int = 1
    on_destroy: str = "refuse"

    def __post_init__(self) -> None:
        """Refuse what the vendor does not offer; ValueError with a sentence."""
        if self.target_gbit_s not in MOUNT_TARGET_GBIT_S:
            offered = ", ".join(map(str, MOUNT_TARGET_GBIT_S))
            raise ValueError(f"the mount target has {self.target_gbit_s} Gb/s; the vendor offers {offered}")
        _decided("File Storage", self.on_destroy)

    @property
    def addresses(self) -> int:
        """How many addresses of its subnet it takes."""
        return _MOUNT_TARGET_ADDRESSES


@dataclass(frozen=True, kw_only=True)
class Lustre:
    """A Lustre file system.

    Attributes:
        capacity_gb: its size, in the GB that the vendor's API counts.
        throughput: MB/s for each TB of it, one of `LUSTRE_TIERS`.
        mount: where nodes mount it.
        on_destroy: what destroying the stack does to it, one of `ON_DESTROY`.
    """

    capacity_gb: int = LUSTRE_STEP_GB
    throughput: int = 125
    mount: str = "/lustre"
    on_destroy: str = "refuse"

    def __post_init__(self) -> None:
        """Refuse what the vendor does not offer; ValueError with a sentence."""
        if self.capacity_gb < LUSTRE_STEP_GB or self.capacity_gb % LUSTRE_STEP_GB:
            raise ValueError(f"the Lustre file system has {self.capacity_gb} GB; it must be a multiple of {LUSTRE_STEP_GB}")
        if self.throughput not in LUSTRE_TIERS:
            tiers = ", ".join(map(str, LUSTRE_TIERS))
            raise ValueError(f"the Lustre file system has {self.throughput} MB/s for each TB; tiers are {tiers}")
        _decided("Lustre", self.on_destroy)

    @property
    def addresses(self) -> int:
        """How many addresses of its subnet it may take."""
        return math.ceil(self.capacity_gb * _LUSTRE_ADDRESSES / _LUSTRE_ADDRESSES_FOR_GB)


def _decided(noun: str, on_destroy: str) -> None:
    if on_destroy not in ON_DESTROY:
        raise ValueError(f"the {noun} file system has onDestroy {on_destroy!r}; it must be one of {', '.join(ON_DESTROY)}")
