"""The account, regions and availability zones; every region name of the vendor's form exists."""

from __future__ import annotations

import re

#: The account number of the vendor's own examples.
ACCOUNT = "111122223333"

#: Where a program is that names no region; the vendor's provider refuses such a one, and so does this one's CheckConfig.
REGION = "us-east-1"

_REGION = re.compile(r"(us|eu|ap|sa|ca|me|af|il|mx)(-gov)?-(north|south|east|west|central|northeast|southeast|northwest)-\d")
#: Zones by their letters where a region's are not a, b and c (VPC console of an ordinary account).
_LETTERS = {"ap-northeast-1": "acd", "us-west-1": "ac", "ca-central-1": "abd", "us-east-1": "abcdef", "us-west-2": "abcd"}


def is_region(name: str) -> bool:
    """Return whether a name has the form of the vendor's regions."""
    return _REGION.fullmatch(name) is not None


def zones(region: str) -> tuple[str, ...]:
    """Return the availability zones of a region."""
    return tuple(f"{region}{letter}" for letter in _LETTERS.get(region, "abc"))


def region_of(inputs: object) -> str:
    """Return the region that some inputs name."""
    named = inputs.get("region") if isinstance(inputs, dict) else None
    return named if isinstance(named, str) else REGION


def partition(region: str) -> str:
    """Return the AWS partition of a region."""
    return "aws-us-gov" if region.startswith("us-gov-") else "aws"
