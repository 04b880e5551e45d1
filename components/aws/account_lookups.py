"""Asks the account: a look-up that fails ends in a sentence, and what is not there is None."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from pulumi_aws import cloudcontrol

from catalogue.aws.permissions import LOOKUPS
from components.report_findings import look_up

_T = TypeVar("_T")
#: How the provider says that there is none: the services' codes, and its own words (internal/tfresource/not_found_error.go).
_MISSING = ("NotFound", "NoSuchResource", "NoSuchEntity", "returned no results", "couldn't find resource", "no matching ")


def ask(what: str, token: str, question: Callable[[], _T]) -> _T:
    """Return what `question`, a look-up of that token, returns, or end in a sentence: see `look_up`."""
    return look_up("aws", what, " and ".join(LOOKUPS[token]) or "sign in", question)


def there(question: Callable[[], _T]) -> _T | None:
    """Return what `question` returns, or None for what is not there."""
    try:
        return question()
    except Exception as error:
        if is_missing(error):
            return None
        raise


def is_missing(error: Exception) -> bool:
    """Tell whether a look-up failed because there is no such thing."""
    return any(words in str(error) for words in _MISSING)


def resource(kind: str, name: str) -> dict[str, Any]:
    """Return a resource as Cloud Control shows it: the provider has no data source for some."""
    found = ask(
        f"{kind} {name}",
        "cloudcontrol/getResource:getResource",
        lambda: cloudcontrol.get_resource(type_name=kind, identifier=name),
    )
    return dict(json.loads(found.properties))
