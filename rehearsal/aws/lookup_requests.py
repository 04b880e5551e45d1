"""Code that all data sources share: required arguments, filters and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from rehearsal.aws import errors
from rehearsal.aws.places import region_of
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.store import Record
from rehearsal.plugin.wire import UNKNOWN

Answer = dict[str, Any]


def refusal(code: str, message: str, service: str, operation: str, status: int = 400) -> ServiceError:
    """Return the error for a refused request."""
    return ServiceError(errors.refused("", code, message, status), service, operation)


def needed(args: Mapping[str, Any], name: str, service: str, operation: str) -> str:
    """Return a required argument.

    Raises:
        ServiceError: the argument is missing.
    """
    value = args.get(name)
    if value is None or value is UNKNOWN:
        raise refusal("MissingParameter", f"The request must contain the parameter {name}", service, operation)
    return str(value)


def in_region(records: Iterable[Record], region: str) -> list[Record]:
    """Return the resources that are in a region."""
    return [one for one in records if region_of(one.inputs) == region]


def passes(args: Mapping[str, Any], facts: Mapping[str, Any]) -> bool:
    """Return whether a resource matches all filters of a request.

    `facts` has the resource's value for each known filter. A filter that is not in `facts` is refused.
    """
    for one in args.get("filters") or []:
        name = str(one["name"])
        if name not in facts:
            raise refusal("InvalidParameterValue", f"The filter '{name}' is invalid or not rehearsed.", "EC2", "Describe")
        have = facts[name] if isinstance(facts[name], list) else [facts[name]]
        if not any(fnmatchcase(str(value), str(wanted)) for value in have for wanted in one["values"]):
            return False
    return True
