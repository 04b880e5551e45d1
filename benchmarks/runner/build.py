"""Build nccl-tests once on the head and lay the same binaries on every node, each proven by its checksum.

It deliberately pins: the source archive must have the sha256 that the request names, and no node builds for itself.
"""

import glob
import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

import fanout
import jobs
from bounded import bounded
from refusal import Refusal

_FETCH_TIMEOUT_S = 60
_SPREAD_TIMEOUT_S = 120


def commands(request: Dict[str, Any]) -> List[str]:
    """Return the commands that a person would type on the head."""
    return [" ".join(_make(_homes(request)))]


def work(request: Dict[str, Any], here: str, say: jobs.Say) -> Dict[str, Any]:
    """Build and spread; return the line.

    Raises:
        Refusal: a folder, the archive or its checksum is not as asked, the build failed, or a node did not take the binaries.
    """
    began = time.monotonic()
    homes = _homes(request)
    archive = _archive(request, say)
    source = _unpack(archive, jobs.fresh(os.path.join(here, "src")))
    say("building nccl-tests {} with {}".format(request["source"]["version"], " ".join(_make(homes)[1:])))
    with ThreadPoolExecutor(1) as meanwhile:
        meanwhile.submit(fanout.keep, request["nodes"])
        _run_make(request, homes, source, here, say)
    binaries = os.path.join(jobs.root(), "tests", request["run_id"])
    hashes = _collect(os.path.join(source, "build"), binaries)
    lacking = [program for program in request["programs"] if program not in hashes]
    if lacking:
        raise Refusal("the build made no {}; it made {}".format(", ".join(lacking), ", ".join(sorted(hashes)) or "nothing"))
    _spread(request, binaries, hashes, say)
    shutil.rmtree(os.path.join(here, "src"))
    return {
        "schema": 1,
        "kind": "build",
        "run_id": request["run_id"],
        "binaries": binaries,
        "hashes": hashes,
        "home": os.path.expanduser("~"),
        "shared": fanout.shared(),
        "mpi_home": _with_mpirun(homes["MPI_HOME"]),
        "cuda_home": homes["CUDA_HOME"],
        "nccl_home": homes["NCCL_HOME"],
        "versions": {
            "nccl_tests": request["source"]["version"],
            "mpi": _first_line([_with_mpirun(homes["MPI_HOME"]) + "/bin/mpirun", "--version"]),
            "cuda": os.path.basename(os.path.realpath(homes["CUDA_HOME"])),
        },
        "seconds": round(time.monotonic() - began, 1),
    }


def _homes(request: Dict[str, Any]) -> Dict[str, str]:
    """Find MPI, CUDA and NCCL: the first glob with a match wins, and of its matches the newest."""
    wanted = (("MPI_HOME", "bin/mpirun"), ("CUDA_HOME", "bin/nvcc"), ("NCCL_HOME", "include/nccl.h"))
    homes = {}
    for key, proof in wanted:
        for pattern in request["homes"][key]:
            found = [path for path in glob.glob(pattern) if _holds(path, proof)]
            if found:
                homes[key] = max(found, key=_version_key)
                break
        else:
            raise Refusal(
                "the head has no {}: no folder like {} holds {}; install it there or say where it lies".format(
                    key, " or ".join(request["homes"][key]), proof
                )
            )
    return homes


def _holds(path: str, proof: str) -> bool:
    """Tell whether a folder is whole; Debian's Open MPI keeps headers and libraries in one and its programs in /usr/bin."""
    debian = proof == "bin/mpirun" and path.startswith("/usr/lib/") and os.path.exists("/usr/bin/mpirun")
    return os.path.exists(os.path.join(path, "include/mpi.h" if debian else proof))


def _with_mpirun(home: str) -> str:
    """Return the folder whose bin holds mpirun: a remote node's daemon is looked for under the same one."""
    return home if os.path.exists(os.path.join(home, "bin", "mpirun")) else "/usr"


def _version_key(path: str) -> List[Any]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", path) if part]


def _make(homes: Dict[str, str]) -> List[str]:
    settings = [f"{key}={homes[key]}" for key in sorted(homes)]
    jobs_at_once = str(os.cpu_count() or 1)
    return ["make", "-j", jobs_at_once, "MPI=1", *settings, *_architecture()]


