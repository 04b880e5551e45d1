"""Generates a JSON schema from the types of the runner's requests and of the lines that answer them.

python -m benchmarks.host.schema > docs/runner.schema.json
"""

from __future__ import annotations

import inspect
import json
import sys
from typing import Any, Union, get_args, get_origin, get_type_hints

from benchmarks.launch.lines import LINES
from benchmarks.launch.protocol import REQUESTS, BuildLine, EntryTest, Job, Refused

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}


def document() -> dict[str, Any]:
    """Return the schema that every request and every line fits."""
    parts: dict[str, Any] = {}
    kinds = [*REQUESTS.values(), Job, EntryTest, BuildLine, *LINES, Refused]
    references = [_schema(kind, parts) for kind in kinds]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Requests to busbar's runner, and the JSON lines that it answers with",
        "anyOf": references,
        "$defs": dict(sorted(parts.items())),
    }


def _schema(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; named tuples become definitions in `parts`."""
    if hint is Any:
        return {}
    if hint in _PLAIN:
        return {"type": _PLAIN[hint]}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Union:
        (one,) = [each for each in inner if each is not type(None)]
        return {"anyOf": [{"type": "null"}, _schema(one, parts)]}
    if origin is list:
        return {"type": "array", "items": _schema(inner[0], parts)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema(inner[1], parts)}
    if hint.__name__ not in parts:
        parts[hint.__name__] = {}  # ends the recursion of a type that contains itself
        parts[hint.__name__] = _record(hint, parts)
    return {"$ref": f"#/$defs/{hint.__name__}"}


def _record(hint: Any, parts: dict[str, Any]) -> dict[str, Any]:
    fixed = hint._field_defaults
    properties = {name: _schema(kind, parts) for name, kind in get_type_hints(hint).items()}
    for name in {"kind", "schema"} & set(fixed):
        properties[name] = {"const": fixed[name]}
    return {
        "description": inspect.cleandoc(hint.__doc__ or "").split("\n\n")[0].replace("\n", " "),
        "type": "object",
        "additionalProperties": False,
        "required": sorted({name for name in hint._fields if name not in fixed} | ({"kind", "schema"} & set(fixed))),
        "properties": properties,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(document(), indent=1) + "\n")
