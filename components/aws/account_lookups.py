"""Looks up resources in the account; `ask` reports a failed look-up to the user; `there` returns None for what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pulumi_aws import cloudcontrol

from catalogue.aws.permissions import LOOKUPS
from components.report_findings import look_up

_T = TypeVar("_T")
#: How the provider reports a missing resource: error codes of the services, and the provider's own messages
#: (internal/tfresource/not_found_error.go).
_MISSING = ("NotFound", "NoSuchResource", "NoSuchEntity", "returned no results", "couldn't find resource", "no matching ")


def ask(what: str, token: str, question: Callable[[], _T]) -> _T:
    """Call `question`, a look-up by the Pulumi function `token`, and return the result.

    If the look-up fails, raise the pulumi.RunError of `components.report_findings.look_up`.
    """
    return look_up("aws", what, " and ".join(LOOKUPS[token]) or "sign in", question)


def there(question: Callable[[], _T]) -> _T | None:
    """Return what `question` returns, or None if one of its look-ups reports a missing resource."""
    try:
        return question()
    except Exception as error:
        if is_missing(error):
            return None
        raise


def is_missing(error: Exception) -> bool:
    """Tell whether the message of a failed look-up says that a resource is missing."""
    return any(words in str(error) for words in _MISSING)


def resource(kind: str, name: str) -> dict[str, Any]:
    """Return a resource's properties from Cloud Control, which also knows kinds that have no data source in the provider."""
    found = ask(
        f"{kind} {name}",
        "cloudcontrol/getResource:getResource",
        lambda: cloudcontrol.get_resource(type_name=kind, identifier=name),
    )
    return dict(json.loads(found.properties))
