"""Builds nccl-tests once on the head node, and copies the binaries to every node; each node checks their sha256.

The source archive must have the sha256 that the request gives. If ranks run in a container, the build runs inside the
container and uses the container's libraries.
"""

import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import tarfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, List, Optional, Tuple

from benchmarks.launch.protocol import Build, BuildLine, ImageLine
from benchmarks.runner import checksums, container_image, containerd_image, fanout, installed, jobs, pyxis_image
from benchmarks.runner.child import bounded
from benchmarks.runner.refusal import Refusal

_FETCH_TIMEOUT_S = 60
_SPREAD_TIMEOUT_S = 120
#: The list of packages that EFA's installer writes.
_EFA = "/opt/amazon/efa_installed_packages"
#: File that describes how ranks start in a container; on every node it is in the folder of the programs.
_CONF = "container.conf"


def commands(request: Build) -> List[str]:
    """Return the commands that a person would type on the head node."""
    if request.container and request.container.runtime == "containerd":
        return containerd_image.commands(request, _make({key: f"${key}" for key in ("CUDA_HOME", "MPI_HOME", "NCCL_HOME")}))
    if request.container:
        inside = {key: f"${key}" for key in ("CUDA_HOME", "MPI_HOME", "NCCL_HOME")}
        start = "enroot start --mount $HOME/.busbar:$HOME/.busbar busbar "
        return [*container_image.commands(request), start + " ".join(_make(inside))]
    return [" ".join(_make(installed.on_node(request.homes)))]


def work(request: Build, here: str, say: jobs.Say) -> BuildLine:
    """Build the programs, copy them to every node and return the line.

    Raises:
        Refusal: a folder, the image, the archive or its checksum is not as requested, the build failed, or a node lacks the
            binaries.
    """
    began = time.monotonic()
    archive = _archive(request, say)
    found, box = _where(request, here, say)
    source = _unpack(archive, jobs.fresh(os.path.join(here, "src")))
    make = _make(box.homes if box else found)
    say("building nccl-tests {} with {}".format(request.source.version, " ".join(make[1:])))
    if box:
        conf = os.path.join(here, _CONF)
        with jobs.text(conf, "w") as target:
            target.write(box.conf)
        make = [*box.alone(conf), make[0], "-C", source, *make[1:]]
    with ThreadPoolExecutor(1) as meanwhile:
        meanwhile.submit(fanout.keep, request.nodes)
        _run_make(request, make, source, here, say)
    binaries = os.path.join(jobs.root(), "tests", request.run_id)
    hashes = _collect(os.path.join(source, "build"), binaries)
    lacking = [program for program in request.programs if program not in hashes]
    if lacking:
        raise Refusal("the build made no {}, only {}".format(", ".join(lacking), ", ".join(sorted(hashes)) or "nothing"))
    if box:
        shutil.copy2(os.path.join(here, _CONF), binaries)
        hashes[_CONF] = _sha256(os.path.join(binaries, _CONF))
    _spread(request, binaries, hashes, say)
    shutil.rmtree(os.path.join(here, "src"))
    image = None
    if box:
        hashes["image"] = box.image["sha256"]
        image = ImageLine(start=box.start(os.path.join(binaries, _CONF)), runtime=box.runtime, **box.image)
    return BuildLine(
        run_id=request.run_id,
        home=os.path.expanduser("~"),
        shared=fanout.shared(),
        binaries=binaries,
        hashes=hashes,
        mpi_home=_mpi_home(found, box),
        cuda_home=(box.homes if box else found)["CUDA_HOME"],
        nccl_home=(box.homes if box else found)["NCCL_HOME"],
        versions={"nccl_tests": request.source.version, **(box.versions if box else _versions(found))},
        seconds=round(time.monotonic() - began, 1),
        container=image,
    )


def _where(request: Build, here: str, say: jobs.Say) -> Tuple[Dict[str, str], Optional[container_image.Inside]]:
    """Return the node's folders of MPI, CUDA and NCCL, and the image if ranks run in an image.

    With enroot, the only folder is MPI's, because the node's mpirun starts the ranks. With containerd or Pyxis, no folder of
    the node is needed.
    """
    if not request.container:
        return installed.on_node(request.homes), None
    if request.container.runtime == "containerd":
        return {}, containerd_image.prepare(request, here, say)
    if request.container.runtime == "pyxis":
        return {}, pyxis_image.prepare(request, here, say)
    found = installed.on_node(request.homes, ("MPI_HOME",))
    return found, container_image.prepare(request, _mpirun(found), here, say)


def _mpi_home(found: Dict[str, str], box: Optional[container_image.Inside]) -> str:
    """Return the folder of the image's MPI with containerd and Pyxis; otherwise, the folder of the node's MPI."""
    if box and box.runtime != "enroot":
        return box.mpirun_home or box.homes["MPI_HOME"]
    return installed.with_mpirun(found["MPI_HOME"])


def _versions(found: Dict[str, str]) -> Dict[str, str]:
    return {"mpi": _mpirun(found), "cuda": os.path.basename(os.path.realpath(found["CUDA_HOME"])), **efa_versions(_EFA)}


