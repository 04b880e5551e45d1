"""What dpkg knows on the vendors' Ubuntu images: packages that are installed, and names that are only known from relations.

Sources: `dpkg -l` of Ubuntu 22.04 on EC2, whose rows `un` are names that an installed package provides, recommends or conflicts
with; AWS's release notes of "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04)" (kernels, dkms) and of the same for
24.04 of 2026-10-08. The kernel is newer than any that the FSx repository of jammy has a module for (6.8.0-1063, listed in
September 2026).
"""

from __future__ import annotations

#: The kernel's packages, by vendor and release of Ubuntu: flavour and release.
KERNELS = {
    ("amazon", "22.04"): ("aws", "6.8.0-1066"),
    ("amazon", "24.04"): ("aws", "7.0.0-1014"),
    ("oracle", "22.04"): ("oracle", "6.8.0-1039"),
    ("oracle", "24.04"): ("oracle", "6.8.0-1039"),
}
_FOLDERS = ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial")


def texts(vendor: str, ubuntu: str) -> dict[str, tuple[str, int]]:
    """Return dpkg's and apt's files; apt has no lists yet, as on any fresh cloud image."""
    made = {f"{folder}/.keep": ("", 0o644) for folder in (*_FOLDERS, "var/cache/apt/archives/partial")}
    made |= {"var/lib/dpkg/available": ("", 0o644), "etc/apt/sources.list.d/.keep": ("", 0o644)}
    return made | {"var/lib/dpkg/status": ("\n".join(_status(ubuntu, *KERNELS[vendor, ubuntu])), 0o644)}


def _status(ubuntu: str, flavour: str, release: str) -> list[str]:
    abi, version = f"{release}-{flavour}", f"{release.replace('-', '.')}.68~{ubuntu}.1"
    rows = {
        f"linux-image-{abi}": {"Provides": "linux-image", "Conflicts": f"linux-image-unsigned-{abi}"},
        f"linux-headers-{abi}": {"Provides": "linux-headers, linux-headers-3.0"},
        f"linux-modules-{abi}": {},
        f"linux-{flavour}": {"Depends": f"linux-image-{abi}, linux-headers-{abi}"},
        f"linux-image-{flavour}": {"Depends": f"linux-image-{abi}"},
        "dkms": {
            "Depends": f"linux-headers-{abi}",
            "Recommends": "linux-headers-686-pae | linux-headers-amd64 | linux-headers-generic | linux-headers",
        },
        "unattended-upgrades": {},
        "base-files": {"Essential": "yes"},
    }
    return [_stanza(name, version, fields) for name, fields in rows.items()]


def _stanza(name: str, version: str, fields: dict[str, str]) -> str:
    own = {"Package": name, "Status": "install ok installed", "Priority": "optional", "Section": "kernel"}
    own |= {"Maintainer": "Ubuntu Kernel Team <kernel-team@lists.ubuntu.com>", "Architecture": "amd64", "Version": version}
    return "".join(f"{key}: {value}\n" for key, value in (own | fields | {"Description": name}).items())
