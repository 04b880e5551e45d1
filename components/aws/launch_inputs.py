"""Launch settings of machines on AWS: network, groups, profile, image, file systems and root volume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pulumi

from cloudinit.aws import Mounts
from components.engine_state import this_stack
from config.aws.model import Aws, Volume

#: Tag of the stack's resources except login nodes and Capacity Blocks. Its value is the stack's unique name; on machines that
#: Slurm started, `/slurm` follows the name.
STACK_TAG = "busbar:stack"
#: Tag of a login node; its value is the stack's unique name, with `/1`, `/2` ... on further login nodes. A login node has no
#: STACK_TAG, so that nobody counts the login node as a node.
LOGIN_TAG = "busbar:login-of"


def stack_tags(wanted: Aws, noun: str) -> dict[str, str]:
    """Return the tags of the resource `noun`; they identify the resource in an account with several stacks."""
    return wanted.named(noun) | {STACK_TAG: this_stack()}


def slurms_stack() -> str:
    """Return the value of `STACK_TAG` on machines that Slurm launches.

    The tag has another value on the stack's own machines; otherwise a preview would count Slurm's machines as the stack's.
    """
    return f"{this_stack()}/slurm"


@dataclass(frozen=True, kw_only=True)
class LaunchInputs:
    """Launch settings that are common to machines of one kind.

    Attributes:
        subnet_id: the machines' subnet.
        group_id: the machines' security group.
        profile: the machines' instance profile.
        image: id of the machines' image.
        mounts: the file systems that the machines mount.
        controller_key: public SSH key of Slurm's controller, which sets machines up over SSH; None without Slurm.
        parameter: name of the SSM parameter to which a login node writes its host key; empty for nodes.
    """

    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    profile: pulumi.Input[str]
    image: str
    mounts: pulumi.Input[Mounts]
    parameter: pulumi.Input[str] = ""
    controller_key: pulumi.Output[str] | None = None


def gp3(root: Volume) -> dict[str, Any]:
    """Return the arguments that describe `root` as a gp3 volume."""
    return {"volume_type": "gp3", "volume_size": root.size_gib, "iops": root.iops, "throughput": root.throughput_mib_s}