def efa_versions(path: str) -> Dict[str, str]:
    """Return the versions of EFA's installer and of NCCL's plugin from the installer's file; empty if there is no such file."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            text = source.read(65536)
    except OSError:
        return {}
    found = {
        "efa": re.search(r"^# EFA installer version: (\S+)", text, re.MULTILINE),
        "plugin": re.search(r"\blibnccl-ofi[_-]([0-9.]*[0-9])", text),
    }
    return {part: match.group(1) for part, match in found.items() if match}


def _mpirun(found: Dict[str, str]) -> str:
    return _first_line([installed.with_mpirun(found["MPI_HOME"]) + "/bin/mpirun", "--version"])


def _make(found: Dict[str, str]) -> List[str]:
    settings = [f"{key}={found[key]}" for key in sorted(found)]
    jobs_at_once = str(os.cpu_count() or 1)
    return ["make", "-j", jobs_at_once, "MPI=1", *settings, *_architecture()]


def _architecture() -> List[str]:
    """Return a make setting: compile only for this node's GPU model, because all models would take minutes, not seconds."""
    found = _first_line(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    match = re.match(r"^(\d+)\.(\d+)$", found)
    if not match:
        return []  # an old nvidia-smi does not report the compute capability; the Makefile's default works
    number = match.group(1) + match.group(2)
    return [f"NVCC_GENCODE=-gencode=arch=compute_{number},code=sm_{number}"]


def _archive(request: Build, say: jobs.Say) -> bytes:
    source = request.source
    if source.url:
        say(f"fetching {source.url}")
        try:
            with urllib.request.urlopen(source.url, timeout=_FETCH_TIMEOUT_S) as reply:  # noqa: S310 - checked by its sha256
                data = bytes(reply.read())
        except (OSError, ValueError) as error:
            raise Refusal(
                f"the head node could not fetch the source {source.url} ({error}); on a site without Internet access, set "
                "measure.ncclTests.source to a file"
            ) from None
    else:
        with open(os.path.join(os.path.expanduser("~"), source.path), "rb") as file:
            data = file.read()
    found = hashlib.sha256(data).hexdigest()
    if found != source.sha256:
        raise Refusal(f"the nccl-tests archive has sha256 {found}, but {source.sha256} is pinned; nothing was built")
    return data


def _unpack(data: bytes, target: str) -> str:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive.getmembers():
                inside = os.path.realpath(os.path.join(target, member.name)).startswith(os.path.realpath(target) + os.sep)
                if not (member.isfile() or member.isdir()) or not (inside or member.name in (".", "./")):
                    raise Refusal(f"the nccl-tests archive contains {member.name!r}, which is no plain file inside the archive")
            archive.extractall(target)  # noqa: S202 - every member was checked above
    except tarfile.TarError as error:
        raise Refusal(f"the nccl-tests archive cannot be read: {error}") from None
    for base, _, files in os.walk(target):
        if "Makefile" in files:
            return base
    raise Refusal("the nccl-tests archive has no Makefile")


def _run_make(request: Build, words: List[str], source: str, here: str, say: jobs.Say) -> None:
    path = os.path.join(here, "make.log")
    with bounded(words, request.timeout_s, cwd=source) as make, jobs.text(path, "w") as log:
        errors = []
        for line in make.lines():
            log.write(line + "\n")
            if line.startswith(("Compiling", "Linking")):
                say(line)
            elif "rror" in line:
                errors.append(line)
        status = make.status()
    if make.late:
        raise Refusal(f"nccl-tests did not build within {request.timeout_s} s (its output is {path} on the head node)")
    if status != 0:
        cause = (errors or ["make printed no error"])[0]
        raise Refusal(f"nccl-tests did not build: {cause} (its complete output is {path} on the head node)")


def _collect(built: str, binaries: str) -> Dict[str, str]:
    """Copy the executables from `built` to `binaries`; return their checksums by name."""
    jobs.fresh(binaries)
    hashes = {}
    for name in sorted(os.listdir(built) if os.path.isdir(built) else []):
        path = os.path.join(built, name)
        if name.endswith("_perf") and os.access(path, os.X_OK):
            shutil.copy2(path, binaries)
            hashes[name] = _sha256(path)
    return hashes


def _sha256(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _spread(request: Build, binaries: str, hashes: Dict[str, str], say: jobs.Say) -> None:
    """Copy the binaries to the same folder on every node that lacks them, and let each node check them.

    Nodes may share a home folder, so one node may read a file while another node writes the file. Therefore a node that finds
    all files complete writes nothing. Any other node writes every file again. A file gets its name only when it is
    complete.
    """
    say(f"spreading {len(hashes)} programs to {len(request.nodes)} nodes")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(binaries, arcname=".")
    folder, check = shlex.quote(binaries), checksums.command(binaries, hashes)
    unpack = f'mkdir -p {folder} && part=$(mktemp -d {folder}.XXXXXX) && tar -x -C "$part"'
    take = f'{unpack} && mv -f "$part"/* {folder} && rmdir "$part"'
    command = f"({check}) > /dev/null 2>&1 || {{ {take} && {check}; }}"
    answers = fanout.each(request.nodes, command, packed.getvalue(), _SPREAD_TIMEOUT_S)
    missing = [f"{node.name} ({answer.why})" for node, answer in zip(request.nodes, answers) if answer.status != 0]
    if missing:
        raise Refusal("the binaries did not arrive intact on {}".format("; ".join(missing)))


def _first_line(argv: List[str]) -> str:
    try:
        found = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (found.stdout.decode("utf-8", "replace").splitlines() or [""])[0].strip()
