"""The base of every model of the configuration: frozen, no unknown keys, keys in camel case without their unit."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

#: Units at the ends of field names. A key of a stack file has no unit at its end, because the value contains the unit.
_UNITS = ("gb_s", "gbit_s", "mb_s", "mib_s", "bytes", "gib", "gb", "usd", "days", "h", "min", "s")


@functools.cache
def key_of(name: str) -> str:
    """Return the stack file's key for the field `name`: `timeout_s` is `timeout`."""
    return to_camel(re.sub(rf"_(?:{'|'.join(_UNITS)})$", "", name))


_M = TypeVar("_M", bound="Model")


class UnreadError(Exception):
    """A rule needs a value that was refused, or that only the account can supply."""


class Model(BaseModel):
    """A group of a stack file, or a part of one.

    After a field's value was refused, the field is absent, and reading the field raises `UnreadError`.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=key_of, validate_by_name=True, validate_by_alias=True
    )

    if not TYPE_CHECKING:  # with a `__getattr__`, a type checker would accept misspelt fields

        def __getattr__(self, name: str) -> Any:
            """Raise `UnreadError` for a refused value; Python calls this method only for fields without a value."""
            if name in type(self).model_fields:
                raise UnreadError(name)
            raise AttributeError(f"{type(self).__name__} has no attribute {name}")


def read_strictly(model: type[_M], text: str) -> _M:
    """Return the group of the JSON `text`: types are not converted, and only keys of stack files are allowed.

    Raises:
        ValidationError: the text does not fit the model; the error lists everything that is wrong.
    """
    return model.model_validate_json(text, strict=True, by_alias=True, by_name=False)


def inner(annotation: Any) -> type[Model] | None:
    """Return the model of a field's value, or of the entries of the value; None if neither is a model."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        parts = parts[:1]
    return next((found for part in parts if (found := inner(part)) is not None), None)


def fields_by_key(model: type[Model]) -> dict[str, Any]:
    """Return the fields of `model` by the keys that a stack file uses."""
    return {key_of(name): info for name, info in model.model_fields.items()}
