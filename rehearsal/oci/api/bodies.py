"""Checks request bodies and converts them to the provider's form.

Sources: oci-python-sdk 2.189, the `[Required]` properties and the types of its models; docs.oracle.com, "API Errors", for the
codes of refusals. A property that is null counts as missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.oci.errors import Problem
from rehearsal.oci.tags import flat
from rehearsal.plugin.errors import ServiceError


@dataclass(frozen=True)
class Detached:
    """DetachInstancePoolInstanceDetails: whether the pool shrinks (default: yes) and the instance terminates (default: no)."""

    instance: str
    shrink: bool
    end: bool


def _refused(message: str, code: str = "InvalidParameter") -> ServiceError:
    return ServiceError(Problem("", message, code=code), "Core", "")


def _object(value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _refused(f"{path or 'the body'} must be an object.", "CannotParseRequest" if not path else "InvalidParameter")
    return value


def _maybe(kind: type, value: Mapping[str, Any], name: str, path: str = "") -> Any:
    """Return a property that must be of the type `kind`, or None if it is missing."""
    found = value.get(name)
    # In Python, but not in JSON, a boolean is an integer.
    if found is not None and (not isinstance(found, kind) or (kind is int and isinstance(found, bool))):
        raise _refused(f"{path}{name} is {found!r}, which is not of type {kind.__name__}.")
    return found


def _of(kind: type, value: Mapping[str, Any], name: str, path: str = "") -> Any:
    """Return a required property, which must be of the type `kind`."""
    found = _maybe(kind, value, name, path)
    if found is None:
        raise _refused(f"Missing {path}{name}", "MissingParameter")
    return found


def _size(value: Mapping[str, Any]) -> int | None:
    size: int | None = _maybe(int, value, "size", "instancePools.")
    if size is not None and size < 0:
        raise _refused(f"instancePools.size is {size}, but a pool has no negative number of instances.")
    return size


def _named(value: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the display name and the tags, if they are given and not empty."""
    found: dict[str, Any] = {"displayName": _maybe(str, value, "displayName", path), **_tags(value, path)}
    return {name: one for name, one in found.items() if one}


def _tags(value: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the tags that are given, in the provider's form."""
    found: dict[str, Any] = {}
    free, defined = _maybe(dict, value, "freeformTags", path), _maybe(dict, value, "definedTags", path)
    if free is not None:
        found["freeformTags"] = {key: _of(str, free, key, f"{path}freeformTags.") for key in free}
    if defined is not None:
        found["definedTags"] = flat({space: _of(dict, defined, space, f"{path}definedTags.") for space in defined})
    return found


def created_network(body: object) -> dict[str, Any]:
    """Return CreateClusterNetworkDetails in the provider's form.

    Raises:
        ServiceError: the body or an entry of `instancePools` is not an object, a required property is missing, a supported
            property has the wrong type, or a pool's size is less than 1.
    """
    asked = _object(body, "")
    made: dict[str, Any] = {"compartmentId": _of(str, asked, "compartmentId"), **_named(asked)}
    made["instancePools"] = [_pool(_object(one, "instancePools")) for one in _of(list, asked, "instancePools")]
    placement = _of(dict, asked, "placementConfiguration")
    _of(str, placement, "availabilityDomain", "placementConfiguration.")
    _maybe(str, placement, "primarySubnetId", "placementConfiguration.")
    if (primary := _maybe(dict, placement, "primaryVnicSubnets", "placementConfiguration.")) is not None:
        _of(str, primary, "subnetId", "placementConfiguration.primaryVnicSubnets.")
    made["placementConfiguration"] = {name: one for name, one in placement.items() if one is not None}
    return made


def _pool(asked: Mapping[str, Any]) -> dict[str, Any]:
    _of(int, asked, "size", "instancePools.")
    size = _size(asked)
    if not size:
        raise _refused("instancePools.size is 0, but a cluster network starts with at least one instance.")
    configuration = _of(str, asked, "instanceConfigurationId", "instancePools.")
    return {"instanceConfigurationId": configuration, "size": size, **_named(asked, "instancePools.")}


def updated_network(body: object) -> dict[str, Any]:
    """Return the supported parts of UpdateClusterNetworkDetails: tags, and the changes of each pool, keyed by the pool's OCID.

    All parts are optional, and so are a pool's new size and new instance configuration.

    Raises:
        ServiceError: the body or an entry of `instancePools` is not an object, a pool's `id` is missing, a supported property
            has the wrong type, or a size is negative.
    """
    asked = _object(body, "")
    pools = [_object(one, "instancePools") for one in _maybe(list, asked, "instancePools") or []]
    return {**_tags(asked), "pools": {_of(str, one, "id", "instancePools."): _changes(one) for one in pools}}


def _changes(pool: Mapping[str, Any]) -> dict[str, Any]:
    configuration = _maybe(str, pool, "instanceConfigurationId", "instancePools.")
    found = {"size": _size(pool), "instanceConfigurationId": configuration}
    return {name: one for name, one in found.items() if one is not None}


def detached_instance(body: object) -> Detached:
    """Return DetachInstancePoolInstanceDetails.

    Raises:
        ServiceError: the body is not an object, `instanceId` is missing, or a property has the wrong type.
    """
    asked = _object(body, "")
    shrink, end = _maybe(bool, asked, "isDecrementSize"), _maybe(bool, asked, "isAutoTerminate")
    return Detached(_of(str, asked, "instanceId"), shrink is not False, end is True)
