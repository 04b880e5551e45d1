"""Merges changes into the contents of a stack file, nested groups included."""

from __future__ import annotations

from typing import Any

#: A value that removes its key, so that the program's own default applies.
DEFAULT = object()


def merged(base: Any, changes: Any) -> Any:
    """Return `base` with `changes`: maps are merged by key, lists of maps by position, and everything else is replaced."""
    if isinstance(base, dict) and isinstance(changes, dict):
        return base | {key: merged(base.get(key), value) for key, value in changes.items()}
    if _of_maps(base) and _of_maps(changes):
        shorter = min(len(base), len(changes))
        return [*(merged(*pair) for pair in zip(base, changes, strict=False)), *base[shorter:], *changes[shorter:]]
    return changes


def settled(value: Any) -> Any:
    """Return `value` without the keys whose value is `DEFAULT`."""
    if isinstance(value, dict):
        return {key: settled(one) for key, one in value.items() if one is not DEFAULT}
    return [settled(one) for one in value] if isinstance(value, list) else value


def _of_maps(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