def _architecture() -> List[str]:
    """Compile for the GPU that is here alone: all architectures take minutes instead of seconds."""
    found = _first_line(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])
    match = re.match(r"^(\d+)\.(\d+)$", found)
    if not match:
        return []  # an old nvidia-smi does not know; the Makefile's own default works
    number = match.group(1) + match.group(2)
    return [f"NVCC_GENCODE=-gencode=arch=compute_{number},code=sm_{number}"]


def _archive(request: Dict[str, Any], say: jobs.Say) -> bytes:
    source = request["source"]
    if source.get("url"):
        say("fetching {}".format(source["url"]))
        try:
            with urllib.request.urlopen(source["url"], timeout=_FETCH_TIMEOUT_S) as reply:  # noqa: S310 - checked by its sha256
                data = bytes(reply.read())
        except (OSError, ValueError) as error:
            raise Refusal(
                "the source {} could not be fetched from the head ({}); on a site without a way out set ncclTestsSource to a "
                "file".format(source["url"], error)
            ) from None
    else:
        with open(os.path.join(os.path.expanduser("~"), source["path"]), "rb") as file:
            data = file.read()
    found = hashlib.sha256(data).hexdigest()
    if found != source["sha256"]:
        raise Refusal(
            "the nccl-tests archive has sha256 {}, and {} is pinned; nothing was built".format(found, source["sha256"])
        )
    return data


def _unpack(data: bytes, target: str) -> str:
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive.getmembers():
                inside = os.path.realpath(os.path.join(target, member.name)).startswith(os.path.realpath(target) + os.sep)
                if not (member.isfile() or member.isdir()) or not (inside or member.name in (".", "./")):
                    raise Refusal(f"the nccl-tests archive holds {member.name!r}, which is no plain file below it")
            archive.extractall(target)  # noqa: S202 - every member was looked at above
    except tarfile.TarError as error:
        raise Refusal(f"the nccl-tests archive cannot be read: {error}") from None
    for base, _, files in os.walk(target):
        if "Makefile" in files:
            return base
    raise Refusal("the nccl-tests archive has no Makefile")


def _run_make(request: Dict[str, Any], homes: Dict[str, str], source: str, here: str, say: jobs.Say) -> None:
    path = os.path.join(here, "make.log")
    with bounded(_make(homes), request["timeout_s"], cwd=source) as make, jobs.text(path, "w") as log:
        errors = []
        for line in make.lines():
            log.write(line + "\n")
            if line.startswith(("Compiling", "Linking")):
                say(line)
            elif "rror" in line:
                errors.append(line)
        status = make.status()
    if make.late:
        raise Refusal("nccl-tests did not build within {} s (its output is {} on the head)".format(request["timeout_s"], path))
    if status != 0:
        cause = (errors or ["no word"])[0]
        raise Refusal(f"nccl-tests did not build: {cause} (its whole output is {path} on the head)")


def _collect(built: str, binaries: str) -> Dict[str, str]:
    """Keep the executables; return their checksums by name."""
    jobs.fresh(binaries)
    hashes = {}
    for name in sorted(os.listdir(built) if os.path.isdir(built) else []):
        path = os.path.join(built, name)
        if name.endswith("_perf") and os.access(path, os.X_OK):
            shutil.copy2(path, binaries)
            with open(path, "rb") as file:
                hashes[name] = hashlib.sha256(file.read()).hexdigest()
    return hashes


def _spread(request: Dict[str, Any], binaries: str, hashes: Dict[str, str], say: jobs.Say) -> None:
    """Lay the binaries into the same folder on every other node and have each node check them."""
    say("spreading {} programs to {} nodes".format(len(hashes), len(request["nodes"])))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        archive.add(binaries, arcname=".")
    sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items()))
    command = (
        f"mkdir -p {binaries} && cd {binaries} && tar -x && echo '{sums}' | sed '/^$/d' | sha256sum --check --quiet --strict -"
    )
    answers = fanout.each(request["nodes"], command, packed.getvalue(), _SPREAD_TIMEOUT_S)
    missing = [
        "{} ({})".format(node["name"], answer.why) for node, answer in zip(request["nodes"], answers) if answer.status != 0
    ]
    if missing:
        raise Refusal("the binaries did not arrive whole on {}".format("; ".join(missing)))


def _first_line(argv: List[str]) -> str:
    try:
        found = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return (found.stdout.decode("utf-8", "replace").splitlines() or [""])[0].strip()
