"""File systems that OCI rents: the sizes, speeds and addresses that they need.

Sources: oci-hpc:fss.tf, lustre.tf, schema.yaml; the vendor's pages "Updating Mount Target Performance" and "Deploy Lustre file
systems: configuring connectivity".
"""

from __future__ import annotations

import math

#: Throughputs of mount targets, Gbit/s: first the standard throughput, then those of high-performance mount targets, which are
#: billed for at least 30 days.
MOUNT_TARGET_GBIT_S = (1, 20, 40, 80)
#: Throughput with which a mount target is created; only an update makes it faster (File Storage API, CreateMountTargetDetails:
#: "Currently only 1 Gbps of requestedThroughput is supported during create MountTarget").
CREATED_GBIT_S = 1
#: A mount target needs three addresses: two when it starts, one to fail over to.
MOUNT_TARGET_ADDRESSES = 3
LUSTRE_STEP_GB = 31_200
#: Throughputs of Lustre file systems, MB/s per TB.
LUSTRE_TIERS = (125, 250, 500, 1000)
#: The vendor recommends 43 to 60 addresses per 100 TB, depending on the tier; busbar counts 60 per 100 TB on every tier.
_LUSTRE_ADDRESSES, _LUSTRE_ADDRESSES_FOR_GB = 60, 100_000


def lustre_addresses(size_gb: int) -> int:
    """Return how many addresses of its subnet a Lustre file system of `size_gb` may use."""
    return math.ceil(size_gb * _LUSTRE_ADDRESSES / _LUSTRE_ADDRESSES_FOR_GB)
