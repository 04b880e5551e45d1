"""Requests and answers of the EC2 Query protocol, as botocore's service model defines them.

Source: botocore, serialize.EC2Serializer (names of parameters) and parsers.EC2QueryParser (names of elements).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from xml.sax.saxutils import escape

from rehearsal.aws.errors import refused
from rehearsal.aws.models import shape_of, shapes
from rehearsal.plugin.errors import ServiceError

_NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
_COMMON = {"Action", "Version"}


def parsed(action: str, given: Mapping[str, str]) -> dict[str, Any]:
    """Return a request's members by their names in the model.

    Raises:
        ServiceError: the request has an unknown parameter, or a value that is not of the type (number or boolean) in the model.
    """
    left = {name: value for name, value in given.items() if name not in _COMMON}
    shape = shape_of("ec2", action, "input")
    found: dict[str, Any] = _structure(shape, "", left) if shape else {}
    if left:
        unknown = f"The parameter {min(left)} is not recognized"
        raise ServiceError(refused(min(left), "UnknownParameter", unknown), "EC2", action)
    return found


def _wire(member: str, reference: Mapping[str, Any]) -> str:
    if "queryName" in reference:
        return str(reference["queryName"])
    name = str(reference.get("locationName", member))
    return name[0].upper() + name[1:]


def _structure(shape: str, prefix: str, left: dict[str, str]) -> dict[str, Any]:
    found = {}
    for member, reference in shapes("ec2")[shape].get("members", {}).items():
        value = _value(reference["shape"], prefix + _wire(member, reference), left)
        if value is not None:
            found[member] = value
    return found


def _value(shape: str, name: str, left: dict[str, str]) -> Any:
    model = shapes("ec2")[shape]
    if not any(one == name or one.startswith(f"{name}.") for one in left):
        return None
    if model["type"] == "list":
        listed, at = [], 1
        while (one := _value(model["member"]["shape"], f"{name}.{at}", left)) is not None:
            listed.append(one)
            at += 1
        return listed or None
    if model["type"] == "structure":
        return _structure(shape, f"{name}.", left) or None
    text = left.pop(name, None)
    return None if text is None else _scalar(model["type"], name, text)


def _scalar(kind: str, name: str, text: str) -> Any:
    try:
        if kind in {"integer", "long"}:
            return int(text)
        return {"true": True, "false": False}[text.lower()] if kind == "boolean" else text
    except (ValueError, KeyError):
        wrong = f"Invalid value '{text}' for {name}. Expected a {kind}."
        raise ServiceError(refused(name, "InvalidParameterValue", wrong), "EC2", "") from None


def rendered(action: str, value: Mapping[str, Any], request_id: str) -> str:
    """Return an answer as XML; the keys of `value` are the model's member names."""
    shape = shape_of("ec2", action, "output")
    body = _elements(shapes("ec2")[shape], value) if shape else ""
    return f'<{action}Response xmlns="{_NAMESPACE}"><requestId>{request_id}</requestId>{body}</{action}Response>'


def _elements(model: Mapping[str, Any], value: Mapping[str, Any]) -> str:
    parts = []
    for member, one in value.items():
        reference = model["members"][member]
        if one is not None:
            parts.append(_element(str(reference.get("locationName", member)), reference["shape"], one))
    return "".join(parts)


def _element(name: str, shape: str, value: Any) -> str:
    model = shapes("ec2")[shape]
    if model["type"] == "list":
        inner = "".join(_element("item", model["member"]["shape"], one) for one in value)
    elif model["type"] == "structure":
        inner = _elements(model, value)
    elif model["type"] == "boolean":
        inner = "true" if value else "false"
    else:
        inner = escape(str(value))
    return f"<{name}>{inner}</{name}>"


def refusal(code: str, message: str, request_id: str) -> str:
    """Return a refusal as XML."""
    error = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
    return f"<Response><Errors>{error}</Errors><RequestID>{request_id}</RequestID></Response>"
