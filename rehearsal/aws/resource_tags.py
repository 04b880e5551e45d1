"""EC2's refusals of tags; IAM, FSx and SSM have the same limits as EC2.

This module checks tags because botocore's model has no limits for tags.
Source: EC2 user guide, "Tag your Amazon EC2 resources": tag restrictions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal.aws.errors import Problem, invalid, refused

_KEY, _VALUE, _MOST = 128, 256, 50


def broken(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a resource's own tags, of its volumes' tags and of the tags in its tag specifications."""
    for path in ("tags", "volumeTags"):
        yield from _broken(path, inputs.get(path))
    specified = inputs.get("tagSpecifications")
    for index, one in enumerate(specified if isinstance(specified, list) else ()):
        if isinstance(one, Mapping):
            yield from _broken(f"tagSpecifications[{index}].tags", one.get("tags"))


def _broken(path: str, tags: object) -> Iterator[Problem]:
    if not isinstance(tags, Mapping):
        return
    for key, value in tags.items():
        if not key:
            yield invalid(path, "Tag keys may not be empty")
        elif key.lower().startswith("aws:"):
            yield invalid(path, f"Tag keys starting with 'aws:' are reserved for internal use: {key}")
        elif len(key) > _KEY:
            yield invalid(path, f"Tag key exceeds the maximum length of {_KEY} characters: {key[:20]}...")
        if isinstance(value, str) and len(value) > _VALUE:
            yield invalid(path, f"Tag value exceeds the maximum length of {_VALUE} characters; its key is {key[:20]}")
    if len(tags) > _MOST:
        yield refused(
            path, "TagLimitExceeded", f"The maximum number of Tags allowed on a resource is {_MOST}, but {len(tags)} are given"
        )
