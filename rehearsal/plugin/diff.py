"""Compares old and new inputs; each vendor decides which changes replace a resource."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.plugin import sdk


@dataclass
class Changes:
    """The changed paths. A path that forces a replacement is in `changed` and in `replaced`."""

    changed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def compare(
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    inputs: sdk.Inputs,
    updatable: Callable[[str, sdk.Field], bool],
    path: str = "",
) -> Changes:
    """Return which inputs differ between `old` and `new`, and which of these inputs require a replacement.

    Computed defaults are not compared. `updatable` tells whether the vendor's provider changes a property in place; its
    arguments are the property's path and field.
    """
    found = Changes()
    for name, known in inputs.fields.items():
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        here = f"{path}.{name}" if path else name
        if not updatable(here, known):
            found.changed.append(here)
            found.replaced.append(here)
        elif isinstance(known.type, sdk.Inputs) and isinstance(before, Mapping) and isinstance(after, Mapping):
            below = compare(before, after, known.type, updatable, here)
            found.changed += below.changed
            found.replaced += below.replaced
        else:
            found.changed.append(here)
    return found
