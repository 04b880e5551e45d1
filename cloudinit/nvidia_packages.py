"""Packages of NVIDIA's repository for containers, whose signed metadata dnf checks, as in the vendor's own repository file.

Source: NVIDIA Container Toolkit, install guide.
"""

from __future__ import annotations

_PLACE = "https://nvidia.github.io/libnvidia-container"


def installs(command: str, package: str) -> str:
    """Return the shell that installs `package` with dnf unless the machine has `command`."""
    return f"""if ! command -v {command} > /dev/null; then
  cat > /etc/yum.repos.d/nvidia-container-toolkit.repo << 'END'
[nvidia-container-toolkit]
name=nvidia-container-toolkit
baseurl={_PLACE}/stable/rpm/$basearch
repo_gpgcheck=1
gpgcheck=0
enabled=1
gpgkey={_PLACE}/gpgkey
sslverify=1
END
  dnf install -y {package}
fi
"""
