"""Checks names of container images in enroot's form, and lists where MPI, CUDA and NCCL are in such images.

Sources: enroot 4.1 (doc/cmd/import.md; src/docker.sh reads a reference, and from enroot 4.0 on also a digest),
awsome-distributed-training:micro-benchmarks/nccl-tests (Dockerfile, names of images).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from catalogue.homes import Homes

_SCHEME = "docker://"
_EXAMPLE = "docker://public.ecr.aws#hpc-cloud/nccl-tests:<tag>"
_REGISTRY = re.compile(r"(?:[^#/@:\s]+@)?[A-Za-z0-9][A-Za-z0-9.:-]*")
_NAME = re.compile(r"[a-z0-9]+(?:[._/-]+[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
#: Software whose version a tag may state, as AWS's tags do, and how a tag writes the name of the software.
_TOLD = {
    "cuda": r"cuda",
    "efa": r"efa",
    "plugin": r"(?:aws-)?ofi(?:-nccl)?",
    "nccl": r"nccl",
    "nccl_tests": r"tests",
}

#: The version of enroot that first boot installs if a machine image has no enroot. Only enroot 4.0 or later reads image
#: references with a digest. No checksum of enroot is listed here, because the vendor publishes none.
ENROOT = "4.1.2"

#: The version of Pyxis that first boot builds on machines of a Slurm cluster, and the sha256 of Pyxis's source (tag v0.24.0,
#: commit 1075199). The source is packed as GitHub packs archives, see `catalogue.nccl_tests`:
#: git archive --prefix=pyxis-0.24.0/ v0.24.0 | gzip -n
PYXIS = "0.24.0"
PYXIS_SHA256 = "9c4cdb79a67301d8ea05951aa4d2c205f40cf6145e338214b0191add8b36d6c4"

#: Version of nerdctl's full distribution, which first boot installs if containerd runs the ranks, and the sha256 of the file
#: SHA256SUMS in that release (containerd/nerdctl, v2.2.0). The distribution contains containerd 2.2.0, runc 1.3.3 and the CNI
#: plugins 1.8.0.
NERDCTL = "2.2.0"
NERDCTL_SUMS = "8b30e94e422ef0db386fc699ec984c6f660668a755f4f9eeb2831c66aa516b2b"
#: Version of NVIDIA Container Toolkit, which writes the CDI specification of the GPUs (ocitutorials:
#: tech-knowhow/container-with-containerd).
TOOLKIT = "1.18.0"
#: The key that signs the toolkit's repository: NVIDIA CORPORATION (Open Source Projects), 0xF796ECB0, as dnf shows the key from
#: https://nvidia.github.io/libnvidia-container/gpgkey (GoogleCloudDataproc/initialization-actions: gpu/install_gpu_driver.sh).
TOOLKIT_KEY = "C95B321B61E88C1809C4F759DDCAE044F796ECB0"

#: Where MPI, CUDA and NCCL are in images in which nccl-tests can be built: AWS's, NVIDIA's framework images, and plain images.
HOMES_INSIDE = Homes(
    mpi=(
        "/opt/amazon/openmpi",
        "/usr/local/mpi",
        "/opt/hpcx/ompi",
        "/usr/local/openmpi*",
        "/opt/openmpi*",
        "/usr/lib/*/openmpi",
    ),
    cuda=("/usr/local/cuda", "/usr/local/cuda-*"),
    nccl=("/opt/nccl/build", "/usr/local/nccl*", "/usr/local", "/usr"),
)


@dataclass(frozen=True)
class Reference:
    """An image: `uri` in enroot's form with `tag` and `digest` (one of these may be empty), or `path`, a file on the nodes."""

    uri: str = ""
    tag: str = ""
    digest: str = ""
    path: str = ""

    @property
    def text(self) -> str:
        """Return the image as a stack file writes it."""
        return self.uri or self.path

    @property
    def plain(self) -> str:
        """Return the name of a registry's image in the usual form, such as nvcr.io/nvidia/tensorflow:25.02-tf2-py3."""
        return self.uri.removeprefix(_SCHEME).replace("#", "/", 1)


@dataclass(frozen=True)
class Container:
    """The image that ranks run in.

    Attributes:
        image: the image.
        sha256: the sha256 that the image's file must have; empty if the stack file sets none.
        shared: folder that all nodes share, for the file of an imported image; if empty, the file is copied to every node.
        runtime: the program that runs the image: `enroot`, `containerd` or `pyxis`.
    """

    image: Reference
    sha256: str = ""
    shared: str = ""
    runtime: str = "enroot"


def read(text: str) -> Reference:
    """Return the image that `text` names.

    Raises:
        ValueError: enroot could not read the text, or the text does not identify one image; the message is a sentence without
            its subject.
    """
    if text.startswith(("dockerd://", "podman://")):
        scheme = text.partition("//")[0] + "//"
        raise ValueError(
            f"is {text!r}; {scheme} reads images from a daemon on the machine itself, and nodes have no such daemon: name the "
            f"registry as in {_EXAMPLE}"
        )
    if text.startswith("/"):
        return _file(text)
    if not text.startswith(_SCHEME):
        raise ValueError(f"is {text!r}; write {_EXAMPLE}, or the path of a .sqsh file that is on every node")
    return _in_registry(text)


def _file(text: str) -> Reference:
    if not text.endswith(".sqsh") or not re.fullmatch(r"[\w./+-]+", text) or "/../" in text:
        raise ValueError(
            f"is {text!r}; a file must be the absolute path of an image that enroot made, such as /fsx/nccl-tests.sqsh"
        )
    return Reference(path=text)


def _in_registry(text: str) -> Reference:
    registry, hash_, rest = text.removeprefix(_SCHEME).partition("#")
    if not hash_:
        host, _, name = registry.partition("/")
        hint = f"docker://{host}#{name}" if "." in host and name else _EXAMPLE
        raise ValueError(
            f"is {text!r}; between registry and image there must be a #, as in {hint}: without the #, enroot before version 4 "
            "looks on Docker Hub"
        )
    if ":" in registry.rpartition("@")[0]:
        raise ValueError(
            "contains a password, which would be kept in the state; write USER@REGISTRY#... here, and put the password into "
            "~/.config/enroot/.credentials on the nodes"
        )
    named, at, digest = rest.partition("@")
    name, colon, tag = named.partition(":")
    good = _REGISTRY.fullmatch(registry) and _NAME.fullmatch(name) and (not colon or _TAG.fullmatch(tag))
    if not good or (at and not _DIGEST.fullmatch(digest)):
        raise ValueError(
            f"is {text!r}, which enroot cannot read; write {_EXAMPLE}, or append @sha256:<64 hex digits> for a digest"
        )
    if not digest and tag in {"", "latest"}:
        raise ValueError(
            f"is {text!r}, which means the tag latest, and latest may be another image tomorrow; name another tag or a digest, "
            "because a measurement must record what it measured"
        )
    return Reference(uri=text, tag=tag, digest=digest)


def told(tag: str) -> dict[str, str]:
    """Return the versions that a tag states, by software (`cuda`, `efa`, `plugin`, `nccl`, `nccl_tests`)."""
    found = {part: re.search(rf"(?:^|[-_]){word}v?(\d+(?:\.\d+)+(?:-\d+(?=-|_|$))?)", tag) for part, word in _TOLD.items()}
    return {part: match[1] for part, match in found.items() if match}
