"""Reads a group of a stack file although some values were refused, so that one mistake does not hide other mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from config.model import Model, fields_by_key, inner, key_of, read_strictly

Place = tuple[int | str, ...]


def rest(model: type[Model], text: str, wrong: Sequence[Place], unknown: Sequence[Place]) -> Model:
    """Return the group in the JSON `text` without its unknown keys, and without a value at each path in `wrong`.

    The text is parsed with each refused value left out or replaced by an example, so that the model accepts the other values.
    If the model refuses even that text, no field has a value.
    """
    found = [_field(model, place) for place in wrong]
    if None in found:
        return _nothing(model)
    fields = dict(one for one in found if one)
    # If both a list and one of its entries are wrong, only the list as a whole is left out or replaced.
    outer = [place for place in fields if not any(place[:length] in fields for length in range(len(place)))]
    for use_examples in (False, True):
        given = json.loads(text)
        for place in unknown:
            _put(given, place, ())
        for place in outer:
            _put(given, place, _stand_in(fields[place], use_example=use_examples))
        try:
            made = read_strictly(model, json.dumps(given))
        except ValidationError:
            continue
        for place in outer:
            _forget(made, place)
        return made
    return _nothing(model)


def _nothing(model: type[Model]) -> Model:
    """Return the group without a value in any field."""
    nothing = model.model_construct()
    nothing.__dict__.clear()
    return nothing


def _field(model: type[Model], place: Place) -> tuple[Place, FieldInfo] | None:
    """Return the innermost field on the path `place`, with the path of that field; None if `place` names no field."""
    here: type[Model] | None = model
    found = None
    for length, step in enumerate(place, start=1):
        if isinstance(step, int):
            continue
        info = fields_by_key(here).get(step) if here is not None else None
        if info is None:
            break
        found, here = (place[:length], info), inner(info.annotation)
    return found


def _stand_in(field: FieldInfo, *, use_example: bool) -> Iterable[Any]:
    """Return a list of one value that the model accepts, or an empty sequence if the key is to be left out."""
    return list(field.examples or ())[-1:] if field.is_required() or use_example else ()


def _put(given: Any, place: Place, stand_in: Iterable[Any]) -> None:
    """Remove the value at `place`; if there is a stand-in, put the stand-in there."""
    for step in place[:-1]:
        given = given[step]
    given.pop(place[-1], None)
    for value in stand_in:
        given[place[-1]] = value


def _forget(made: Any, place: Place) -> None:
    """Remove the stand-in at `place` from the model. No other code has the model yet, so the model may be changed."""
    for step in place[:-1]:
        made = made[step] if isinstance(step, int) else getattr(made, _name(made, step))
    del made.__dict__[_name(made, str(place[-1]))]


def _name(made: Model, key: str) -> str:
    return next(name for name in type(made).model_fields if key_of(name) == key)
