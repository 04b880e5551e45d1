"""Files on the rehearsed Internet that hosts download."""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from rehearsal.image import apt_repositories, debian, packages, signing_keys

#: Names of the web servers whose files this module returns.
HOSTS = frozenset(
    {
        *apt_repositories.SIGNERS,
        "efa-installer.amazonaws.com",
        "fsx-lustre-client-repo-public-keys.s3.amazonaws.com",
        "docs.aws.amazon.com",
        "github.com",
        "scripts.example.com",
    }
)

_PACKAGE = re.compile(
    r"github\.com/NVIDIA/enroot/releases/download/v([\d.]+)/(?P<name>enroot(?:\+caps)?)"
    r"(?:_\1-1_(?:amd64|arm64)\.deb|-\1-1\.el8\.(?:x86_64|aarch64)\.rpm)"
)
#: The only version of EFA's installer that can be downloaded. The files that it installs are already on the host, in a folder
#: from which it copies them.
EFA_INSTALLER = "1.43.2"
_INSTALLER = """#!/bin/bash
# The rehearsal's EFA installer knows only -y. It copies files that every rehearsed AWS image already has; a test removes
# them first.
. /usr/lib/rehearsal/record
[ "$*" = -y ] || { echo "efa_installer.sh: the stand-in knows -y only, not: $*" >&2; exit 1; }
[ $UID = 0 ] || { echo "Error: must run as root." >&2; exit 1; }
cp -a /usr/lib/rehearsal/efa/. / && ldconfig && echo "EFA installation complete."
"""
#: Like the vendor's script, this script needs bash: it uses arrays and [[ ]], which dash does not support. It chooses devices
#: as the FSx for Lustre user guide says in "Configuring EFA clients": by default the first and the last device. For
#: GPUDirect Storage it takes all devices, but only eight if there are 16 or 32.
_EFA_LUSTRE = """#!/bin/bash
# The rehearsal's setup of Lustre over EFA: LNet gets the devices, but no Lustre traffic is rehearsed.
declare -a devices=() chosen=()
for one in "$@"; do
  [[ $one == --optimized-for-gds ]] || { echo "setup.sh: unknown option $one" >&2; exit 1; }
done
for device in $(ls -v /sys/class/infiniband); do
  [[ $(readlink "/sys/class/infiniband/$device/device/driver") == */efa ]] && devices+=("$device")
done
[[ ${#devices[@]} -gt 0 ]] || { echo "no EFA device is there" >&2; exit 1; }
step=$(( ${#devices[@]} >= 8 ? ${#devices[@]} / 8 : 1 ))
if [[ $1 == --optimized-for-gds ]]; then
  for (( at = 0; at < ${#devices[@]}; at += step )); do chosen+=("${devices[$at]}"); done
else
  chosen=("${devices[0]}" "${devices[-1]}")
fi
for device in "${chosen[@]}"; do lnetctl net add --net efa --if "$device" || exit 1; done
"""


#: Files of the rehearsed nerdctl release, by path: scripts that start the host's stand-ins, and containerd's systemd unit,
#: which has the path that the release notes name. A stack file contains the sha256 of the
#: release's SHA256SUMS, which has the archive's sha256, so the archive must have the same bytes on every machine.
NERDCTL = {
    "bin/containerd": '#!/bin/sh\nexec /usr/lib/rehearsal/containerd "$@"\n',
    "bin/nerdctl": '#!/bin/sh\nexec /usr/lib/rehearsal/nerdctl "$@"\n',
    "lib/systemd/system/containerd.service": "[Service]\nExecStart=/usr/local/bin/containerd\nType=notify\n",
}
_RELEASE = "github.com/containerd/nerdctl/releases/download/v2.2.0/"
_ARCHIVE = "nerdctl-full-2.2.0-linux-amd64.tar.gz"


