"""What the machines of a cluster need from its network, groups, roles and file systems."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from cloudinit.aws import Mounts


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What machines of one kind are launched into.

    Attributes:
        subnet_id: their subnet.
        group_id: their security group.
        profile: their instance profile.
        image: id of their image.
        mounts: their file systems.
        parameter: name of the SSM parameter in which they publish their host key; empty for nodes.
    """

    subnet_id: pulumi.Input[str]
    group_id: pulumi.Input[str]
    profile: pulumi.Input[str]
    image: str
    mounts: pulumi.Input[Mounts]
    parameter: pulumi.Input[str] = ""
