"""Compares inputs with the SDK's types: finds unknown properties, missing properties and wrong types."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from rehearsal.plugin import sdk
from rehearsal.plugin.errors import Problem
from rehearsal.plugin.wire import Unknown

_SCALARS: Mapping[type, tuple[str, tuple[type, ...]]] = {
    str: ("a string", (str,)),
    bool: ("a boolean", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
}


def misfits(
    inputs: Mapping[str, Any], known: sdk.Inputs, problem: type[Problem] = Problem, path: str = ""
) -> Iterator[Problem]:
    """Yield a problem for each mismatch between inputs and the SDK's types; unknown values pass.

    `problem` is the class of the yielded problems: the vendor's subclass of `Problem`, or `Problem` itself.
    """
    allowed = known.fields
    for name, value in inputs.items():
        here = f"{path}.{name}" if path else name
        if name in allowed:
            yield from _misfit(value, allowed[name].type, problem, here)
        elif not name.startswith("__"):  # names that begin with __ are the engine's own fields
            close = difflib.get_close_matches(name, allowed, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"allowed properties: {', '.join(sorted(allowed))}."
            yield problem(here, f"{here} is not a property of {known.name}; {hint}")
    for field in allowed.values():
        if field.required and inputs.get(field.name) is None:
            here = f"{path}.{field.name}" if path else field.name
            yield problem(here, f"{here} is missing, but {known.name} needs it.", code="MissingParameter")


def _misfit(value: Any, kind: Any, problem: type[Problem], path: str) -> Iterator[Problem]:
    if isinstance(value, Unknown):
        return
    if isinstance(kind, sdk.ListOf | sdk.MapOf):
        yield from _misfit_elements(value, kind, problem, path)
    elif isinstance(kind, sdk.Inputs):
        if isinstance(value, Mapping):
            yield from misfits(value, kind, problem, path)
        else:
            yield _wrong(value, "an object", problem, path)
    elif kind in _SCALARS:
        name, accepted = _SCALARS[kind]
        # In Python, bool is a subclass of int; for the service, a boolean is not a number.
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            yield _wrong(value, name, problem, path)


def _misfit_elements(value: Any, kind: Any, problem: type[Problem], path: str) -> Iterator[Problem]:
    if isinstance(kind, sdk.ListOf):
        elements = [(f"{path}[{at}]", one) for at, one in enumerate(value)] if isinstance(value, list) else None
    else:
        elements = [(f'{path}["{at}"]', one) for at, one in value.items()] if isinstance(value, Mapping) else None
    if elements is None:
        yield _wrong(value, "a list" if isinstance(kind, sdk.ListOf) else "a map", problem, path)
    for here, one in elements or []:
        yield from _misfit(one, kind.element, problem, here)


def _wrong(value: Any, expected: str, problem: type[Problem], path: str) -> Problem:
    return problem(path, f"{path} is {value!r}, but must be {expected}.")
