"""First-boot text rendered from data: a dict in, `#cloud-config` out.

Pure. It deliberately holds no key, no secret and no address of a particular machine, so that every node boots from one text.
"""

from __future__ import annotations

from cloudinit.mounts import Mount
from cloudinit.render import BastionBoot, NodeBoot, render

__all__ = ["BastionBoot", "Mount", "NodeBoot", "render"]
