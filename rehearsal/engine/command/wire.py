"""Functions for property values in the form in which engine and plugin exchange them.

Values stay in their wire form (JSON with marked objects), so that secrets and unknowns are returned unchanged. The module is
independent of resource types.
"""

from __future__ import annotations

from typing import TypeAlias, cast

from google.protobuf import json_format, struct_pb2

Value: TypeAlias = "bool | float | str | list[Value] | dict[str, Value] | None"
Properties: TypeAlias = "dict[str, Value]"

# Pulumi's signatures, from sdk/go/common/resource/sig/sig.go, and its unknown string, from resource/plugin/rpc.go.
MARK = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a mark, not a secret
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
ASSET = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE = "0def7320c3a5731c473e5ecbe6d01bc7"
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


def read(struct: struct_pb2.Struct) -> Properties:
    """Return the properties of a message. Null values are left out of objects, but stay in lists."""
    return {key: _without_nulls(value) for key, value in json_format.MessageToDict(struct).items() if value is not None}


def _without_nulls(value: Value) -> Value:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def write(properties: Properties) -> struct_pb2.Struct:
    """Return properties as a message."""
    return json_format.ParseDict(properties, struct_pb2.Struct())


def mark_of(value: Value) -> str:
    """Return the mark of a marked object, or "" for every other value."""
    mark = value.get(MARK) if isinstance(value, dict) else None
    return mark if isinstance(mark, str) else ""


def is_secret(value: Value) -> bool:
    """Tell whether the value itself is secret."""
    if not isinstance(value, dict):
        return False
    return value.get(MARK) == SECRET or (value.get(MARK) == OUTPUT and bool(value.get("secret")))


def has_unknown(value: Value) -> bool:
    """Tell whether the value or anything in it is Pulumi's unknown string."""
    value = reveal(value)
    if isinstance(value, dict):
        return any(has_unknown(one) for one in value.values())
    return any(has_unknown(one) for one in value) if isinstance(value, list) else value == UNKNOWN


def secret(value: Value) -> Value:
    """Return the value, marked as secret."""
    if is_secret(value):
        return value
    # An unknown secret is sent as an output without a value.
    return {MARK: OUTPUT, "secret": True} if value == UNKNOWN else {MARK: SECRET, "value": value}


def reveal(value: Value) -> Value:
    """Remove the secret and output marks from the value itself; marks on the items of a list or an object stay."""
    while (mark := mark_of(value)) in (SECRET, OUTPUT):
        # A secret whose value is null has lost this value in `read`; an output without a value is unknown.
        value = cast("Properties", value).get("value", UNKNOWN if mark == OUTPUT else None)
    return value


def plain(value: Value) -> Value:
    """Return the value without any secret or output mark, at any depth. Assets and archives stay marked."""
    value = reveal(value)
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


def has_asset(value: Value) -> bool:
    """Tell whether the value contains an asset or an archive."""
    value = reveal(value)
    if mark_of(value) in (ASSET, ARCHIVE):
        return True
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(has_asset(one) for one in inside)
