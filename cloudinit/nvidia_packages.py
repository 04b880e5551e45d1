"""Packages of NVIDIA's repository for containers, whose signed metadata dnf checks, as in the vendor's own repository file.

Source: NVIDIA Container Toolkit, install guide.
"""

from __future__ import annotations

from textwrap import indent

from cloudinit import downloads

_PLACE = "https://nvidia.github.io/libnvidia-container"
_KEY = "/etc/pki/rpm-gpg/RPM-GPG-KEY-nvidia-container-toolkit"


def installs(command: str, package: str, key: str) -> str:
    """Return the shell that installs `package` with dnf unless the machine has `command`; `key` is the signer's fingerprint."""
    return f"""if ! command -v {command} > /dev/null; then
  mkdir -p /etc/pki/rpm-gpg
{indent(downloads.signing_key(f"{_PLACE}/gpgkey", _KEY, key), "  ")}
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
  dnf install -y {package}
fi
"""
