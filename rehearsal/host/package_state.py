"""dpkg's database and apt's files on a vendor's Ubuntu image.

The database has the installed packages. If an installed package names another package, for example under Provides, Recommends
or Conflicts, `dpkg -l` with a pattern also lists that other package, in state `un` (not installed).
"""

from __future__ import annotations

from rehearsal.image import signing_keys
from rehearsal.image.apt_repositories import ARCHIVE, SUITES

#: apt's settings on a rehearsed host: it stays root, opens no pseudo-terminal, and asks for no SRV records or translations.
_APT = """APT::Sandbox::User "root";
Dpkg::Use-Pty "false";
Acquire::EnableSrvRecords "false";
Acquire::Languages "none";
"""
_FOLDERS = (
    *("etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/auth.conf.d", "etc/apt/trusted.gpg.d", "var/log/apt"),
    *("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial"),
)


def texts(ubuntu: str, kernel: str) -> dict[str, tuple[str, int]]:
    """Return dpkg's and apt's files for an Ubuntu release and a kernel release; apt has no lists yet, as on a new image."""
    made = {f"{folder}/.keep": ("", 0o644) for folder in (*_FOLDERS, "var/cache/apt/archives/partial")}
    source = f"deb http://{ARCHIVE}/ubuntu {SUITES[ubuntu]} main\n"
    made |= {"var/lib/dpkg/available": ("", 0o644), "etc/apt/sources.list": (source, 0o644)}
    made |= {"etc/apt/apt.conf.d/90rehearsal": (_APT, 0o644)}
    made |= {"etc/apt/trusted.gpg.d/ubuntu-keyring-archive.asc": (signing_keys.UBUNTU, 0o644)}
    return made | {"var/lib/dpkg/status": ("\n".join(_status(ubuntu, kernel)), 0o644)}


def _status(ubuntu: str, abi: str) -> list[str]:
    release, _, flavour = abi.rpartition("-")
    version = f"{release.replace('-', '.')}.68~{ubuntu}.1"
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
