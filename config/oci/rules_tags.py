"""Rules about freeform tags: how many a resource takes, and their characters and lengths."""

from __future__ import annotations

import re
from collections.abc import Iterator

from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, Breach, rule

_TAGGING = "OCI documentation, Overview of Tagging"
#: busbar's own tags on a cluster network that Slurm's controller created and enlarged: the largest number on any resource.
_OWN = 4
_MOST = 10 - _OWN
_VALUE = 256
#: At most 100 printable ASCII characters, without spaces and periods.
_KEY = re.compile(r"[!-\-/-~]{1,100}")


@rule("tag-count", ERROR, f"{_TAGGING}: at most 10 freeform tags for each resource")
def tag_count(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """More tags than a resource may have in addition to busbar's own tags."""
    if len(wanted.tags) > _MOST:
        yield Breach("oci.tags", f"has {len(wanted.tags)} tags; a resource takes at most {_MOST} beside busbar's own tags")


@rule("tag-form", ERROR, f"{_TAGGING}: supported characters, lengths")
def tag_form(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Keys or values that the vendor refuses for every resource."""
    for key, value in wanted.tags.items():
        if not _KEY.fullmatch(key):
            yield Breach(
                "oci.tags",
                f"has the key {key[:20]!r}, of {len(key)} characters; a key has 1 to 100 printable ASCII characters, and no "
                "space or period",
            )
        if len(value) > _VALUE:
            yield Breach("oci.tags", f"has a value of {len(value)} characters for {key[:20]!r}; a value has at most {_VALUE}")
