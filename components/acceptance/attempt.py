"""Counts the attempts at a measurement that the head node refused, so that the next update asks it again."""

from __future__ import annotations

from typing import Any

import pulumi


def attempt(name: str, opts: pulumi.ResourceOptions) -> pulumi.Output[int]:
    """Return the number of this attempt, from 0: one more than the last one's if that was refused.

    A refusal is a result that the state keeps, and to the engine nothing changed since. So the stack reads its own outputs,
    as they were before this update.
    """
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    return pulumi.StackReference(name, stack_name=stack, opts=opts).get_output("measured").apply(_number)


def _number(measured: Any) -> int:
    found = measured if isinstance(measured, dict) else {}
    return int(found.get("attempt", 0)) + bool(found.get("refused"))
