"""The base of every model of the configuration: frozen, closed, keys in camel case without their unit."""

from __future__ import annotations

import re
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

#: Ends of field names that are units. A stack file writes the unit with the value instead.
_UNITS = ("gb_s", "gbit_s", "mb_s", "mib_s", "bytes", "gib", "gb", "usd", "days", "h", "s")


def key_of(name: str) -> str:
    """Return the key of a stack file for the field `name`: `timeout_s` is `timeout`."""
    return to_camel(re.sub(rf"_(?:{'|'.join(_UNITS)})$", "", name))


class Model(BaseModel):
    """A group of a stack file, or a part of one."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=key_of, validate_by_name=True, validate_by_alias=True
    )


def inner(annotation: Any) -> type[Model] | None:
    """Return the model of a field of this type, or of the entries of a list; None if there is none."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation
    parts = get_args(annotation)
    if get_origin(annotation) is Annotated:
        parts = parts[:1]
    return next((found for part in parts if (found := inner(part)) is not None), None)


def fields_by_key(model: type[Model]) -> dict[str, Any]:
    """Return the fields of `model` by the keys that a stack file uses."""
    return {key_of(name): info for name, info in model.model_fields.items()}
