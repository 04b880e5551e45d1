"""Writes container images in OCI layout for containerd.

An image contains a few programs; if the runtime mounts the host's programs into the container, it contains none.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

#: Links of a root file system whose programs are in /usr, and its folders, into which the runtime and kubelet mount.
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
FOLDERS = ("usr", "etc", "opt", "proc", "sys", "dev", "tmp", "run", "var", "root", "busbar")


def root() -> bytes:
    """Return a layer without programs: the rehearsed runtime mounts the host's programs into the container."""
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as layer:
        for name in FOLDERS:
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            layer.addfile(folder)
        for name, target in LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            layer.addfile(link)
    return held.getvalue()


def files(held: dict[str, bytes], links: dict[str, str] | None = None) -> bytes:
    """Return a layer with executable files (`held`: path -> content) and with symbolic links (`links`: path -> target)."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as layer:
        for name, data in held.items():
            file = tarfile.TarInfo(name)
            file.size, file.mode = len(data), 0o755
            layer.addfile(file, io.BytesIO(data))
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            layer.addfile(link)
    return whole.getvalue()


def write(path: Path, name: str, layer: bytes, entry: list[str]) -> None:
    """Write the archive of an image called `name` with one layer."""
    blobs: dict[str, bytes] = {}

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": entry, "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    kind = "application/vnd.oci.image.manifest.v1+json"
    manifest = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": blob(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [blob(layer, "application/vnd.oci.image.layer.v1.tar")],
    }
    row = blob(json.dumps(manifest).encode(), kind) | {"annotations": {"io.containerd.image.name": name}}
    texts = {"oci-layout": {"imageLayoutVersion": "1.0.0"}, "index.json": {"schemaVersion": 2, "manifests": [row]}}
    with tarfile.open(path, "w") as archive:
        for file, data in (blobs | {name: json.dumps(value).encode() for name, value in texts.items()}).items():
            member = tarfile.TarInfo(file)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
