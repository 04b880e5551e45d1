"""Checks values against botocore's models of AWS's services: types, enumerations, patterns and ranges.

Only botocore's data files are used; botocore makes no network calls.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from rehearsal.aws.errors import Problem, refused
from rehearsal.plugin.wire import Unknown

#: Java's regular-expression syntax that Python lacks: Unicode classes, inline flags, a character class before a hyphen.
_JAVA_ONLY = re.compile(r"\\p\{([A-Za-z]+)\}|\(\?[a-z]\)|(\\w)-(?=\\)")

#: Java's Unicode classes as members of a Python character set. The translation of the class of letters (L) also matches digits
#: and the underscore.
_UNICODE = {"L": r"\w", "M": "", "N": r"\d", "P": r"!-/:-@\[-`{-~", "S": r"$+<=>^`|~", "Z": r"\s", "IsLatin": "A-Za-z"}

_CODES = {"ec2": "InvalidParameterValue", "iam": "ValidationError", "fsx": "BadRequest", "ssm": "ValidationException"}


def present() -> None:
    """Check that the models are installed.

    Raises:
        RuntimeError: botocore is not installed.
    """
    if importlib.util.find_spec("botocore") is None:
        raise RuntimeError(
            "botocore is not installed, but the rehearsed AWS checks every input against botocore's service models; "
            "`tools/setup python` installs it from tools/requirements/rehearsal.txt."
        )


@cache
def _model(service: str) -> Mapping[str, Any]:
    present()
    # botocore is imported only here, because the import takes a quarter of a second. The type is Any because botocore has no
    # type hints.
    loaders: Any = importlib.import_module("botocore.loaders")
    found: Mapping[str, Any] = loaders.Loader().load_service_model(service, "service-2")
    return found


def shapes(service: str) -> Mapping[str, Mapping[str, Any]]:
    """Return all shapes of a service, by name.

    Raises:
        RuntimeError: botocore is not installed.
    """
    found: Mapping[str, Mapping[str, Any]] = _model(service)["shapes"]
    return found


def shape_of(service: str, operation: str, side: str) -> str | None:
    """Return the shape of an operation's `side`, which is `input` or `output`; None if the operation lacks this side."""
    found = _model(service)["operations"][operation].get(side)
    return str(found["shape"]) if found else None


def member(service: str, path: str) -> str | None:
    """Return the shape at a path such as `CreateVpcRequest.CidrBlock`; if a step is a list, go on with the list's elements."""
    first, *way = path.split(".")
    here = first if first in shapes(service) else None
    for step in way:
        if here is None:
            return None
        found = shapes(service)[element(service, here)].get("members", {}).get(step)
        here = found["shape"] if found else None
    return here


def element(service: str, shape: str) -> str:
    """Return the shape of a list's innermost elements; if `shape` is not a list, return `shape` unchanged."""
    while shapes(service)[shape]["type"] == "list":
        shape = shapes(service)[shape]["member"]["shape"]
    return shape


def refusals(service: str, shape: str, value: Any, path: str) -> Iterator[Problem]:
    """Yield a problem if a value violates a shape; for a list, check each element.

    This function does not check structures: members.py checks the properties of a structure one by one.
    """
    if isinstance(value, Unknown) or value is None:
        return
    model = shapes(service)[shape]
    if isinstance(value, list):
        yield from _list(service, model, value, path)
        return
    if model["type"] == "list":
        shape = element(service, shape)
        model = shapes(service)[shape]
    why = _CHECKS.get(model["type"], _nothing)(model, value)
    if why:
        yield refused(
            path,
            _CODES.get(service, "InvalidArgument"),
            f"Value ({_shown(value)}) for parameter {path} is invalid: it must be {why} ({shape}).",
        )


def _list(service: str, model: Mapping[str, Any], value: list[Any], path: str) -> Iterator[Problem]:
    inner = model["member"]["shape"] if model["type"] == "list" else None
    low, high = model.get("min", 0), model.get("max")
    if inner is not None and (len(value) < low or (high is not None and len(value) > high)):
        yield refused(
            path,
            _CODES.get(service, "InvalidArgument"),
            f"{path} has {len(value)} entries; it must be {low} {'or more' if high is None else f'to {high}'}.",
        )
    for at, one in enumerate(value):
        if inner is not None and not isinstance(one, Mapping):
            yield from refusals(service, inner, one, f"{path}[{at}]")


def _nothing(model: Mapping[str, Any], value: Any) -> str | None:  # noqa: ARG001
    return None


def _text(model: Mapping[str, Any], value: Any) -> str | None:
    # If the API takes a string, the provider converts numbers and booleans to strings; so does this check.
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "enum" in model and text not in model["enum"]:
        return f"one of {', '.join(model['enum'])}" if len(model["enum"]) < 60 else "a value that the service lists"  # noqa: PLR2004
    low, high = model.get("min", 0), model.get("max")
    if len(text) < low or (high is not None and len(text) > high):
        return f"{low} to {high} characters"
    pattern = _pattern(str(model["pattern"])) if "pattern" in model else None
    return f"text that matches {model['pattern']}" if pattern and not pattern.fullmatch(text) else None


@cache
def _pattern(text: str) -> re.Pattern[str] | None:
    """Return a model's pattern compiled for Python, or None if Python cannot express the pattern."""
    plain = _JAVA_ONLY.sub(lambda found: r"\w\-" if found[2] else _UNICODE.get(found[1] or "", ""), text)
    try:
        return re.compile(plain, re.DOTALL)
    except re.error:
        return None


def _number(model: Mapping[str, Any], value: Any) -> str | None:
    if isinstance(value, bool):
        return "a number"
    try:
        number = float(value)
    except (TypeError, ValueError):
        return "a number"
    low, high = model.get("min"), model.get("max")
    if (low is not None and number < low) or (high is not None and number > high):
        return f"from {low} to {high}" if high is not None else f"at least {low}"
    return None


def _truth(model: Mapping[str, Any], value: Any) -> str | None:  # noqa: ARG001
    return None if str(value).lower() in {"true", "false"} else "true or false"


_CHECKS = {
    "string": _text,
    "integer": _number,
    "long": _number,
    "float": _number,
    "double": _number,
    "boolean": _truth,
}


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."  # noqa: PLR2004
