"""Defined tags: the API has one map for each namespace; the provider's inputs have one map, with keys `NAMESPACE.KEY`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def nested(tags: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the provider's tags in the API's form."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in tags.items():
        space, _, name = key.partition(".")
        found.setdefault(space, {})[name] = value
    return found


def flat(tags: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the API's tags in the provider's form."""
    return {f"{space}.{name}": value for space, names in tags.items() for name, value in names.items()}
