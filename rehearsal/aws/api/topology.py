"""DescribeInstanceTopology: the network nodes above each instance, from the top down.

Source: EC2 API reference, DescribeInstanceTopology and InstanceTopology; EC2 user guide, "Prerequisites for Amazon EC2
topology" (instance types, and the number of network nodes above an instance of each type), "How Amazon EC2 topology works". The
placement is invented: in a placement group, instances are paired by launch index (0 and 1, 2 and 3, ...). Each pair shares its
lowest node, and every four pairs share the node above.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from rehearsal.aws.api import shown
from rehearsal.aws.api.rights import Call
from rehearsal.aws.errors import combination, invalid
from rehearsal.aws.places import ACCOUNT
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Record

#: Type -> how many network layers the API returns for instances of this type.
_LAYERS = {
    **dict.fromkeys(("p6-b200.48xlarge", "p6-b300.48xlarge"), 4),
    **dict.fromkeys(
        (
            *("p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5e.48xlarge", "p5en.48xlarge"),
            *("p6e-gb200.36xlarge", "g6e.48xlarge", "g7e.48xlarge", "trn1.32xlarge", "trn1n.32xlarge", "trn2.48xlarge"),
            *("hpc6id.32xlarge", "hpc7a.96xlarge"),
        ),
        3,
    ),
}
_MOST = 100
_DEFAULT = 20
_FILTERS = {"instance-type": "InstanceType", "availability-zone": "AvailabilityZone", "zone-id": "ZoneId"}
_NEAR = (2, 8)


def described(call: Call, records: Iterable[Record]) -> Mapping[str, Any]:
    """Return the answer to `call`; `records` are the instances that the call names, or the region's if the call names none.

    Raises:
        ServiceError: the request is invalid.
    """
    asked = call.asked
    ids, groups, limit = asked.get("InstanceIds") or [], asked.get("GroupNames") or [], asked.get("MaxResults")
    if ids and limit is not None:
        why = "The parameter instanceIds cannot be used with the parameter maxResults"
        raise ServiceError(combination("MaxResults", why), "EC2", call.action)
    if len(ids) > _MOST or len(groups) > _MOST or (limit is not None and not 1 <= limit <= _MOST):
        why = f"MaxResults must be from 1 to {_MOST}; at most {_MOST} instance ids or group names may be requested."
        raise ServiceError(invalid("MaxResults", why), "EC2", call.action)
    found = [_shown(one) for one in records if (ids or _LAYERS.get(one.private["type"])) and _is_asked(one, groups)]
    for one in asked.get("Filters") or []:
        if one["Name"] not in _FILTERS:
            raise ServiceError(invalid("Filter", f"The filter '{one['Name']}' is invalid"), "EC2", call.action)
        key = _FILTERS[one["Name"]]
        found = [its for its in found if any(fnmatchcase(its[key], value) for value in one.get("Values") or [])]
    return _page(call, found, len(found) if ids else limit or _DEFAULT)


def _is_asked(record: Record, groups: list[str]) -> bool:
    return not groups or record.private["placement_group"] in groups


def _shown(record: Record) -> dict[str, Any]:
    private = record.private
    nodes = _nodes(record) if shown.state(record) == "running" else None
    return {
        "InstanceId": record.id, "InstanceType": private["type"], "GroupName": private["placement_group"] or None,
        "NetworkNodes": nodes, "AvailabilityZone": private["zone"], "ZoneId": private["zone_id"],
    }  # fmt: skip


def _nodes(record: Record) -> list[str] | None:
    private = record.private
    layers = _LAYERS.get(private["type"])
    if not layers:
        return None
    group, index = private["placement_group"], max(int(private["index"]), 0)
    near = [(private["zone"], group, index // size) for size in reversed(_NEAR)]
    far = [(private["zone"], layer) for layer in range(layers - len(near))]
    return [f"nn-{hashlib.sha256(repr((ACCOUNT, one)).encode()).hexdigest()[:17]}" for one in (*far, *near)]


def _page(call: Call, found: list[dict[str, Any]], size: int) -> Mapping[str, Any]:
    token = call.asked.get("NextToken")
    try:
        start = int(base64.b64decode(token)) if token else 0
    except (ValueError, binascii.Error):
        raise ServiceError(invalid("NextToken", "Unable to parse pagination token"), "EC2", call.action) from None
    end = start + size
    more = base64.b64encode(str(end).encode()).decode() if end < len(found) else None
    return {"Instances": found[start:end], "NextToken": more}
