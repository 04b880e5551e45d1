"""Package repositories on the rehearsed Internet, for the machine's real apt-get; generated from the tables of packages."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping

from rehearsal.image import debian, packages
from rehearsal.image.package import Package

#: Ubuntu's archive, which images reach over http, not https (Ubuntu cloud images, /etc/apt/sources.list).
ARCHIVE = "archive.ubuntu.com"
#: Release of Ubuntu -> its suite.
SUITES = {"22.04": "jammy", "24.04": "noble"}
_FSX = "fsx-lustre-client-repo.s3.amazonaws.com"
_INDEX = "main/binary-amd64/Packages"
#: A repository without suites; a machine's list of sources has a path in place of the suite (sources.list(5)).
_FLAT = "nvidia.github.io/libnvidia-container/stable/deb/amd64"
#: Repository's host name -> owner of the key that signs its package lists.
SIGNERS = {ARCHIVE: "Ubuntu archive", _FSX: "FSx repository", "nvidia.github.io": "NVIDIA repository"}
_ABOUT = "Origin: rehearsal\nDate: Mon, 01 Jan 2024 00:00:00 UTC\nArchitectures: amd64\n"


def served(where: str) -> bytes | None:
    """Return the repository's file at `where` (host and path), or None; `/./` means `/`, as for a web server."""
    return _files().get(where.replace("/./", "/"))


@functools.cache
def _files() -> Mapping[str, bytes]:
    """Return every file of every repository by host and path."""
    made = _flat(_FLAT, packages.TOOLKIT_FOR_UBUNTU)
    for release, suite in SUITES.items():
        made |= _suite(f"{ARCHIVE}/ubuntu", suite, packages.ubuntu(release))
        made |= _suite(f"{_FSX}/ubuntu", suite, packages.LUSTRE_BY_SUITE[suite])
    return made


def _suite(root: str, suite: str, table: Mapping[str, Package]) -> dict[str, bytes]:
    folder = f"pool/{suite}"
    archives = {f"{folder}/{name}.deb": debian.archive(name, one) for name, one in table.items()}
    index = _index(table, archives, folder)
    release = f"{_ABOUT}Suite: {suite}\nCodename: {suite}\nComponents: main\n{_sums(_INDEX, index)}"
    dists = f"{root}/dists/{suite}"
    files = {f"{root}/{path}": content for path, content in archives.items()}
    return files | {f"{dists}/Release": release.encode(), f"{dists}/{_INDEX}": index}


def _flat(root: str, table: Mapping[str, Package]) -> dict[str, bytes]:
    archives = {f"./{name}.deb": debian.archive(name, one) for name, one in table.items()}
    index = _index(table, archives, ".")
    files = {f"{root}/{path.removeprefix('./')}": content for path, content in archives.items()}
    return files | {f"{root}/Release": f"{_ABOUT}{_sums('Packages', index)}".encode(), f"{root}/Packages": index}


def _index(table: Mapping[str, Package], archives: Mapping[str, bytes], folder: str) -> bytes:
    stanzas = []
    for name, one in table.items():
        path = f"{folder}/{name}.deb"
        sized = f"Filename: {path}\nSize: {len(archives[path])}\nSHA256: {hashlib.sha256(archives[path]).hexdigest()}\n"
        stanzas.append(debian.about(name, one) + sized)
    return "\n".join(stanzas).encode()


def _sums(path: str, content: bytes) -> str:
    return f"SHA256:\n {hashlib.sha256(content).hexdigest()} {len(content)} {path}\n"
