"""Conditions in policies and dynamic groups' rules: individual conditions, and nested `any {...}` and `all {...}`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase

_GROUPED = re.compile(r"\s*(any|all)\s*\{(.*)\}\s*", re.IGNORECASE | re.DOTALL)
_SINGLE = re.compile(r"\s*(?P<name>[\w.:-]+)\s*(?P<sign>=|!=|not\s+in|in|)\s*(?P<value>.*?)\s*", re.IGNORECASE | re.DOTALL)


def matches(text: str, condition: re.Pattern[str]) -> bool:
    """Return whether a text is one condition, or conditions in nested `any {...}` and `all {...}`."""
    grouped = _GROUPED.fullmatch(text)
    if grouped is None:
        return condition.fullmatch(text) is not None
    return all(matches(part, condition) for part in _parts(grouped[2]))


def holds(text: str, variables: Mapping[str, str]) -> bool:
    """Return whether a text that `matches` accepts is true for `variables`, whose names are in lower case.

    A condition whose variable is missing is false, even with `!=` or `not in`: "if the variable is not applicable to the
    incoming request, the condition evaluates the request as false" (Policy Syntax, "Conditions").
    """
    grouped = _GROUPED.fullmatch(text)
    if grouped is None:
        return _true(text, variables)
    every: Callable[..., bool] = all if grouped[1].lower() == "all" else any
    return every(holds(part, variables) for part in _parts(grouped[2]))


def _true(text: str, variables: Mapping[str, str]) -> bool:
    found = _SINGLE.fullmatch(text)
    value = variables.get(found["name"].lower()) if found else None
    if found is None or value is None:
        return False
    sign, given = " ".join(found["sign"].lower().split()), found["value"]
    if not sign:
        return True  # the condition names only a tag, so any value matches
    wanted = _parts(given.strip().removeprefix("(").removesuffix(")")) if sign.endswith("in") else [given]
    equal = any(_equal(value, one.strip()) for one in wanted)
    return equal if sign in {"=", "in"} else not equal


def _equal(value: str, wanted: str) -> bool:
    """Compare without regard to case, as IAM does; in a value between slashes, `*` matches any text."""
    if wanted[:1] == "/":
        return fnmatchcase(value.lower(), wanted.strip("/").lower())
    return value.lower() == wanted.strip("'\"").lower()


def _parts(text: str) -> list[str]:
    """Split at the commas outside braces, parentheses and quotes."""
    parts, depth, quote, start = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "{(":
            depth += 1
        elif letter in "})":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]
