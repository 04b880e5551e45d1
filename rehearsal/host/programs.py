"""Compiles the programs and libraries of rehearsed hosts, once for all worlds of this checkout."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from rehearsal.host import images
from rehearsal.net import wires
from rehearsal.world.world import World, write_whole

_KEPT = Path(__file__).parents[2] / ".busbar" / "build" / "programs"
_GCC = ("gcc", "-O2", "-Wall", "-Werror", "-s")
_NCCL_TESTS = Path(__file__).parents[1] / "nccl-tests"


def built(world: World, image: images.Image) -> Path:
    """Put the compiled programs and libraries that hosts of an image need into the world's build folder; return the folder.

    Raises:
        RuntimeError: a compiler failed, or the machine lacks the Open MPI from which the image's MPI is made.
    """
    with wires.locked(world, "build"):
        folder = world.folder("build")
        sources = Path(__file__).parent
        made = {name: ["-static", str(sources / f"{name}.c")] for name in ("init", "counters")}
        made["supplicant"] = ["-static", str(images.IMAGE_FOLDER / "system/supplicant.c")]
        made["libshape.so"] = ["-shared", "-fPIC", str(images.IMAGE_FOLDER / "system/shape.c")]
        made |= {name: list(words) for name, words in image.builds.items()}
        nccl = world.folder("build", f"nccl-{image.nccl}")
        header = images.nccl_header(image.nccl)
        write_whole(nccl / "nccl.h", header)
        library = ["-shared", "-fPIC", "-Wl,-soname,libnccl.so.2", f"-I{nccl}", str(images.IMAGE_FOLDER / "system/nccl.c")]
        made[f"{nccl.name}/libnccl.so.2"] = library
        for name, words in made.items():
            if not (folder / name).exists():
                _copy(_compiled(words, header), folder / name)
        if image.mpi and not list(nccl.glob("nccl-tests-*.a")):
            kept = _nccl_tests(header)
            _copy(kept, nccl / kept.name)
        return folder


def _copy(source: Path, target: Path) -> None:
    fresh = target.with_name(f"{target.name}.new")
    shutil.copyfile(source, fresh)
    fresh.rename(target)


def _once(kept: Path, make: Callable[[Path], object]) -> Path:
    """Return the path `kept`. If there is no file at this path, let `make` create the file.

    `make` writes the file under another name, and then the file is renamed, because other processes may create the same file
    at the same time.
    """
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_suffix(f".{os.getpid()}")
        make(fresh)
        fresh.rename(kept)
    return kept


def _compiler() -> str:
    """Return a text that changes when the compiler is replaced."""
    return str(Path(shutil.which("gcc") or "gcc").stat().st_mtime_ns)


def _compiled(words: list[str], header: str) -> Path:
    """Return the file that gcc makes from these arguments; the file is used again until a source or the compiler changes."""
    said = hashlib.sha256(f"{_compiler()} {_GCC} {[word for word in words if not word.startswith('-I')]}".encode())
    for source in [word for word in words if word.endswith(".c")]:
        said.update(Path(source).read_bytes())
    said.update(header.encode())
    return _once(_KEPT / said.hexdigest(), lambda fresh: wires.call([*_GCC, "-o", str(fresh), *words]))


def _nccl_tests(header: str) -> Path:
    """Return an archive of the objects of the rehearsal's nccl-tests; its name has the checksum that the Makefile computes."""
    mpi = images.machine_mpi()
    said = hashlib.sha256()
    for source in (_NCCL_TESTS / "Makefile", *sorted((_NCCL_TESTS / "src").iterdir())):
        said.update(source.read_bytes())
    said.update(header.encode() + (mpi / "include/mpi.h").read_bytes())

    def make(fresh: Path) -> None:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            for path, text in (("bin/nvcc", ""), ("include/nccl.h", header)):  # the build only checks that nvcc exists
                (root / path).parent.mkdir()
                (root / path).write_text(text)
            folders = [f"BUILDDIR={root}/build", f"MPI_HOME={mpi}", f"NCCL_HOME={root}", f"CUDA_HOME={root}"]
            target = f"{root}/build/nccl-tests.a"
            wires.call(["make", "-C", str(_NCCL_TESTS), "-j", str(os.cpu_count() or 1), "MPI=1", *folders, target])
            shutil.copyfile(target, fresh)

    return _once(_KEPT / _compiler() / f"nccl-tests-{said.hexdigest()}.a", make)
