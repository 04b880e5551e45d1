"""Checks request bodies and converts them to the provider's form.

Source: oci-python-sdk 2.189, the `[Required]` properties of its models.
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


def _of(kind: type, value: Mapping[str, Any], name: str, path: str = "") -> Any:
    """Return a property that is required and must be of the type `kind`."""
    found = value.get(name)
    if found is None:
        raise _refused(f"Missing {path}{name}", "MissingParameter")
    if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
        raise _refused(f"{path}{name} is {found!r}, which is not of type {kind.__name__}.")
    return found


def _tags(value: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if value.get("freeformTags"):
        found["freeformTags"] = dict(value["freeformTags"])
    if value.get("definedTags"):
        found["definedTags"] = flat(value["definedTags"])
    return found


def created_network(body: object) -> dict[str, Any]:
    """Return CreateClusterNetworkDetails in the provider's form.

    Raises:
        ServiceError: a required property is missing or of the wrong type, or a pool's size is less than 1.
    """
    asked = _object(body, "")
    made: dict[str, Any] = {"compartmentId": _of(str, asked, "compartmentId"), **_tags(asked)}
    if asked.get("displayName"):
        made["displayName"] = asked["displayName"]
    made["instancePools"] = [_pool(_object(one, "instancePools")) for one in _of(list, asked, "instancePools")]
    placement = _object(_of(dict, asked, "placementConfiguration"), "placementConfiguration")
    _of(str, placement, "availabilityDomain", "placementConfiguration.")
    made["placementConfiguration"] = dict(placement)
    return made


def _pool(asked: Mapping[str, Any]) -> dict[str, Any]:
    size = _of(int, asked, "size", "instancePools.")
    if size < 1:
        raise _refused(f"instancePools.size is {size}, but a cluster network starts with at least one instance.")
    named = {"displayName": asked["displayName"]} if asked.get("displayName") else {}
    configuration = _of(str, asked, "instanceConfigurationId", "instancePools.")
    return {"instanceConfigurationId": configuration, "size": size, **named, **_tags(asked)}


def updated_network(body: object) -> dict[str, Any]:
    """Return the supported parts of UpdateClusterNetworkDetails: tags, and the changes of each pool, keyed by the pool's OCID.

    A pool's new size and new instance configuration are both optional.

    Raises:
        ServiceError: a required property is missing or of the wrong type.
    """
    asked = _object(body, "")
    pools = [_object(one, "instancePools") for one in _of(list, asked, "instancePools")] if "instancePools" in asked else []
    kinds: dict[str, type] = {"size": int, "instanceConfigurationId": str}
    changes = {
        _of(str, one, "id", "instancePools."): {
            name: _of(kind, one, name, "instancePools.") for name, kind in kinds.items() if name in one
        }
        for one in pools
    }
    return {**_tags(asked), "pools": changes}


def detached_instance(body: object) -> Detached:
    """Return DetachInstancePoolInstanceDetails.

    Raises:
        ServiceError: a required property is missing or of the wrong type.
    """
    asked = _object(body, "")
    instance = _of(str, asked, "instanceId")
    return Detached(instance, bool(asked.get("isDecrementSize", True)), bool(asked.get("isAutoTerminate", False)))
