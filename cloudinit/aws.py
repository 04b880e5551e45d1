"""Renders the user data for first boots on AWS: for login nodes, which publish their host keys, and for nodes.

The text contains no secret, only public keys and file system names. A machine whose boot failed keeps running, so that
first contact (the stage `ready`) can read which step failed.
"""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from catalogue.aws import MachineImage, Stack
from cloudinit import aws_steps, custom_steps, enroot, slurm_steps, steps
from cloudinit.custom_steps import Actions
from cloudinit.mounts import UNPRIVILEGED, nfs_client, tools
from cloudinit.slurm_steps import Slurm
from cloudinit.text import SCRIPT, cloud_config, script_file

#: EC2's limit on user-data before base64 (EC2 user guide, "Run commands when you launch an EC2 instance").
USER_DATA_BYTES = 16_384
#: A gzip header: deflate, no name, no time, best compression, unknown system.
_GZIP = b"\x1f\x8b\x08\0\0\0\0\0\x02\xff"
#: Mount point of a node's own disks.
SCRATCH = "/scratch"


@dataclass(frozen=True, kw_only=True)
class Mounts:
    """File systems to mount.

    Attributes:
        lustre: DNS name and mount name of a Lustre file system, None if there is none; it is mounted at `lustre_at`.
        lustre_key: fingerprint of the key that signs FSx's packages for Ubuntu; if empty, AWS's key is not checked.
        lustre_efa: sha256 of AWS's archive that sets Lustre up over EFA. Without this archive, or on a machine without EFA
            devices, Lustre is mounted over TCP.
        home: DNS name of an OpenZFS file system, empty if there is none; it is mounted at `home_at`.
        login_home: whether the login user's home is a folder of `home`, the same folder on all machines.
        options: mount options for all file systems, in addition to the options of each kind.
    """

    lustre: tuple[str, str] | None = None
    lustre_at: str = ""
    lustre_key: str = ""
    lustre_efa: str = ""
    home: str = ""
    home_at: str = ""
    login_home: bool = False
    options: str = ""


@dataclass(frozen=True, kw_only=True)
class LoginBoot:
    """A login node's first boot.

    Attributes:
        image: the kind of the login node's machine image.
        timezone: name from the tz database.
        keys: public keys that may log in.
        mounts: the file systems to mount.
        region: the AWS region that has the SSM parameter.
        parameter: name of the SSM parameter for the login node's public host key.
        slurm: the Slurm software to install; None installs nothing.
    """

    image: MachineImage
    timezone: str
    keys: tuple[str, ...]
    mounts: Mounts
    region: str
    parameter: str
    slurm: Slurm | None = None


@dataclass(frozen=True, kw_only=True)
class ComputeBoot:
    """A node's first boot.

    Attributes:
        image: the kind of the node's machine image.
        timezone: name from the tz database.
        keys: public keys that may log in.
        mounts: the file systems to mount.
        efa: number of EFA devices that must exist; 0 skips the check.
        stack: the EFA software to install if the image has no EFA software, or an outdated version.
        enroot: version of enroot to install if the image has no enroot; empty if ranks do not run in a container.
        enroot_sha256: sha256 checksums that enroot's packages may have; if empty, nothing is compared.
        slurm: the Slurm software to install; None installs nothing.
        actions: the user's own scripts; None if there are none.
    """

    image: MachineImage
    timezone: str
    keys: tuple[str, ...]
    mounts: Mounts
    efa: int
    stack: Stack
    enroot: str = ""
    enroot_sha256: tuple[str, ...] = ()
    slurm: Slurm | None = None
    actions: Actions | None = None


class UserData(NamedTuple):
    """A machine's user data: its `text`, and the base64 that EC2 gets. `text` is None if the user data had to be compressed."""

    text: str | None
    packed: str


def user_data(boot: LoginBoot | ComputeBoot) -> UserData:
    """Return the cloud-config of `boot`, compressed if it is too long (cloud-init, "User data formats", gzip).

    Raises:
        ValueError: the cloud-config is longer than EC2 accepts, even if it is compressed.
    """
    text = render(boot)
    plain = text.encode()
    fits = len(plain) <= USER_DATA_BYTES
    data = plain if fits else _gzipped(plain)
    if len(data) > USER_DATA_BYTES:
        msg = (
            f"the text of the first boot is {len(data)} bytes long, even compressed; EC2 accepts at most {USER_DATA_BYTES}: "
            "use fewer or shorter keys, custom scripts or arguments"
        )
        raise ValueError(msg)
    return UserData(text if fits else None, base64.b64encode(data).decode())


