"""What a vendor's Pulumi SDK says about a resource's inputs: names, types, required or not, documentation.

Loads the part of the SDK that a resource type belongs to when it is first asked for, because all of the SDK costs seconds.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pulumi import _types as sdk_types


@dataclass(frozen=True)
class ListOf:
    """A list whose elements are all of one type."""

    element: Any


@dataclass(frozen=True)
class MapOf:
    """A map from strings to one type."""

    element: Any


@dataclass(frozen=True)
class Field:
    """One input property. `type` is str, int, float, bool, a ListOf, a MapOf, or an Args class; `text` documents it."""

    name: str
    type: Any
    required: bool
    text: str


class Sdk:
    """One vendor's SDK: how it is imported, and in which of its modules each type token is defined."""

    def __init__(self, load: Callable[[], types.ModuleType], modules: Mapping[str, str]) -> None:
        self._load, self._modules = load, modules

    def args_class(self, token: str) -> type:
        """Return the SDK's Args class of a resource type.

        Raises:
            KeyError: the token is none that this cloud serves.
        """
        found: type = getattr(self._room(token), f"{token.rpartition(':')[2]}Args")
        return found

    def output_names(self, token: str) -> frozenset[str]:
        """Return all output properties of a resource type."""
        resource = getattr(self._room(token), token.rpartition(":")[2])
        return frozenset(sdk_types.resource_py_to_pulumi_names(resource).values())

    def _room(self, token: str) -> types.ModuleType:
        # By attribute, never by importing the resource's own file: an SDK's modules load on access, and one that is
        # first accessed in the middle of such an import lacks that resource for good.
        room = self._load()
        for name in self._modules[token].split(".")[:-1]:
            room = getattr(room, name)
        return room


@cache
def fields(args: type) -> Mapping[str, Field]:
    """Return the input properties of an Args class, by their names on the wire."""
    names = sdk_types.input_type_py_to_pulumi_names(args)
    wire_types = sdk_types.input_type_types(args)
    parameters = inspect.signature(args.__init__).parameters  # type: ignore[misc]
    return {
        wire: Field(
            name=wire,
            type=_plain(wire_types[wire]),
            required=parameters[python].default is inspect.Parameter.empty,
            text=getattr(args, python).__doc__ or "",
        )
        for python, wire in names.items()
    }


def is_object(kind: Any) -> bool:
    """Return whether a field's type is a nested Args class."""
    return isinstance(kind, type) and sdk_types.is_input_type(kind)


def _plain(annotation: Any) -> Any:
    """Return an SDK annotation without Input, Awaitable and Optional around it."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return _plain(typing.get_args(annotation)[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapOf(_plain(typing.get_args(annotation)[1]))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return ListOf(_plain(typing.get_args(annotation)[0]))
    return annotation
