"""Debian packages of the rehearsed repositories, as real archives that the machine's own dpkg installs."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rehearsal.image.package import Package

#: Folder with the packages' files. A host has its own copy; the process that serves the sites uses the checkout's folder.
_HOSTS = Path("/usr/lib/rehearsal")
LIBRARY = _HOSTS if _HOSTS.exists() else Path(__file__).parent / "system"


def archive(name: str, package: Package) -> bytes:
    """Return a package as a .deb file (deb(5)); its files are copied from the stand-ins in `LIBRARY`."""
    told = [("./control", 0o644, about(name, package).encode(), "")]
    if after := package.get("postinst"):
        told.append(("./postinst", 0o755, f"#!/bin/sh -e\n{after}".encode(), ""))
    control = gzip.compress(_tar(told), mtime=0)
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": control,
        "data.tar.gz": gzip.compress(_tar(_laid(package)), mtime=0),
    }
    packed = b"!<arch>\n"
    for member, content in members.items():
        packed += f"{member:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode() + content
        packed += b"\n" * (len(content) % 2)
    return packed


def about(name: str, package: Package) -> str:
    """Return a package's control fields (deb-control(5)), for its archive and for an index of packages."""
    version = package.get("version", "1.0")
    fields = {"Package": name, "Version": version, "Architecture": "all", "Maintainer": "rehearsal <none@invalid>"}
    return "".join(f"{key}: {value}\n" for key, value in (fields | {"Description": "a stand-in"}).items())


def _laid(package: Package) -> list[tuple[str, int, bytes, str]]:
    """Return the path, mode, content and link target of each file of a package; a file that is no link has the target ""."""
    found = []
    for kind, path, source in package.get("files", ()):
        if kind == "link":
            found.append((f".{path}", 0o777, b"", source))
        elif kind == "text":
            found.append((f".{path}", 0o644, source.encode(), ""))
        elif kind == "tree":
            found.append((f".{path}", 0o644, source_tree((LIBRARY / source).read_bytes()), ""))
        else:
            found.append((f".{path}", 0o755 if kind == "program" else 0o644, (LIBRARY / source).read_bytes(), ""))
    return found


def source_tree(rules: bytes) -> bytes:
    """Return a source package's archive of kernel modules, in the form that module-assistant unpacks below /usr/src."""
    return bz2.compress(_tar([("./modules/lustre/debian/rules", 0o755, rules, "")]))


def _tar(files: list[tuple[str, int, bytes, str]]) -> bytes:
    packed, folders = io.BytesIO(), set[str]()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path, mode, content, target in files:
            for parent in reversed(Path(path).parents):
                if str(parent) != "." and str(parent) not in folders:
                    folders.add(str(parent))
                    folder = tarfile.TarInfo(f"./{parent}/")
                    folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                    tar.addfile(folder)
            member = tarfile.TarInfo(path)
            member.mode, member.size = mode, len(content)
            if target:
                member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()
