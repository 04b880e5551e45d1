"""The data source of the Resource Groups Tagging API, which finds resources of any service by their tags.

Sources: botocore's model resourcegroupstaggingapi (GetResources); terraform-provider-aws:
internal/service/resourcegroupstaggingapi/resources_data_source.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rehearsal.aws.cloud import Cloud
from rehearsal.aws.errors import not_played
from rehearsal.aws.lookup_requests import Answer
from rehearsal.aws.places import region_of
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Record

_FILTERS = ("tagFilters", "resourceTypeFilters")


def resources(args: Mapping[str, Any], cloud: Cloud, region: str) -> Answer:
    """Return ARN and tags of each resource in the region that passes all filters; a filter without values accepts all values.

    Raises:
        ServiceError: the request has a parameter that is not rehearsed.
    """
    for name in sorted(key for key, value in args.items() if value is not None and key not in {*_FILTERS, "region"}):
        why = f"{name} is given, but the rehearsal finds resources by tags and types."
        raise ServiceError(not_played(name, why), "Resource Groups Tagging API", "GetResources")
    kinds = args.get("resourceTypeFilters") or []
    found = []
    for record in cloud.store.read().records.values():
        arn, tags = str(record.computed.get("arn") or ""), _tags(record)
        if not arn or not tags or region_of(record.inputs) != region:
            continue
        if (not kinds or _kind(arn) in kinds) and all(_passes(tags, one) for one in args.get("tagFilters") or []):
            found.append({"resourceArn": arn, "tags": tags, "complianceDetails": []})
    return {"resourceTagMappingLists": sorted(found, key=lambda its: its["resourceArn"])}


def _tags(record: Record) -> dict[str, str]:
    # For an instance, `private` has all its tags, including the tags from its launch template.
    return dict(record.private.get("tags") or record.inputs.get("tags") or {})


def _kind(arn: str) -> str:
    """Return the type of a resource in the notation of the filter, such as `ec2:capacity-reservation`."""
    parts = arn.split(":", 5)
    return f"{parts[2]}:{parts[5].partition('/')[0]}"


def _passes(tags: Mapping[str, str], wanted: Mapping[str, Any]) -> bool:
    values = wanted.get("values") or []
    return wanted["key"] in tags and (not values or tags[wanted["key"]] in values)
