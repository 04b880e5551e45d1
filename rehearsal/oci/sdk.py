"""What the vendor's Pulumi SDK says about a resource's inputs: names, types, needed or not, updatable or not.

Imports one SDK module for one resource type when it is first asked for, because all of the SDK costs seconds.
"""

from __future__ import annotations

import importlib
import inspect
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pulumi import _types as sdk_types

MODULES = {
    "oci:Core/vcn:Vcn": "core.vcn",
    "oci:Core/internetGateway:InternetGateway": "core.internet_gateway",
    "oci:Core/natGateway:NatGateway": "core.nat_gateway",
    "oci:Core/serviceGateway:ServiceGateway": "core.service_gateway",
    "oci:Core/routeTable:RouteTable": "core.route_table",
    "oci:Core/securityList:SecurityList": "core.security_list",
    "oci:Core/dhcpOptions:DhcpOptions": "core.dhcp_options",
    "oci:Core/subnet:Subnet": "core.subnet",
    "oci:Core/instance:Instance": "core.instance",
    "oci:Core/instanceConfiguration:InstanceConfiguration": "core.instance_configuration",
    "oci:Core/clusterNetwork:ClusterNetwork": "core.cluster_network",
    "oci:Core/consoleHistory:ConsoleHistory": "core.console_history",
    "oci:Identity/dynamicGroup:DynamicGroup": "identity.dynamic_group",
    "oci:Identity/policy:Policy": "identity.policy",
}
"""Type token -> the module of pulumi_oci that defines it."""


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
    """One input property. `type` is str, int, float, bool, a ListOf, a MapOf, or an Args class."""

    name: str
    type: Any
    required: bool
    updatable: bool


def args_class(token: str) -> type:
    """The SDK's Args class of a resource type.

    Raises:
        KeyError: the token is none that this cloud serves.
    """
    module = importlib.import_module(f"pulumi_oci.{MODULES[token]}")
    found: type = getattr(module, f"{token.rpartition(':')[2]}Args")
    return found


@cache
def fields(args: type) -> Mapping[str, Field]:
    """The input properties of an Args class, by their names on the wire."""
    names = sdk_types.input_type_py_to_pulumi_names(args)
    wire_types = sdk_types.input_type_types(args)
    parameters = inspect.signature(args.__init__).parameters  # type: ignore[misc]
    return {
        wire: Field(
            name=wire,
            type=_plain(wire_types[wire]),
            required=parameters[python].default is inspect.Parameter.empty,
            # The vendor's documentation marks each property which an update may change.
            updatable=(getattr(args, python).__doc__ or "").lstrip().startswith("(Updatable)"),
        )
        for python, wire in names.items()
    }


@cache
def output_names(token: str) -> frozenset[str]:
    """All properties that a resource of this type has once it exists."""
    module = importlib.import_module(f"pulumi_oci.{MODULES[token]}")
    resource = getattr(module, token.rpartition(":")[2])
    return frozenset(sdk_types.resource_py_to_pulumi_names(resource).values())


def is_object(kind: Any) -> bool:
    """Whether a field's type is a nested Args class."""
    return isinstance(kind, type) and sdk_types.is_input_type(kind)


def _plain(annotation: Any) -> Any:
    """An SDK annotation without Input, Awaitable and Optional around it."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return _plain(typing.get_args(annotation)[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return MapOf(_plain(typing.get_args(annotation)[1]))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return ListOf(_plain(typing.get_args(annotation)[0]))
    return annotation