def _gzipped(data: bytes) -> bytes:
    """Return `data` as a gzip file (RFC 1952) whose header has no time and does not depend on the Python version.

    A change of the user data would replace the login node, and different Python versions write different headers.
    """
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(data) + deflate.flush()
    return _GZIP + body + struct.pack("<II", zlib.crc32(data), len(data))


def render(boot: LoginBoot | ComputeBoot) -> str:
    """Return the cloud-config text of `boot`."""
    if boot.slurm:
        boot = replace(boot, mounts=replace(boot.mounts, options=UNPRIVILEGED))
    work = _login(boot) if isinstance(boot, LoginBoot) else _node(boot)
    config: dict[str, Any] = {
        "timezone": boot.timezone,
        "ssh_authorized_keys": list(boot.keys),
        "write_files": [steps.LIMITS_FILE, script_file(steps.script(work))],
        "runcmd": [[SCRIPT]],
    }
    return cloud_config(config)


def _login(boot: LoginBoot) -> list[steps.Step]:
    # The host key is published first, so that the log of every later failure can be read. The login node is not measured, so it
    # announces that it is ready before it mounts file systems, and no mount makes its boot fail. One mount is an exception: a
    # Slurm controller needs the home folders before it can run jobs.
    first = [*_home(boot.image, boot.mounts), *_slurm(boot)] if boot.slurm else []
    last = _lustre(boot.image, boot.mounts) if boot.slurm else _mounts(boot.image, boot.mounts)
    return [
        tools(),
        aws_steps.publish_host_key(boot.region, boot.parameter),
        steps.sshd_for_bursts(),
        *first,
        steps.announce(),
        *(replace(step, precaution=True) for step in last),
    ]


def _node(boot: ComputeBoot) -> list[steps.Step]:
    software = aws_steps.efa_software(boot.stack, in_use=not boot.enroot)
    fabric = [software, aws_steps.efa_devices(boot.efa, boot.image.libraries)] if boot.efa else []
    work = [
        tools(),
        aws_steps.shared_memory(),
        *fabric,
        aws_steps.scratch(boot.image),
        *([enroot.enroot(boot.image.packages, boot.enroot, SCRATCH, boot.enroot_sha256)] if boot.enroot else []),
        *_mounts(boot.image, boot.mounts, efa=boot.efa > 0),
        *_slurm(boot),
        steps.sshd_for_bursts(),
        aws_steps.reload_sshd(),
    ]
    return custom_steps.around(work, boot.actions)


def _mounts(image: MachineImage, mounts: Mounts, *, efa: bool = False) -> list[steps.Step]:
    return [*_home(image, mounts), *_lustre(image, mounts, efa=efa)]


def _home(image: MachineImage, mounts: Mounts) -> list[steps.Step]:
    if not mounts.home:
        return []
    its = aws_steps.home(image.login, mounts.home, mounts.home_at, mounts.options, shared=mounts.login_home)
    return [nfs_client(image.packages), its]


def _slurm(boot: LoginBoot | ComputeBoot) -> list[steps.Step]:
    homes = [boot.mounts.home_at] if boot.mounts.home and not boot.mounts.login_home else []
    return slurm_steps.install(boot.image.packages, boot.image.login, homes, boot.slurm)


def _lustre(image: MachineImage, mounts: Mounts, *, efa: bool = False) -> list[steps.Step]:
    if not mounts.lustre:
        return []
    work = [aws_steps.keep_kernel(image), aws_steps.lustre_client(image, mounts.lustre_key)]
    over_efa = mounts.lustre_efa if efa else ""
    work += [aws_steps.lustre_over_efa(over_efa)] if over_efa else [aws_steps.lustre_over_front_end()]
    return [
        *work,
        aws_steps.lustre(*mounts.lustre, mounts.lustre_at, mounts.options),
        aws_steps.lustre_tuning(mounts.lustre_at),
    ]
