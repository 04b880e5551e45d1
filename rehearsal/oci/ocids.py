"""OCIDs and times as the vendor writes them."""

from __future__ import annotations

import secrets
import string
from datetime import UTC, datetime

from rehearsal.oci.places import REGION_KEY

_ALPHABET = string.ascii_lowercase + string.digits


def new_ocid(noun: str) -> str:
    """Return a new OCID in the vendor's form."""
    return f"ocid1.{noun}.oc1.{REGION_KEY}.{''.join(secrets.choice(_ALPHABET) for _ in range(60))}"


def sibling_ocid(ocid: str, noun: str) -> str:
    """Return the OCID of a resource that lives as long as the resource `ocid` (an instance's VNIC or boot volume)."""
    return ".".join(["ocid1", noun, *ocid.split(".")[2:]])


def now() -> str:
    """Return the current time as the vendor writes it."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " +0000 UTC"


def stamp(time: str) -> str:
    """Convert a time that `now` returned (in Go's format, as in the provider's outputs) to RFC 3339, as in the vendor's API."""
    return f"{time.partition(' +')[0].replace(' ', 'T')}Z"
