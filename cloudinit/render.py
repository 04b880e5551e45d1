"""Renders the cloud-config for first boots on OCI: for the login node and for the GPU nodes.

One script runs all steps and records in `/var/lib/busbar/boot.json` which step failed, or that all succeeded. cloud-init
itself would continue after a failed `runcmd` line and report the boot as a success.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from catalogue import ImageFamily, Shape
from cloudinit import containerd, custom_steps, oci_steps, slurm_steps, steps
from cloudinit.containerd import Containerd
from cloudinit.custom_steps import Actions
from cloudinit.mounts import UNPRIVILEGED, Mount
from cloudinit.slurm_steps import Slurm
from cloudinit.text import SCRIPT, cloud_config, script_file


@dataclass(frozen=True)
class LoginBoot:
    """A login node's first boot.

    Attributes:
        image: the login node's operating system.
        timezone: name from the tz database, such as Asia/Tokyo.
        search_domain: DNS domain of the nodes' subnet; with it, the nodes' bare host names resolve.
        trusted_cidrs: networks from which the machine's own firewall accepts all traffic; if empty, the firewall is unchanged.
        mounts: file systems to mount.
        slurm: the Slurm software to install; None installs nothing.
    """

    image: ImageFamily
    timezone: str
    search_domain: str
    trusted_cidrs: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    slurm: Slurm | None = None


@dataclass(frozen=True)
class NodeBoot:
    """A GPU node's first boot.

    Attributes:
        image: the node's operating system.
        shape: the node's shape, which tells its disks and rails.
        timezone: name from the tz database.
        search_domain: DNS domain of the nodes' subnet.
        trusted_cidrs: the nodes' networks, from which the machine's own firewall accepts all traffic.
        mounts: file systems to mount.
        containerd: the versions of containerd to install; None installs nothing.
        slurm: the Slurm software to install; None installs nothing.
        actions: scripts of the user's own; None if there are none.
    """

    image: ImageFamily
    shape: Shape
    timezone: str
    search_domain: str
    trusted_cidrs: tuple[str, ...]
    mounts: tuple[Mount, ...] = ()
    containerd: Containerd | None = None
    slurm: Slurm | None = None
    actions: Actions | None = None


def render(boot: LoginBoot | NodeBoot) -> str:
    """Return the cloud-config text of `boot`."""
    config = _login(boot) if isinstance(boot, LoginBoot) else _node(boot)
    return cloud_config(config)


def _login(boot: LoginBoot) -> dict[str, Any]:
    work = [
        steps.host_key_on_console(),
        steps.search_domain(boot.search_domain),
        steps.sshd_for_bursts(),
        *([steps.trust(boot.image.firewall, boot.trusted_cidrs)] if boot.trusted_cidrs else []),
        *oci_steps.file_systems(boot.image, _shares(boot)),
        *_slurm(boot),
        steps.announce(),
    ]
    return _config(boot.timezone, [], work)


def _node(boot: NodeBoot) -> dict[str, Any]:
    image, shape = boot.image, boot.shape
    work = [
        *([steps.grow_root(image.grow_root)] if image.grow_root else []),
        steps.search_domain(boot.search_domain),
        steps.trust(image.firewall, boot.trusted_cidrs),
        *([steps.scratch()] if shape.nvme else []),
    ]
    if shape.rdma is not None and shape.gpu.startswith(("NVIDIA", "Tesla")):
        work.append(oci_steps.gpudirect())
    if image.rdma == "ifcfg" and shape.rdma is not None:
        work.append(steps.rails(image.front_nic, shape.rdma.el7_netdevs))
    work += oci_steps.file_systems(image, _shares(boot))
    work += containerd.install(boot.containerd) if boot.containerd else []
    work += _slurm(boot)
    config = _config(boot.timezone, [steps.LIMITS_FILE], custom_steps.around(work, boot.actions))
    if image.nccl_packages:
        config |= steps.nccl_packages(image)
    return config


def _shares(boot: LoginBoot | NodeBoot) -> tuple[Mount, ...]:
    more = UNPRIVILEGED if boot.slurm else ""
    return tuple(replace(share, options=share.options + more) for share in boot.mounts)


def _slurm(boot: LoginBoot | NodeBoot) -> list[steps.Step]:
    homes = [share.at for share in boot.mounts if share.kind == "nfs" and not share.login_home]
    return slurm_steps.install(boot.image.packages, boot.image.login, homes, boot.slurm)


def _config(timezone: str, files: list[dict[str, Any]], work: list[steps.Step]) -> dict[str, Any]:
    script = script_file(steps.script(work))
    return {"timezone": timezone, "write_files": [*files, script], "runcmd": [[SCRIPT]]}
