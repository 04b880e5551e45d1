"""The steps of a first boot that install enroot and give enroot's containers access to the GPUs, on any cloud.

Source: enroot 4.1 (doc/installation.md, doc/configuration.md, doc/standard-hooks.md).
"""

from __future__ import annotations

from cloudinit import downloads, mounts, nvidia_packages
from cloudinit.steps import Step

_RELEASES = "https://github.com/NVIDIA/enroot/releases/download"
_PACKAGES = ("enroot", "enroot+caps")


def enroot(manager: str, version: str, scratch: str, sums: tuple[str, ...] = ()) -> Step:
    """Install enroot if the machine has none, and keep unpacked images on the machine's own disks, mounted at `scratch`.

    Enroot's default folders do not work: an overlay cannot be on Lustre, and /run/user is deleted with the user's session. A
    machine image that has enroot keeps its own settings. The `+caps` package lets users who are not root import images. `sums`
    are the sha256 checksums that enroot's packages may have. The vendor publishes no checksums, so without `sums` nothing is
    compared.
    """
    if manager == "apt":
        kind, arch, name, lists = "deb", "dpkg --print-architecture", f"_{version}-1_$arch.deb", "lists\n  "
    else:
        kind, arch, name, lists = "rpm", "uname -m", f"-{version}-1.el8.$arch.rpm", ""
    fetch = downloads.checked(f'"{_RELEASES}/v{version}/${{package}}{name}"', f'"{downloads.FOLDER}/$package.{kind}"', sums)
    return Step(
        "enroot",
        f"""
if ! command -v enroot > /dev/null; then
  arch=$({arch})
  for package in {" ".join(_PACKAGES)}; do
    {fetch}
  done
  {lists}{mounts.install(manager, " ".join(f"{downloads.FOLDER}/{package}.{kind}" for package in _PACKAGES))}
  disk=/var/lib/enroot
  if [ -d {scratch}/ ]; then disk=$(readlink -f {scratch})/enroot; fi
  mkdir -p "$disk/cache" "$disk/data" "$disk/tmp" /run/enroot /etc/enroot/enroot.conf.d /etc/tmpfiles.d
  chmod 1777 "$disk/cache" "$disk/data" "$disk/tmp" /run/enroot
  echo 'd /run/enroot 1777 root root' > /etc/tmpfiles.d/busbar-enroot.conf
  cat > /etc/enroot/enroot.conf.d/busbar.conf << END
ENROOT_RUNTIME_PATH /run/enroot/user-\\$(id -u)
ENROOT_CACHE_PATH $disk/cache/user-\\$(id -u)
ENROOT_DATA_PATH $disk/data/user-\\$(id -u)
ENROOT_TEMP_PATH $disk/tmp
END
fi
""",
    )


def gpus(manager: str, version: str, key: str) -> Step:
    """Install nvidia-container-cli if the machine image lacks it: enroot's hook needs it to give containers access to the GPUs.

    `version` is the version of NVIDIA Container Toolkit, which all packages of the toolkit share, and `key` is the fingerprint
    of the key that signs these packages.
    """
    tools, library = "libnvidia-container-tools", "libnvidia-container1"
    packages = (tools, library) if manager == "apt" else (tools,)  # dnf installs the library of the same version by itself
    return Step("container-gpus", nvidia_packages.installs(manager, "nvidia-container-cli", version, packages, key))
