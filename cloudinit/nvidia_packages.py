"""Installs packages for containers from NVIDIA's repository.

apt and dnf check the signature of the repository's metadata; NVIDIA's own repository files configure the same check.

Source: NVIDIA Container Toolkit, install guide ("With apt", "With dnf").
"""

from __future__ import annotations

from cloudinit import downloads, mounts

_PLACE = "https://nvidia.github.io/libnvidia-container"
_KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit"
_RING = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
_FETCHED = "/run/nvidia-container-toolkit.asc"


def installs(manager: str, command: str, version: str, packages: tuple[str, ...], key: str) -> str:
    """Return shell text that installs packages, but only if the program `command` is missing on the machine.

    Args:
        manager: `apt` (an earlier step must define the shell function `lists`) or `dnf`.
        command: the program that the packages install.
        version: version of all `packages`.
        packages: the packages to install, including the dependencies that must have the same version.
        key: fingerprint of the key that signs the repository.
    """
    work = _by_apt(version, packages, key) if manager == "apt" else _by_dnf(version, packages, key)
    return f"if ! command -v {command} > /dev/null; then\n{work}fi\n"


def _by_apt(version: str, packages: tuple[str, ...], key: str) -> str:
    names = " ".join(f"{one}={version}-1" for one in packages)
    return f"""  {downloads.signing_key(f"{_PLACE}/gpgkey", _FETCHED, key)}
  gpg --batch --yes --dearmor -o {_RING} {_FETCHED}
  echo "deb [signed-by={_RING}] {_PLACE}/stable/deb/\\$(ARCH) /" > /etc/apt/sources.list.d/nvidia-container-toolkit.list
  lists
  {mounts.install("apt", names)}
"""


def _by_dnf(version: str, packages: tuple[str, ...], key: str) -> str:
    names = " ".join(f"{one}-{version}-1" for one in packages)
    return f"""  mkdir -p /etc/pki/rpm-gpg
  {downloads.signing_key(f"{_PLACE}/gpgkey", _KEY, key)}
  cat > /etc/yum.repos.d/nvidia-container-toolkit.repo << 'END'
[nvidia-container-toolkit]
name=nvidia-container-toolkit
baseurl={_PLACE}/stable/rpm/$basearch
repo_gpgcheck=1
gpgcheck=0
enabled=1
gpgkey=file://{_KEY}
sslverify=1
END
  dnf install -y {names}
"""
