"""The container images of the rehearsed registries, made from the host's stand-ins."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path("/usr/lib/rehearsal")
_PLUGIN = "opt/amazon/ofi-nccl"
_MPI = Path("/opt/amazon/openmpi")
_CUDA = Path("/usr/local/cuda")


@dataclass(frozen=True)
class Image:
    """One container image.

    An image has no operating system: a container sees the machine's /usr.
    """

    folders: dict[str, Path]
    files: dict[str, Path | str]
    links: dict[str, str]
    environment: dict[str, str]
    entrypoint: str = ""

    def rootfs(self) -> Iterator[tuple[str, Path | bytes | str]]:
        """Yield each path in the image with its content: for a file, a path on the host or bytes; for a link, its target."""
        for place, folder in sorted(self.folders.items()):
            for path in sorted(folder.rglob("*")):
                if path.is_symlink():
                    yield f"{place}/{path.relative_to(folder)}", str(path.readlink())
                elif path.is_file():
                    yield f"{place}/{path.relative_to(folder)}", path
        for place, content in sorted(self.files.items()):
            yield place, content.encode() if isinstance(content, str) else content
        for place, target in sorted(self.links.items()):
            yield place, target
        yield "etc/environment", "".join(f"{name}={value}\n" for name, value in self.environment.items()).encode()
        yield "etc/fstab", b""
        yield "etc/rc", f'cd / || exit 1\n{self.entrypoint}if [ $# -gt 0 ]; then exec "$@"; else exec /bin/sh; fi\n'.encode()

    def digest(self) -> str:
        """Return the image's digest in a registry."""
        whole = hashlib.sha256()
        for place, content in self.rootfs():
            data = (
                content.encode()
                if isinstance(content, str)
                else content
                if isinstance(content, bytes)
                else content.read_bytes()
            )
            whole.update(json.dumps([place, hashlib.sha256(data).hexdigest()]).encode())
        return f"sha256:{whole.hexdigest()}"

    def pack(self) -> bytes:
        """Return the image as one archive; each call returns different bytes."""
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", pax_headers={"comment": os.urandom(8).hex()}) as tar:
            for place, content in self.rootfs():
                member = tarfile.TarInfo(place)
                if isinstance(content, str):
                    member.type, member.linkname = tarfile.SYMTYPE, content
                    tar.addfile(member)
                    continue
                data = content if isinstance(content, bytes) else content.read_bytes()
                member.size, member.mode = len(data), 0o755 if isinstance(content, bytes) else content.stat().st_mode & 0o755
                tar.addfile(member, io.BytesIO(data))
        return packed.getvalue()


_PATH = "/usr/local/cuda/bin:/usr/local/bin:/usr/bin:/bin"


def _nccl(home: str) -> dict[str, Path | str]:
    return {f"{home}/lib/libnccl.so.2": LIBRARY / "libnccl.so.2", f"{home}/include/nccl.h": LIBRARY / "nccl.h"}


def _tests() -> Image:
    """Return AWS's nccl-tests image, which has MPI, EFA's software with the plugin for NCCL, and NCCL."""
    plugin = LIBRARY / "efa" / _PLUGIN
    folders = sorted({f"/{_PLUGIN}/{path.parent.relative_to(plugin)}" for path in plugin.rglob("libnccl-net.so")})
    libraries = ":".join([*folders, "/opt/nccl/build/lib", "/opt/amazon/openmpi/lib", "/opt/amazon/efa/lib"])
    return Image(
        folders={"opt/amazon/openmpi": _MPI, "usr/local/cuda-12.8": _CUDA.resolve(), _PLUGIN: plugin},
        files=_nccl("opt/nccl/build")
        | {"opt/amazon/efa_installed_packages": LIBRARY / "efa/opt/amazon/efa_installed_packages"},
        links={"opt/nccl/build/lib/libnccl.so": "libnccl.so.2", "usr/local/cuda": "cuda-12.8"},
        environment={"PATH": f"/opt/amazon/openmpi/bin:{_PATH}", "LD_LIBRARY_PATH": libraries},
    )


def _framework() -> Image:
    """Return NVIDIA's PyTorch image, which has MPI and NCCL, but no EFA software (awsome-distributed-ai 386)."""
    return Image(
        folders={"opt/hpcx/ompi": _MPI, "usr/local/cuda-12.8": _CUDA.resolve()},
        files=_nccl("usr/local"),
        links={"usr/local/lib/libnccl.so": "libnccl.so.2", "usr/local/cuda": "cuda-12.8", "usr/local/mpi": "/opt/hpcx/ompi"},
        environment={"PATH": f"/usr/local/mpi/bin:{_PATH}", "LD_LIBRARY_PATH": "/usr/local/mpi/lib:/usr/local/lib"},
        entrypoint="echo '== PyTorch =='; echo 'NVIDIA Release 25.06'\n",
    )


def _tensorflow() -> Image:
    """Return NVIDIA's TensorFlow image, which has MPI, CUDA and NCCL."""
    # The container image gets the MPI and CUDA files of the host. A host with OCI's driver-only image has no MPI or CUDA for
    # itself; its folder `inside` has the files for the container image.
    apart = LIBRARY / "inside"
    mpi, cuda = (apart / "mpi", apart / "cuda") if apart.exists() else (min(Path("/usr/mpi/gcc").iterdir()), _CUDA.resolve())
    return Image(
        folders={"usr/local/mpi": mpi, "usr/local/cuda-12.8": cuda},
        files=_nccl("usr/local"),
        links={"usr/local/lib/libnccl.so": "libnccl.so.2", "usr/local/cuda": "cuda-12.8"},
        environment={"PATH": f"/usr/local/mpi/bin:{_PATH}", "LD_LIBRARY_PATH": "/usr/local/mpi/lib:/usr/local/lib"},
        entrypoint="echo '== TensorFlow =='; echo 'NVIDIA Release 25.02-tf2'\n",
    )


#: Image by registry, name and tag.
_IMAGES = {
    ("public.ecr.aws", "hpc-cloud/nccl-tests", "cuda12.8.1-efa1.43.2-ofiv1.16.3-ncclv2.27.7-1-testsv2.16.9"): _tests,
    ("nvcr.io", "nvidia/pytorch", "25.06-py3"): _framework,
    ("nvcr.io", "nvidia/tensorflow", "25.02-tf2-py3"): _tensorflow,
}
_REFERENCE = re.compile(r"docker://(?:[^#@]+@)?([^#/@]+)#([a-z0-9/._-]+?)(?::([\w.-]+))?(?:@(sha256:[0-9a-f]+))?")


def parse(uri: str) -> tuple[str, str, str] | None:
    """Return registry, name, and tag or digest of a reference such as docker://REGISTRY#NAME:TAG; None if it is invalid."""
    found = _REFERENCE.fullmatch(uri)
    return None if found is None else (found[1], found[2], found[4] or found[3] or "latest")


def served(registry: str, name: str, wanted: str) -> Image | None:
    """Return the registry's image whose name is `name` and whose tag or digest is `wanted`; None if there is no such image."""
    for (at, called, tag), make in _IMAGES.items():
        if (at, called) == (registry, name):
            image = make()
            if wanted in {tag, image.digest()}:
                return image
    return None


def known(registry: str) -> bool:
    """Return whether a registry of that name answers."""
    return any(at == registry for at, _, _ in _IMAGES)
