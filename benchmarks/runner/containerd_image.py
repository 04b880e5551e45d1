"""Installs a container image on this node with containerd.

The program pulls the image, checks that the image sees the GPUs, and writes a script that runs commands in the image.

sudo starts nerdctl, because containerd belongs to root; processes in the container run as the user of this program. The image's
own mpirun starts the ranks, so the node needs no MPI. The image's entry point is not run, because NVIDIA's entry point prints a
page of text.
Sources: nerdctl 2.2.0, docs/command-reference.md; ocitutorials, benchmark/run-nccltests (the options of `nerdctl run`).
"""

import json
import os
import re
import shlex
import shutil
import time
from collections import Counter
from typing import Any, Dict, List, Tuple

from benchmarks.launch.protocol import Build
from benchmarks.runner import installed, jobs
from benchmarks.runner.child import bounded
from benchmarks.runner.container_image import Inside, libraries, read_versions, versions_script
from benchmarks.runner.refusal import Refusal

_NAME = "busbar"
_ASK_TIMEOUT_S = 300
_GPUS = "nvidia-smi --query-gpu=name,driver_version --format=csv,noheader"
#: Marker of every line that nerdctl itself logs (logrus), and the levels of its error messages.
_OWN, _LEVELS = "level=", ("fatal", "error")


def commands(request: Build, make: List[str]) -> List[str]:
    """Return what a person would type on the node to get the image and to build programs in the image."""
    image = _reference(request)
    # The words of `make` are not quoted: their shell variables name folders that are known only inside the image.
    return [_typed([*_nerdctl(), "pull", image]), _typed(_run(image)) + " " + " ".join(make)]


def prepare(request: Build, here: str, say: jobs.Say) -> Inside:
    """Get the image onto this node, and check that the image sees every GPU and that programs can be built in it.

    Raises:
        Refusal: containerd is missing, the image cannot be pulled or does not see every GPU, or nothing can be built in it.
    """
    deadline = time.monotonic() + request.timeout_s
    wanted, image = request.container, _reference(request)
    assert wanted is not None  # noqa: S101 - called only with an image
    if not shutil.which("nerdctl"):
        raise Refusal(f"the node has no nerdctl, but ranks are to run in {image}; first boot installs nerdctl on new machines")
    found = _inspected(image) or _pulled(image, say, deadline)
    digest = str(found.get("Id", "")).partition(":")[2]
    if len(digest) != 64:  # noqa: PLR2004 - a sha256 in hexadecimal
        raise Refusal(f"nerdctl reports no digest of {image}, so nobody could tell later what was measured")
    say(f"image {image}: sha256 {digest}")
    asking = os.path.join(here, "asking.sh")
    with jobs.text(asking, "w") as target:
        target.write(_script(image, {}))
    gpus = _gpus_inside(image, asking)
    homes = installed.inside(wanted.homes, _ask(image, asking, installed.script(wanted.homes)))
    versions = read_versions(_ask(image, asking, versions_script(homes)))
    if "mpi" not in versions:
        raise Refusal(
            f"{image} has no mpirun in {homes['MPI_HOME']}, but the image's own mpirun must start the ranks: use another image"
        )
    line = {"reference": image, "file": "", "sha256": digest, "bytes": int(found.get("Size") or 0)}
    versions.update(image=image, image_sha256=digest, mpirun=versions["mpi"], gpus_inside=gpus, containerd=_containerd())
    return Inside(_NAME, _script(image, homes), homes, line, versions, homes["MPI_HOME"], "containerd")


def _nerdctl() -> List[str]:
    """Return the words that run nerdctl as root, by its full path, because Oracle Linux's sudo skips /usr/local/bin."""
    return ["sudo", "-n", shutil.which("nerdctl") or "/usr/local/bin/nerdctl"]


def _typed(words: List[str]) -> str:
    return " ".join(map(shlex.quote, words))


def _reference(request: Build) -> str:
    assert request.container is not None  # noqa: S101 - called only with an image
    return str(request.container.uri)


