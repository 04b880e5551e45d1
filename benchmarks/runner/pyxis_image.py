"""Prepares a container image for the ranks of a Slurm job: imports it if it is in a registry; checks its file on every node.

Pyxis unpacks the image on a node when the job's first step in the image starts there. With `container_scope=job`, Pyxis removes
the unpacked image when the job ends.
As with enroot and containerd, the image's entry point is not run, because NVIDIA's entry points print a banner for each rank.
"""

import os
import shlex
import time
from typing import Dict, List

from benchmarks.launch.protocol import Build, Image
from benchmarks.runner import container_image, fanout, installed, jobs
from benchmarks.runner.child import bounded
from benchmarks.runner.container_image import Inside
from benchmarks.runner.refusal import Refusal

#: Environment variable with the Slurm job's id.
JOB = "BUSBAR_JOB"
_ASK_TIMEOUT_S = 300
#: Environment variables that enter the container: first the variables that enroot's hook for GPUs reads, then two variables of
#: the node.
_GPUS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
_PASSED = ("HOME", "USER")


def prepare(request: Build, here: str, say: jobs.Say) -> Inside:
    """Find or import the image's file, check it on all nodes of the job, and read the versions of the software in the image.

    Raises:
        Refusal: Slurm lacks Pyxis or PMIx, the image is missing or is not the pinned one, a node does not see the image,
            or nothing can be built in the image.
    """
    deadline = time.monotonic() + request.timeout_s
    wanted = request.container
    assert wanted is not None  # noqa: S101 - called only with an image
    _refuse_without(wanted)
    file, digest = container_image.found(wanted, request.run_id, say, deadline)
    say(f"image {container_image.name(wanted)}: {file} with sha256 {digest}, {os.path.getsize(file) / 1e9:.1f} GB")
    root = jobs.root()
    check = f"mkdir -p {shlex.quote(root)} && echo {shlex.quote(digest + '  ' + file)} | sha256sum --check --quiet --strict -"
    answers = fanout.each(request.nodes, check, b"", max(deadline - time.monotonic(), 1))
    container_image.refuse_missing(request.nodes, answers, "see it")
    name = "busbar-" + digest[:16]
    inside = Inside(name, "", {}, {}, {}, runtime="pyxis", srun=_srun(file, name, root), node=request.nodes[0])
    asking = os.path.join(here, "asking.sh")
    with jobs.text(asking, "w") as target:
        target.write(_script({}))
    homes = installed.inside(wanted.homes, _ask(inside, asking, installed.script(wanted.homes)))
    versions = container_image.read_versions(_ask(inside, asking, container_image.versions_script(homes)))
    image = {"reference": container_image.name(wanted), "file": file, "sha256": digest, "bytes": os.path.getsize(file)}
    versions.update(image=container_image.name(wanted), image_sha256=digest)
    return inside._replace(conf=_script(homes), homes=homes, image=image, versions=versions)


def _refuse_without(wanted: Image) -> None:
    """Refuse a Slurm without Pyxis, which starts tasks in containers, or without PMIx, by which such tasks find each other."""
    for words, lacks in (
        (["srun", "--help"], ("--container-image", "Pyxis; set slurm.containers in the stack file")),
        (["srun", "--mpi=list"], ("pmix", "PMIx, by which ranks in containers find each other")),
    ):
        if lacks[0] not in _said(words):
            raise Refusal(f"ranks are to run in {container_image.name(wanted)}, but this Slurm has no {lacks[1]}")


def _said(words: List[str]) -> str:
    with bounded(words, _ASK_TIMEOUT_S) as child:
        return "\n".join(child.lines())


def _ask(inside: Inside, asking: str, script: str) -> str:
    return container_image.ask(inside.alone(asking), script, "first node")


def _srun(file: str, name: str, root: str) -> List[str]:
    """Return the command that starts tasks in the image; the number of tasks and the nodes must be added."""
    return [
        *("env", *(f"{key}={value}" for key, value in _GPUS.items())),
        *("srun", "--jobid=" + os.environ[JOB], "--overlap", "--quiet", "--mpi=pmix", "--cpu-bind=none"),
        # --unbuffered gives tasks a pseudo-terminal, so that each row of the table arrives as soon as it is printed.
        *("--unbuffered", "--kill-on-bad-exit=1", "--export=" + ",".join([*_PASSED, *_GPUS])),
        *("--container-image=" + file, "--container-name=" + name, f"--container-mounts={root}:{root}"),
        *("--container-env=" + ",".join(_GPUS), "--no-container-entrypoint", "--no-container-mount-home"),
    ]


def _script(found: Dict[str, str]) -> str:
    """Return the text of a script that runs in the image.

    The script adds the folders in `found` to the library path, and runs the command that its arguments are.
    """
    return f"""#!/bin/sh
# Runs a command in the container; Pyxis has set the image's own variables.
{container_image.libraries(found)}
exec "$@"
"""
