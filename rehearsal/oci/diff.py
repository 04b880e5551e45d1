"""Decides which changed properties make OCI's Pulumi provider replace a resource."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehearsal.oci.sdk import SDK
from rehearsal.oci.shapes import SHAPES
from rehearsal.plugin.diff import Changes, compare
from rehearsal.plugin.sdk import Field

_INSTANCE = "oci:Core/instance:Instance"

# The documentation marks all metadata as updatable, but two keys cannot change after launch: "Both the 'user_data'
# and 'ssh_authorized_keys' fields cannot be changed after an instance has launched" (UpdateInstanceDetails.metadata).
_LAUNCH_METADATA = ("user_data", "ssh_authorized_keys")


def changes(token: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    """Return which properties differ between the old and the new inputs, and which of these replace the resource."""
    found = compare(old, new, SDK.inputs(token), _updatable)
    if token == _INSTANCE:
        _compare_instance(old, new, found)
    return found


def _updatable(path: str, field: Field) -> bool:  # noqa: ARG001
    """Return whether the vendor's documentation marks a property as updatable."""
    return field.updatable


# A changed `sourceDetails.sourceId` does not replace the instance: the provider sends UpdateInstanceSourceViaImageDetails, and
# the instance continues with a new boot volume (terraform-provider-oci 8.28.0: core_instance_resource.go, lines 915 and
# 2475-2520).
def _compare_instance(old: Mapping[str, Any], new: Mapping[str, Any], found: Changes) -> None:
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        found.replaced.extend(f"metadata.{key}" for key in _LAUNCH_METADATA if before.get(key) != after.get(key))
    if "shape" in found.changed:
        shapes = [SHAPES.get(str(one.get("shape"))) for one in (old, new)]
        if any(shape is None or shape.bare_metal for shape in shapes):
            found.replaced.append("shape")
