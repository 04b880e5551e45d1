"""Tells what changed between old and new inputs, and which changes the vendor's provider answers by replacing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.oci import sdk
from rehearsal.oci.shapes import SHAPES

_INSTANCE = "oci:Core/instance:Instance"

# Marked updatable by the documentation as a whole, yet these keys cannot change after launch: "Both the 'user_data'
# and 'ssh_authorized_keys' fields cannot be changed after an instance has launched" (UpdateInstanceDetails.metadata).
_LAUNCH_METADATA = ("user_data", "ssh_authorized_keys")


@dataclass
class Changes:
    """Paths that changed; those which force a replacement are in both lists."""

    changed: list[str] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)


def changes(token: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """What an update from old to new inputs changes; inputs alone are compared, so computed defaults never count."""
    found = Changes()
    _compare(old, new, sdk.args_class(token), "", found)
    if token == _INSTANCE:
        _compare_instance(old, new, found)
    return found


def _compare(old: Mapping[str, Any], new: Mapping[str, Any], args: type, path: str, found: Changes) -> None:
    for name, known in sdk.fields(args).items():
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        here = f"{path}.{name}" if path else name
        if not known.updatable:
            found.changed.append(here)
            found.replaced.append(here)
        elif sdk.is_object(known.type) and isinstance(before, Mapping) and isinstance(after, Mapping):
            _compare(before, after, known.type, here, found)
        else:
            found.changed.append(here)


def _compare_instance(old: Mapping[str, Any], new: Mapping[str, Any], found: Changes) -> None:
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found.replaced.extend(f"metadata.{key}" for key in _LAUNCH_METADATA if before.get(key) != after.get(key))
    if "sourceDetails.sourceId" in found.changed:
        found.replaced.append("sourceDetails.sourceId")
    if "shape" in found.changed:
        shapes = [SHAPES.get(str(one.get("shape"))) for one in (old, new)]
        if any(shape is None or shape.bare_metal for shape in shapes):
            found.replaced.append("shape")
