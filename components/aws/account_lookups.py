"""Looks up resources in the account; `ask` reports failed look-ups; the function `there` returns None if one is missing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, TypeVar

import pulumi
from pulumi_aws import cloudcontrol

from catalogue.aws.permissions import LOOKUPS
from components.report_findings import look_up, reason

_T = TypeVar("_T")
#: How the provider reports a missing resource: with a service's error code at the beginning of the message, or with words of
#: its own (internal/tfresource/not_found_error.go) at the beginning or after a colon.
_MISSING = re.compile(
    r"[\w.]*(NotFound|NoSuchResource|NoSuchEntity)(Exception)?:( |$)"
    r"|(.*: )?([Yy]our )?(query returned no results|couldn't find resource|no matching )"
)


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
    """Tell whether the message of a failed look-up says that a resource is missing.

    `ask` adds to the message what was looked up, which may contain any name that a user chose, so the message without this
    addition is judged.
    """
    said = error.__context__ if isinstance(error, pulumi.RunError) else error
    return isinstance(said, Exception) and _MISSING.match(reason(said)) is not None


def resource(kind: str, name: str) -> dict[str, Any]:
    """Return a resource's properties from Cloud Control, which also knows kinds that have no data source in the provider."""
    found = ask(
        f"{kind} {name}",
        "cloudcontrol/getResource:getResource",
        lambda: cloudcontrol.get_resource(type_name=kind, identifier=name),
    )
    return dict(json.loads(found.properties))
