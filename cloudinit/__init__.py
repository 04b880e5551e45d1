"""Renders the first boot of machines as `#cloud-config` text; all nodes of a pool boot from one text without secrets."""

from __future__ import annotations

from cloudinit.containerd import Containerd
from cloudinit.mounts import Mount
from cloudinit.pyxis import Pyxis
from cloudinit.render import LoginBoot, NodeBoot, render
from cloudinit.slurm_steps import Containers, Slurm

__all__ = ["Containerd", "Containers", "LoginBoot", "Mount", "NodeBoot", "Pyxis", "Slurm", "render"]
