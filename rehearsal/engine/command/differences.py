"""Computes the differences between an existing resource's old and new inputs.

From the differences, the engine decides whether to update the resource, to replace it, or to leave it as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from .shapes import Shape
from .wire import ARCHIVE, ASSET, SECRET, UNKNOWN, Properties, Value, has_asset, mark_of


class Kind(IntEnum):
    """The protocol's numbers for kinds of change; the number plus 1 means that the change replaces the resource."""

    ADD = 0
    DELETE = 2
    UPDATE = 4


def differences(shape: Shape, old: Properties, new: Properties) -> dict[str, int]:
    """Return the kind of each change by property path; an inner property has a path of its own.

    If a whole property such as `triggers` changes, the kind asks for a replacement. If one element of `triggers` changes, the
    kind asks for no replacement; the program's SDK then asks for it (`replace_on_changes`).
    """
    wanted = {key: value for key, value in new.items() if key != "version" and not key.startswith("__")}
    found = dict(_of_objects("", old, wanted))
    return {
        path: kind + 1 if path in shape.properties and shape.properties[path].replaces else kind for path, kind in found.items()
    }


def top(path: str) -> str:
    """Return the top-level property of a path."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def equal(left: Value, right: Value) -> bool:
    """Tell whether two values are equal. Values with assets are never equal: the genuine plugin cannot compare assets."""
    return left == right and not has_asset(left)


def _step(path: str, key: str) -> str:
    if re.fullmatch(r"\w*", key, re.ASCII):
        return f"{path}.{key}" if path else key
    return path + '["' + key.replace("\\", "\\\\").replace('"', '\\"') + '"]'


def _of_objects(path: str, old: Properties, new: Properties) -> Iterator[tuple[str, int]]:
    for key in [*old, *(key for key in new if key not in old)]:
        step = _step(path, key)
        if key not in new:
            yield step, Kind.DELETE
        elif key not in old:
            yield step, Kind.ADD
        else:
            yield from _of_values(step, old[key], new[key])


def _of_values(path: str, old: Value, new: Value) -> Iterator[tuple[str, int]]:
    marks = {mark_of(old), mark_of(new)}
    if marks <= {ASSET, ARCHIVE}:
        same_kind = mark_of(old) == mark_of(new)
        if not (same_kind and isinstance(old, dict) and isinstance(new, dict) and old.get("hash") == new.get("hash")):
            yield path, Kind.UPDATE
    elif isinstance(old, dict) and isinstance(new, dict) and marks == {""}:
        yield from _of_objects(path, old, new)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            step = f"{path}[{index}]"
            here = old[index] if index < len(old) else None
            there = new[index] if index < len(new) else None
            if here is None and there is None:
                continue
            if here is None or there is None:
                yield step, Kind.ADD if here is None else Kind.DELETE
            else:
                yield from _of_values(step, here, there)
    elif old != new or UNKNOWN in (old, new) or (SECRET in marks and len(marks) > 1):
        yield path, Kind.UPDATE