def _nerdctl(name: str) -> bytes | None:
    """Return a file of nerdctl's release 2.2.0; None if the release has no such file."""
    archive = _stored(NERDCTL)
    sums = f"{hashlib.sha256(archive).hexdigest()}  {_ARCHIVE}\n".encode()
    return {_ARCHIVE: archive, "SHA256SUMS": sums}.get(name)


#: Address of the source archive of the stand-in for Pyxis 0.24.0. Two stack files contain the archive's checksum.
PYXIS = "github.com/NVIDIA/pyxis/archive/refs/tags/v0.24.0.tar.gz"
_MAKEFILE = """spank_pyxis.so: pyxis.c
\t$(CC) -std=gnu11 -O2 -Wall -fpic -shared -o $@ $<
"""


def pyxis(source: Path) -> bytes:
    """Return the archive with the C file `source`."""
    return _stored({"pyxis-0.24.0/Makefile": _MAKEFILE, "pyxis-0.24.0/pyxis.c": source.read_text()})


def _stored(files: dict[str, str]) -> bytes:
    """Return a .tar.gz that has the same bytes on every machine (RFC 1952).

    The archive is not compressed, because versions of zlib compress differently. Archives above 64 KiB could still differ.
    """
    plain = _tar(files)
    stored = zlib.compressobj(0, zlib.DEFLATED, -zlib.MAX_WBITS)
    ends = zlib.crc32(plain).to_bytes(4, "little") + len(plain).to_bytes(4, "little")
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + stored.compress(plain) + stored.flush() + ends


def served(address: str) -> bytes | None:
    """Return the content at an address, or None; only Ubuntu's archive is served over http."""
    place = urlsplit(address)
    where = f"{place.hostname}{place.path}"
    if place.scheme != ("http" if place.hostname == apt_repositories.ARCHIVE else "https"):
        return None
    if where in _FILES:
        return _FILES[where]()
    return apt_repositories.served(where) or _released(where)


def _released(where: str) -> bytes | None:
    """Return the file of a project's release at the download URL `where`; None if no such file is rehearsed."""
    installer = re.fullmatch(r"efa-installer\.amazonaws\.com/aws-efa-installer-([\d.]+)\.tar\.gz", where)
    if installer:
        return _stored({"aws-efa-installer/efa_installer.sh": _INSTALLER}) if installer[1] == EFA_INSTALLER else None
    if where.startswith(_RELEASE):
        return _nerdctl(where.removeprefix(_RELEASE))
    package = _PACKAGE.fullmatch(where)
    if package and f"{package[1]}-1" == packages.FILES.get(package["name"], {}).get("version"):
        return (
            debian.archive(package["name"], packages.FILES[package["name"]])
            if where.endswith(".deb")
            else package["name"].encode()
        )
    return None


def _tar(files: dict[str, str]) -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.mode, member.size = 0o755, len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return whole.getvalue()


def _zip(files: dict[str, str]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in files.items():
            file.writestr(zipfile.ZipInfo(name), text)
    return packed.getvalue()


#: An example of a user's own script.
NOTE = """#!/bin/bash
# Notes the user who runs this script, and the arguments.
printf '%s\\n' "$(id -un)" "$@" >> /var/lib/note
"""
_FILES: dict[str, Callable[[], bytes]] = {
    "scripts.example.com/note.sh": NOTE.encode,
    PYXIS: lambda: pyxis(debian.LIBRARY / "pyxis.c"),
    "fsx-lustre-client-repo-public-keys.s3.amazonaws.com/fsx-ubuntu-public-key.asc": signing_keys.FSX.encode,
    "nvidia.github.io/libnvidia-container/gpgkey": signing_keys.NVIDIA.encode,
    "docs.aws.amazon.com/fsx/latest/LustreGuide/samples/configure-efa-fsx-lustre-client.zip": lambda: _zip(
        {"configure-efa-fsx-lustre-client/setup.sh": _EFA_LUSTRE}
    ),
}
