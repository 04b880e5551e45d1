"""Instances that carry given tags and are neither terminated nor terminating."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi
from pulumi_aws import _utilities, ec2

from components.left_behind import LeftBehind

#: What it takes to look for machines by tag.
RIGHT = "ec2:DescribeInstances"
#: States of an instance that is billed, or may be again.
ALIVE = ("pending", "running", "stopping", "stopped")


async def tagged(tags: Mapping[str, str]) -> list[LeftBehind]:
    """Return the instances that have all of these tags and are alive."""
    filters = [{"name": f"tag:{tag}", "values": [value]} for tag, value in tags.items()]
    # An output that fails ends the program with a traceback, whoever has caught its error; so this awaits the call itself.
    found = await pulumi.runtime.invoke_async(
        "aws:ec2/getInstances:getInstances",
        {"filters": filters, "instanceStateNames": list(ALIVE)},
        _utilities.get_invoke_opts_defaults(),
        ec2.GetInstancesResult,
    )
    ids = zip(found.ids, found.private_ips, strict=False) if found else ()
    return [LeftBehind(name, f"{name} ({address})") for name, address in ids]
