"""What machines on AWS are launched with: network, groups, profile, image, file systems and disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from cloudinit.aws import Mounts
from components.left_behind import this_stack
from config.aws.model import Aws, Volume

#: Tag of everything but the login node: which stack's it is.
STACK_TAG = "busbar:stack"
#: Tag of a login node, which is none of the nodes: which stack's it is.
LOGIN_TAG = "busbar:login-of"


def stack_tags(wanted: Aws, noun: str) -> dict[str, str]:
    """Return the tags of what the stack makes as `noun`: by them it is known again in an account of several stacks."""
    return wanted.named(noun) | {STACK_TAG: this_stack()}


@dataclass(frozen=True, kw_only=True)
class LaunchInputs:
    """What machines of one kind are launched into.

    Attributes:
        subnet_id: their subnet.
        group_id: their security group.
        profile: their instance profile.
        image: id of their image.
        mounts: their file systems.
        controller_key: public key of Slurm's controller, which makes dynamic nodes members; None without Slurm.
        parameter: name of the SSM parameter in which they publish their host key; empty for nodes.
    """

    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    profile: pulumi.Input[str]
    image: str
    mounts: pulumi.Input[Mounts]
    parameter: pulumi.Input[str] = ""
    controller_key: pulumi.Output[str] | None = None


def gp3(root: Volume) -> dict[str, Any]:
    """Return a root volume as every machine of EC2 takes it."""
    return {"volume_type": "gp3", "volume_size": root.size_gib, "iops": root.iops, "throughput": root.throughput_mib_s}
