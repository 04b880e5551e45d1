"""A head node without a cluster: the real runner in a temporary home folder, with fake commands whose answers a test sets."""

from __future__ import annotations

import atexit
import functools
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from measurement_line import fits_its_type

from benchmarks.host import pack

GOLDEN = Path(__file__).parent / "golden" / "transcripts"
NODE = [{"name": "head", "address": "127.0.0.1"}]


@functools.cache
def unpacked() -> Path:
    """Return the runner as a folder: Python compiles a folder only once, but a zipapp at every start."""
    folder = Path(tempfile.mkdtemp(prefix="busbar-runner-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with zipfile.ZipFile(io.BytesIO(pack.runner())) as packed:
        packed.extractall(folder)  # noqa: S202 - the archive is our own
    return folder


class Head:
    """A head node: a home folder, and the packed runner."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.program = unpacked()
        (home / "bin").mkdir()
        self.tool("nvidia-smi", 'echo "NVIDIA H200, 570.1"\necho "NVIDIA H200, 570.1"\n')
        self.environment = {
            "HOME": str(home),
            "PATH": f"{home}/bin:/usr/local/bin:/usr/bin:/bin",
            "PLANTED_TOKEN": "must-never-leave-the-node",
        }

    def tool(self, name: str, body: str) -> Path:
        path = self.home / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}")
        path.chmod(0o755)
        return path

    def start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-IS", str(self.program), *words],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, request: dict, *words: str, timeout_s: float = 60) -> tuple[int, str, str]:
        child = self.start(*(words or ("run",)))
        out, err = child.communicate(json.dumps(request), timeout=timeout_s)
        assert child.returncode or words or fits_its_type(out), out
        return child.returncode, out, err


def archive(makefile: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member = tarfile.TarInfo("nccl-tests/Makefile")
        member.size = len(makefile)
        tar.addfile(member, io.BytesIO(makefile.encode()))
    return packed.getvalue()


GOOD_MAKEFILE = (
    "build:\n\tmkdir -p build\n\techo Compiling all_reduce\n"
    "\tprintf '#!/bin/sh\\necho $(MPI) $(MPI_HOME)\\n' > build/all_reduce_perf\n\tchmod +x build/all_reduce_perf\n"
)


def build_request(head: Head, makefile: str = GOOD_MAKEFILE, **changes) -> dict:
    for version in ("4.1.2", "4.1.10"):
        for proof in (f"mpi-{version}/bin/mpirun", "cuda/bin/nvcc", "nccl/include/nccl.h"):
            path = head.home / proof
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\necho mpirun 4.1.10\n")
            path.chmod(0o755)
    data = archive(makefile)
    (head.home / "source.tar").write_bytes(data)
    request = {
        "schema": 2,
        "kind": "build",
        "run_id": "build1",
        "timeout_s": 30,
        "nodes": NODE,
        "programs": ["all_reduce_perf"],
        "source": {"version": "2.19.6", "sha256": hashlib.sha256(data).hexdigest(), "path": "source.tar"},
        "homes": {
            "MPI_HOME": ["/nowhere/mpi", f"{head.home}/mpi-*"],
            "CUDA_HOME": [f"{head.home}/cuda*"],
            "NCCL_HOME": [f"{head.home}/nccl"],
        },
    }
    return request | changes


def step_of(head: Head, body: str, name: str = "all_reduce", **changes) -> dict:
    ranks = {"program": str(head.tool(f"step-{name}", body)), "arguments": [], "environment": {}, "per_node": 2}
    step = {
        "name": name,
        "stage": "all",
        "collective": "all_reduce",
        "ranks": ranks | changes.pop("ranks", {}),
        "result": f"{head.home}/plan/result.json",
        "decides": True,
    }
    return step | changes


def launch_of(head: Head) -> dict:
    """Return the launch settings of a fake mpirun, which runs the ranks' program itself, once."""
    mpirun = head.home / "launcher" / "bin" / "mpirun"
    mpirun.parent.mkdir(parents=True, exist_ok=True)
    # The fake passes its own arguments to the program in SAID, so that a test can check the environment variables of ranks.
    mpirun.write_text('#!/bin/sh\nsaid="$*"\nfor word; do case $word in */bin/step-*) SAID="$said" exec "$word";; esac; done\n')
    mpirun.chmod(0o755)
    return {
        "kind": "mpirun",
        "mpi_home": f"{head.home}/launcher",
        "bind_to": "none",
        "mca": {},
        "hostfile": f"{head.home}/plan/hosts",
        "start": [],
    }


def measure_request(head: Head, body: str, **changes) -> dict:
    request = {
        "schema": 2,
        "kind": "measure",
        "run_id": "measure1",
        "timeout_s": 30,
        "nodes": NODE,
        "gpus": 2,
        "hcas": [],
        "fabric": [],
        "deciding": "all_reduce",
        "steps": [step_of(head, body)],
        "launch": launch_of(head),
        "results": f"{head.home}/plan",
        "logs": f"{head.home}/nccl",
    }
    return request | changes


REAL_RUN = f"cat {GOLDEN}/h200x2.txt\ncp {GOLDEN}/h200x2.json $HOME/plan/result.json\n"


MAKEFILE = (
    "build:\n\tmkdir -p build\n"
    "\tprintf '#!/bin/sh\\necho $(MPI_HOME) $(NCCL_HOME)\\nenv\\n' > build/all_reduce_perf\n\tchmod +x build/all_reduce_perf\n"
)


def lay(head: Head, inside: dict[str, str]) -> None:
    """Write the files of an image, by path, where the fake container runtimes expect them."""
    for place, text in inside.items():
        path = head.home / "inside" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
