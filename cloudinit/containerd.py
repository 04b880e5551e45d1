"""The steps of a first boot that install containerd and give its containers access to the GPUs.

Each step is safe to run twice.

Every download is checked. nerdctl's archive is compared with the release's file SHA256SUMS, and SHA256SUMS is compared with the
sha256 in the release's notes. NVIDIA's package is checked by its repository's signed metadata, and the key that signs the
metadata is checked by the key's fingerprint.
Sources: containerd/nerdctl v2.2.0 (release notes); ocitutorials, tech-knowhow/container-with-containerd (the versions, and the
folders on the local disks); NVIDIA Container Toolkit, install guide and CDI support ("The hook and dependencies are not needed
on machines that use CDI exclusively").
"""

from __future__ import annotations

from dataclasses import dataclass

from cloudinit import downloads, nvidia_packages
from cloudinit.steps import Step

_RELEASES = "https://github.com/containerd/nerdctl/releases/download"
_DOWNLOADS = "/var/tmp/busbar-containerd"  # noqa: S108 - root's downloads at first boot, before the cluster's users can log in


@dataclass(frozen=True)
class Containerd:
    """The versions to install.

    Attributes:
        nerdctl: version of nerdctl's full distribution, which contains containerd.
        sums: sha256 of that release's SHA256SUMS.
        toolkit: version of NVIDIA Container Toolkit.
        toolkit_key: fingerprint of the key that signs the toolkit's repository.
    """

    nerdctl: str
    sums: str
    toolkit: str
    toolkit_key: str


def install(wanted: Containerd) -> list[Step]:
    """Return the steps that install and start containerd, and describe the GPUs to containerd."""
    return [containerd(wanted.nerdctl, wanted.sums), gpus(wanted.toolkit, wanted.toolkit_key)]


def containerd(version: str, sums: str) -> Step:
    """Install containerd, runc and nerdctl unless the machine has them; keep images on the local disks; start containerd."""
    archive = f"nerdctl-full-{version}-linux-amd64.tar.gz"
    return Step(
        "containerd",
        f"""
if [ ! -x /usr/local/bin/nerdctl ]; then
  mkdir -p {_DOWNLOADS}
  (
    cd {_DOWNLOADS}
    {downloads.checked(f"{_RELEASES}/v{version}/SHA256SUMS", "SHA256SUMS", (sums,))}
    curl -fsSL --retry 5 -o {archive} {_RELEASES}/v{version}/{archive}
    grep ' {archive}$' SHA256SUMS | sha256sum --check --strict -
    tar -C /usr/local -xzf {archive}
  )
  rm -r {_DOWNLOADS}
fi
if [ ! -e /etc/containerd/config.toml ] && grep -q ' /mnt/localdisk ' /proc/mounts; then
  mkdir -p /etc/containerd /mnt/localdisk/containerd
  printf 'version = 3\nroot = "/mnt/localdisk/containerd"\n' > /etc/containerd/config.toml
fi
systemctl daemon-reload
systemctl enable --now containerd
""",
    )


def gpus(version: str, key: str) -> Step:
    """Install the part of NVIDIA Container Toolkit that describes GPUs, and write the CDI specification of this machine."""
    install = nvidia_packages.installs("dnf", "nvidia-ctk", version, ("nvidia-container-toolkit-base",), key)
    return Step(
        "container-gpus",
        f"""
{install}nvidia-ctk system create-device-nodes --control-devices --load-kernel-modules
mkdir -p /etc/cdi
nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml
""",
    )