def _run(image: str) -> List[str]:
    """Return the prefix of a command that runs in the image."""
    root, home = jobs.root(), os.path.expanduser("~")
    mounts = [f"{root}:{root}", "/etc/passwd:/etc/passwd:ro", "/etc/group:/etc/group:ro"]
    return [
        *(*_nerdctl(), "run", "--rm", "--name", _NAME, "--pull=never", "--network=host", "--uts=host", "--ipc=host"),
        *("--ulimit", "memlock=-1", "--ulimit", "stack=67108864", "--device", "nvidia.com/gpu=all"),
        *("--user", f"{os.getuid()}:{os.getgid()}", "--env", f"HOME={home}"),
        *(word for mount in mounts for word in ("--volume", mount)),
        *("--entrypoint", "/usr/bin/env", image),
    ]


def _script(image: str, found: Dict[str, str]) -> str:
    """Return a script that removes a container that a killed run left behind, then runs its arguments in the image."""
    quoted = _typed([*_run(image), "sh", "-c", libraries(found) + '; exec "$@"', "sh"])
    return f"""#!/bin/sh
# Runs a command in the container image: as this user, with every GPU by CDI, on the node's own network.
{_typed([*_nerdctl(), "rm", "--force", _NAME])} > /dev/null 2>&1
exec {quoted} "$@"
"""


def _inspected(image: str) -> Dict[str, Any]:
    """Return what containerd knows about an image; empty if it has no image of that name."""
    status, lines = _said([*_nerdctl(), "image", "inspect", image])
    if status != 0:
        return {}
    try:
        found = json.loads("\n".join(line for line in lines if _OWN not in line))
    except ValueError:
        return {}
    return dict(found[0]) if isinstance(found, list) and found and isinstance(found[0], dict) else {}


def _pulled(image: str, say: jobs.Say, deadline: float) -> Dict[str, Any]:
    say(f"pulling {image}")
    said = []  # type: List[str]
    with bounded([*_nerdctl(), "pull", image], max(deadline - time.monotonic(), 1), cwd=os.path.expanduser("~")) as child:
        said.extend(child.lines())
        status = child.status()
    if child.late:
        raise Refusal(f"the image {image} was not pulled in time; nerdctl's last line: {_cause(said)}")
    if status != 0:
        raise Refusal(f"containerd did not pull {image}: {_cause(said)}")
    return _inspected(image)


def _gpus_inside(image: str, script: str) -> str:
    """Return GPUs and driver as `nvidia-smi` inside the image reports them; refuse an image that does not see all GPUs."""
    node = sorted(_said(_GPUS.split())[1])
    status, lines = _said(["sh", script, *_GPUS.split()])
    inside = sorted(line for line in lines if _OWN not in line)
    if status != 0 or inside != node:
        seen = f"sees {len(inside)} of the node's {len(node)} GPUs" if status == 0 else _cause(lines)
        raise Refusal(
            f"nvidia-smi in {image}: {seen}; containers get GPUs from the CDI specification that `nvidia-ctk cdi generate` "
            "writes (`nvidia-ctk cdi list` on the node shows it)"
        )
    return "; ".join(f"{count} x {name}" for name, count in sorted(Counter(inside).items()))


def _ask(image: str, script: str, text: str) -> str:
    status, lines = _said(["sh", script, "sh", "-c", text])
    if status != 0:
        raise Refusal(f"the image {image} does not start on the node, or cannot answer: {_cause(lines)}")
    return "\n".join(lines)


def _containerd() -> str:
    return (_said(["containerd", "--version"])[1] or [""])[0]


def _said(words: List[str]) -> Tuple[int, List[str]]:
    """Return the exit status of a command, and all lines that it printed except empty lines."""
    try:
        with bounded(words, _ASK_TIMEOUT_S, cwd=os.path.expanduser("~")) as child:
            lines = [line.strip() for line in child.lines() if line.strip()]
            return child.status(), lines
    except OSError as error:
        return 127, [str(error)]


def _cause(said: List[str]) -> str:
    """Return nerdctl's reason for failing: a line of its log marked fatal or error, otherwise the last line that it printed."""
    lines = [line.strip() for line in said if line.strip()]
    telling = [line for line in lines if any(f"{_OWN}{level}" in line for level in _LEVELS)]
    line = (telling or lines[-1:] or ["it printed nothing"])[0]
    told = re.search(r'msg="((?:[^"\\]|\\.)*)"', line)
    return (told.group(1).replace('\\"', '"') if told else line)[:500]
