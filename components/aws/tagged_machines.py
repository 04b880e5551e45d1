"""Instances that carry given tags and are neither terminated nor terminating."""

from __future__ import annotations

from collections.abc import Mapping

from pulumi_aws import ec2

from components.left_behind import LeftBehind

#: States of an instance that is billed, or may be again.
ALIVE = ("pending", "running", "stopping", "stopped")


async def tagged(tags: Mapping[str, str]) -> list[LeftBehind]:
    """Return the instances that have all of these tags and are alive."""
    filters = [ec2.GetInstancesFilterArgs(name=f"tag:{tag}", values=[value]) for tag, value in tags.items()]
    found = await ec2.get_instances_output(filters=filters, instance_state_names=list(ALIVE)).future()
    ids = zip(found.ids, found.private_ips, strict=False) if found else ()
    return [LeftBehind(name, f"{name} ({address})") for name, address in ids]
