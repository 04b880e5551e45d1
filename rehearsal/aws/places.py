"""The account, regions and availability zones.

A region is accepted if its name has the format of the regions of AWS's public partition or of GovCloud.
"""

from __future__ import annotations

import re

#: The account id in the examples of AWS's documentation.
ACCOUNT = "111122223333"

#: Region of resources whose inputs have no region. AWS's provider refuses a program without a region, and so does the rehearsed
#: provider (CheckConfig).
REGION = "us-east-1"

_REGION = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)(-gov)?-(north|south|east|west|central|northeast|southeast|northwest)-\d")
#: Region -> letters of its zones, if they are not a, b and c (VPC console of an ordinary account).
_LETTERS = {
    "ap-northeast-1": "acd",
    "ap-northeast-2": "abcd",
    "us-west-1": "ac",
    "ca-central-1": "abd",
    "us-east-1": "abcdef",
    "us-west-2": "abcd",
}


def is_region(name: str) -> bool:
    """Return whether a name has the format of a region of AWS's public partition or of GovCloud."""
    return _REGION.fullmatch(name) is not None


def zones(region: str) -> tuple[str, ...]:
    """Return the availability zones of a region."""
    return tuple(f"{region}{letter}" for letter in _LETTERS.get(region, "abc"))


def region_of(inputs: object) -> str:
    """Return the region that a resource's inputs name, or the default region."""
    named = inputs.get("region") if isinstance(inputs, dict) else None
    return named if isinstance(named, str) else REGION


def partition(region: str) -> str:
    """Return the partition of an accepted region: the public one or GovCloud."""
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
