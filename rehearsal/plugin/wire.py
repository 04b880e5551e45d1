"""Converts the protocol's Structs to Python values and back.

Values that a preview does not know yet become `UNKNOWN`. Secrets are unwrapped: this provider tells the engine that it does
not accept secrets, so the engine itself marks the secret outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import struct_pb2


class Unknown:
    """The type of `UNKNOWN`; no other value has this type."""

    def __repr__(self) -> str:
        return "<not known yet>"


UNKNOWN = Unknown()

# The engine's sentinels for unknown values, one for each type of property: pulumi/pulumi
# sdk/go/common/resource/plugin/rpc.go.
_STRING_SENTINEL = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_SENTINELS = frozenset(
    {
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",
        _STRING_SENTINEL,
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",
        "030794c1-ac77-496b-92df-f27374a8bd58",
        "e48ece36-62e2-4504-bad9-02848725956a",
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",
    }
)

# Signatures of values that are wrapped in an object: pulumi/pulumi sdk/python/lib/pulumi/runtime/rpc.py.
_SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105  a marker of the protocol, not a secret
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"


def loads(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Return a Struct's properties as Python values; whole numbers become int; properties that are null are left out."""
    return {key: _load(value) for key, value in struct.fields.items() if not value.HasField("null_value")}


def _load(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return UNKNOWN if value.string_value in _SENTINELS else value.string_value
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [_load(one) for one in value.list_value.values]
    if kind == "struct_value":
        return _load_object(value.struct_value)
    return None


def _load_object(struct: struct_pb2.Struct) -> Any:
    if _SIGNATURE_KEY not in struct.fields:
        return loads(struct)
    signature = struct.fields[_SIGNATURE_KEY].string_value
    if signature == _SECRET:
        return _load(struct.fields["value"])
    if signature == _OUTPUT:
        return _load(struct.fields["value"]) if "value" in struct.fields else UNKNOWN
    if signature == _RESOURCE:
        return _load(struct.fields["id"]) if "id" in struct.fields else UNKNOWN
    return loads(struct)


def fill(struct: struct_pb2.Struct, path: str, value: str | int | bool) -> None:
    """Set the value at a dotted path (`[]` means every item of a list) if there is no value yet, and if the parent exists."""
    name, _, rest = path.partition(".")
    plain = name.removesuffix("[]")
    if not rest:
        if plain not in struct.fields:
            struct.fields[plain].CopyFrom(_dump(value))
    elif plain in struct.fields:
        given = struct.fields[plain]
        for one in given.list_value.values if name != plain else [given]:
            if one.WhichOneof("kind") == "struct_value" and _SIGNATURE_KEY not in one.struct_value.fields:
                fill(one.struct_value, rest, value)


def dumps(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    """Return Python values as a Struct; `UNKNOWN` becomes the engine's sentinel, and properties that are None are left out."""
    struct = struct_pb2.Struct()
    for key, value in properties.items():
        if value is not None:
            struct.fields[key].CopyFrom(_dump(value))
    return struct


def _dump(value: Any) -> struct_pb2.Value:  # noqa: PLR0911  one line for each of JSON's types
    if isinstance(value, Unknown):
        return struct_pb2.Value(string_value=_STRING_SENTINEL)
    if isinstance(value, bool):
        return struct_pb2.Value(bool_value=value)
    if isinstance(value, (int, float)):
        return struct_pb2.Value(number_value=float(value))
    if isinstance(value, str):
        return struct_pb2.Value(string_value=value)
    if isinstance(value, Mapping):
        return struct_pb2.Value(struct_value=dumps(value))
    if isinstance(value, (list, tuple)):
        return struct_pb2.Value(list_value=struct_pb2.ListValue(values=[_dump(one) for one in value]))
    if value is None:
        return struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)
    raise TypeError(f"A property is a {type(value).__name__}, but the protocol carries only JSON values.")


def known(value: Any) -> Any:
    """Return the value, or None if it is unknown."""
    return None if isinstance(value, Unknown) else value


def at(inputs: Any, path: str) -> Any:
    """Return the value at a dotted path; None if it is absent; `UNKNOWN` if a step of the path is unknown."""
    for step in path.split("."):
        if isinstance(inputs, Unknown):
            return UNKNOWN
        if not isinstance(inputs, Mapping):
            return None
        inputs = inputs.get(step)
    return inputs


def known_at(inputs: Any, path: str) -> Any:
    """Return the value at a dotted path, or None if it is absent or unknown."""
    return known(at(inputs, path))


def each(inputs: Any, pattern: str) -> list[tuple[str, Any]]:
    """Return all known values at a pattern such as `rules[].ports.min`, each with its path (`rules[0].ports.min`)."""
    found: list[tuple[str, Any]] = [("", inputs)]
    for step in pattern.split("."):
        name = step.removesuffix("[]")
        stepped: list[tuple[str, Any]] = []
        for path, value in found:
            inner = value.get(name) if isinstance(value, Mapping) else None
            here = f"{path}.{name}" if path else name
            if not step.endswith("[]"):
                stepped.append((here, inner))
            elif isinstance(inner, list):
                stepped.extend((f"{here}[{index}]", one) for index, one in enumerate(inner))
        found = stepped
    return [(path, value) for path, value in found if value is not None and not isinstance(value, Unknown)]
