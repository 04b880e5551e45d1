"""Delays an output until other resources exist, although its value does not depend on them."""

from __future__ import annotations

from typing import Any, TypeVar

import pulumi

_T = TypeVar("_T")


def after(value: pulumi.Output[_T], *made: pulumi.Input[Any]) -> pulumi.Output[_T]:
    """Return `value` as an output that is known only once all of `made` is known, so that users of `value` wait for `made`."""
    return pulumi.Output.all(value=value, made=list(made)).apply(lambda its: its["value"])
