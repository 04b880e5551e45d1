"""Finds instances by tags; instances that are terminated or terminating are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pulumi
from pulumi_aws import _utilities, ec2

from components.left_behind import LeftBehind

#: The permission that a search for machines by tag needs.
RIGHT = "ec2:DescribeInstances"
#: States of an instance that is billed or can be started again.
ALIVE = ("pending", "running", "stopping", "stopped")


async def tagged(tags: Mapping[str, str], kind: str | None = None) -> list[LeftBehind]:
    """Return the instances that have all of `tags` and are neither terminated nor terminating; if `kind`, only of that type."""
    filters = [{"name": f"tag:{tag}", "values": [value]} for tag, value in tags.items()]
    if kind is not None:
        filters.append({"name": "instance-type", "values": [kind]})
    given = {"filters": filters, "instanceStateNames": list(ALIVE)}
    found = await asked("ec2/getInstances:getInstances", given, ec2.GetInstancesResult)
    ids = zip(found.ids, found.private_ips, strict=False) if found else ()
    return [LeftBehind(name, f"{name} ({address})") for name, address in ids]


async def asked(function: str, given: Mapping[str, Any], result: type) -> Any:
    """Call a function of the SDK, such as `ec2/getInstances:getInstances`, with `given`; return its `result`."""
    # A failed output ends the program with a traceback, even if its error was caught. So this function awaits the look-up, not
    # an output.
    return await pulumi.runtime.invoke_async(f"aws:{function}", given, _utilities.get_invoke_opts_defaults(), result)
