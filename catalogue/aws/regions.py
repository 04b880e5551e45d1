"""OpenZFS deployment types by region, and the throughputs that each type can have.

Only regions that a source names are listed. Where no source lists SINGLE_AZ_HA_2, the default is MULTI_AZ_1, because this
is the only type that the vendor's table has in every region.
Sources: FSx for OpenZFS user guide, "Availability by AWS Region", as read in awsome-distributed-ai issue 1097 and pull requests
1100 and 1102 (May 2026); throughput: FSx API, OpenZFSConfiguration.
"""

from __future__ import annotations

EVERYWHERE = "MULTI_AZ_1"
_HA_2 = "SINGLE_AZ_HA_2"

_FIRST = (64, 128, 256, 512, 1024, 2048, 3072, 4096)
_SECOND = (160, 320, 640, 1280, 2560, 3840, 5120, 7680, 10240)
#: Throughput capacities in MB/s by deployment type.
OPENZFS_MB_S: dict[str, tuple[int, ...]] = {
    "SINGLE_AZ_1": _FIRST,
    "SINGLE_AZ_HA_1": _FIRST,
    "SINGLE_AZ_2": _SECOND,
    _HA_2: _SECOND,
    EVERYWHERE: _SECOND,
}
OPENZFS_GIB = (64, 524_288)

_LARGE = frozenset(
    {
        "us-east-1",
        "us-east-2",
        "us-west-2",
        "eu-central-1",
        "eu-west-1",
        "ap-northeast-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "ap-south-1",
        "ca-central-1",
    }
)
_SMALL = frozenset(
    {
        "ap-northeast-3",
        "ap-southeast-3",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
        "ap-south-2",
        "ap-east-2",
        "ca-west-1",
        "eu-south-1",
        "eu-west-2",
        "eu-west-3",
        "mx-central-1",
        "me-central-1",
        "me-south-1",
        "sa-east-1",
        "il-central-1",
        "af-south-1",
        "us-gov-east-1",
    }
)
#: Regions where a deployment type is not offered.
OPENZFS_MISSING: dict[str, frozenset[str]] = {"SINGLE_AZ_HA_1": _LARGE | {"eu-south-2", "eu-central-2"}, _HA_2: _SMALL}


def default_openzfs(region: str) -> str:
    """Return the default type for `region`.

    If a source lists SINGLE_AZ_HA_2 for the region, this type is the default; it is highly available in one zone. Otherwise,
    the default is MULTI_AZ_1, which spans two zones.
    """
    return _HA_2 if region in _LARGE else EVERYWHERE


def needs_second_zone(deployment: str) -> bool:
    """Tell whether a deployment type spans two availability zones."""
    return deployment.startswith("MULTI_AZ")
