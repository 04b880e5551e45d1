"""Installs a container image on every node with enroot: imports it once, checks its sha256, unpacks it, reads its versions.

As with Slurm's Pyxis, an image's entry point is not run, because NVIDIA's entry points print a banner for each rank.
"""

import hashlib
import os
import re
import shlex
import shutil
import stat
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from benchmarks.launch import pyxis
from benchmarks.launch.protocol import Build, Image, Node
from benchmarks.runner import fanout, installed, jobs
from benchmarks.runner.child import bounded
from benchmarks.runner.refusal import Refusal

#: Prefixes of the variables that MPI and NCCL read. No other variable of the node enters the container, in particular not the
#: node's LD_LIBRARY_PATH.
_PASSED = ("NCCL_", "FI_", "UCX_", "HCOLL_", "CUDA_", "OMPI_", "PMIX_", "PRTE_MCA_")
_ASK_TIMEOUT_S = 300
_CHUNK_BYTES = 1 << 20
#: Folders through which a node's MPI daemons and its ranks communicate.
_SHARED_FOLDERS = ("/tmp",)  # noqa: S108 - Open MPI's own choice
_VERSION = "busbar version"


class Inside(NamedTuple):
    """An image that is ready on all nodes.

    Attributes:
        name: the name of the image's container on every node.
        conf: text of enroot's configuration file for the image (environment, mounts and command). With containerd or Pyxis:
            text of the script that runs a command in the image.
        homes: folders of MPI, CUDA and NCCL in the image.
        image: the image's reference, file, sha256 and size in bytes.
        versions: versions of the components in the image, by name, as far as they could be read.
        mpirun_home: folder in the image of the mpirun that starts ranks; empty if the node's mpirun or Slurm starts them.
        runtime: the program that runs the image: enroot, containerd or pyxis.
        srun: with pyxis, the command that starts tasks in the image, without options for the number of tasks and the nodes.
        node: with pyxis, the node on which the programs are built in the image.
    """

    name: str
    conf: str
    homes: Dict[str, str]
    image: Dict[str, Any]
    versions: Dict[str, str]
    mpirun_home: str = ""
    runtime: str = "enroot"
    srun: Optional[List[str]] = None
    node: Optional[Node] = None

    def start(self, conf: str) -> List[str]:
        """Return the prefix of a command that runs in the image; `conf` is the path of the file with the text `self.conf`."""
        if self.srun:
            return [*self.srun, "/bin/sh", conf]
        return ["sh", conf] if self.runtime == "containerd" else _start(self.name, conf)

    def alone(self, conf: str) -> List[str]:
        """Return the prefix of a command that runs in the image once, on this node."""
        return pyxis.placed(self.start(conf), [self.node], 1) if self.node else self.start(conf)


def commands(request: Build) -> List[str]:
    """Return what a person would type on the head node to get the image, and on every node to unpack it."""
    wanted = request.container
    assert wanted is not None  # noqa: S101 - called only with an image
    file = wanted.path or _place(wanted)
    words = [] if wanted.path else [["enroot", "import", "--output", file, wanted.uri]]
    return [" ".join(map(shlex.quote, line)) for line in [*words, ["enroot", "create", "--name", "busbar", file]]]


def prepare(request: Build, mpirun: str, here: str, say: jobs.Say) -> Inside:
    """Get the image onto all nodes and read its versions; `mpirun` is the version that the head node's mpirun prints.

    Raises:
        Refusal: the image is missing or is not the pinned one, a node failed to unpack it, or nothing can be built in it.
    """
    deadline = time.monotonic() + request.timeout_s
    wanted = request.container
    assert wanted is not None  # noqa: S101 - called only with an image
    if not shutil.which("enroot"):
        raise Refusal(f"the head node has no enroot, but ranks are to run in {name(wanted)}; install enroot on every node")
    file, digest = found(wanted, request.run_id, say, deadline)
    say(f"image {name(wanted)}: {file} with sha256 {digest}, {os.path.getsize(file) / 1e9:.1f} GB")
    if not wanted.path and not wanted.shared:
        refuse_missing(request.nodes, fanout.send(request.nodes, file, digest, deadline - time.monotonic()), "take it")
    box = "busbar-" + digest[:16]
    _unpack(request.nodes, file, digest, box, say, deadline)
    asking = os.path.join(here, "asking.conf")
    with jobs.text(asking, "w") as target:
        target.write(_conf({}))
    homes = installed.inside(wanted.homes, ask(_start(box, asking), installed.script(wanted.homes)))
    versions = read_versions(ask(_start(box, asking), versions_script(homes)))
    _refuse_other_mpi(versions.get("mpi", ""), mpirun, name(wanted))
    image = {"reference": name(wanted), "file": file, "sha256": digest, "bytes": os.path.getsize(file)}
    versions.update(image=name(wanted), image_sha256=digest, mpirun=mpirun)
    return Inside(box, _conf(homes), homes, image, versions)


def name(wanted: Image) -> str:
    """Return the image as the stack file names it."""
    return str(wanted.uri or wanted.path)


def _start(name: str, conf: str) -> List[str]:
    return ["enroot", "start", "--conf", conf, name]


def _place(wanted: Image) -> str:
    """Return the path of an imported image's file, the same on every node."""
    base = os.path.join(wanted.shared, ".busbar") if wanted.shared else jobs.root()
    return os.path.join(base, "images", hashlib.sha256(wanted.uri.encode()).hexdigest()[:16] + ".sqsh")


def found(wanted: Image, run_id: str, say: jobs.Say, deadline: float) -> Tuple[str, str]:
    """Return the path of the image's file on this node and its sha256; an image in a registry is imported first.

    Raises:
        Refusal: there is no such file, the file is not the pinned one, or the import failed.
    """
    return _given(wanted) if wanted.path else _imported(wanted, run_id, say, deadline)


def _given(wanted: Image) -> Tuple[str, str]:
    path = str(wanted.path)
    if not os.path.isfile(path):
        raise Refusal(
            f"container is {path}, but the head node has no such file; import the image to that file, or name the image "
            "in its registry"
        )
    digest = _sha256(path)
    if wanted.sha256 and digest != wanted.sha256:
        raise Refusal(f"{path} has sha256 {digest}, but {wanted.sha256} is pinned; nothing was started")
    return path, digest


def _imported(wanted: Image, run_id: str, say: jobs.Say, deadline: float) -> Tuple[str, str]:
    """Import the image unless its file is complete; every import makes a different file, so an existing file is kept."""
    file = _place(wanted)
    if wanted.shared:
        _own(os.path.dirname(os.path.dirname(file)), os.path.dirname(file))
    proof = file + ".sha256"
    if os.path.exists(file) and os.path.exists(proof):
        digest = _sha256(file)
        with jobs.text(proof) as source:
            if source.read().split()[:1] == [digest]:
                say("the image is already imported")
                return file, digest
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    part = f"{file}.{run_id}"
    if os.path.exists(part):
        os.unlink(part)  # enroot does not overwrite files
    words = ["enroot", "import", "--output", part, wanted.uri]
    say(f"importing {wanted.uri}")
    said = []
    with bounded(words, max(deadline - time.monotonic(), 1), cwd=os.path.expanduser("~")) as child:
        for line in child.lines():
            said.append(line)
            if line.startswith("["):
                say(line)
        status = child.status()
    if (child.late or status != 0) and os.path.exists(part):
        os.unlink(part)
    if child.late:
        raise Refusal(f"the image {wanted.uri} was not imported in time; enroot's last line: {cause(said)}")
    if status != 0:
        raise Refusal(f"enroot did not import {wanted.uri}: {cause(said)}")
    digest = _sha256(part)
    with jobs.text(proof, "w") as target:
        target.write(f"{digest}  {file}\n")
    os.rename(part, file)
    return file, digest


def _own(*folders: str) -> None:
    """Create `folders`, each in the previous one, accessible only to the login user, because the file system is shared.

    Raises:
        Refusal: another user created one of these folders first or can write to it, and so could put another image there.
    """
    os.makedirs(os.path.dirname(folders[0]), exist_ok=True)
    for folder in folders:
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            found = os.lstat(folder)
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
                raise Refusal(
                    f"{folder} is not a folder that only the login user can write to, so the image in it cannot be trusted; "
                    "remove the folder; nothing was started"
                ) from None


def cause(said: List[str]) -> str:
    """Return the reason that enroot printed for its failure."""
    errors = [line for line in said if "[ERROR]" in line] or [line for line in said if line.strip()][-1:] or ["no output"]
    return errors[0].replace("[ERROR]", "").strip()[:500]


def _unpack(  # noqa: PLR0913, PLR0917 - one file on many nodes
    nodes: List[Node], file: str, digest: str, name: str, say: jobs.Say, deadline: float
) -> None:
    """Make every node check the file and unpack it below that node's ENROOT_DATA_PATH."""
    say(f"unpacking the image on {len(nodes)} nodes")
    made = f".busbar/images/{name}.made"
    command = f"""set -e
cd "$HOME"
command -v enroot > /dev/null || {{ echo 'there is no enroot' >&2; exit 1; }}
echo '{digest}  {file}' | sha256sum --check --quiet --strict -
if [ -e {made} ] && enroot list | grep -qx {name}; then exit 0; fi
enroot create --force --name {name} {shlex.quote(file)} > /dev/null
mkdir -p .busbar/images && touch {made}"""
    refuse_missing(nodes, fanout.each(nodes, command, b"", max(deadline - time.monotonic(), 1)), "unpack it")


def refuse_missing(nodes: List[Node], answers: List[fanout.Answer], what: str) -> None:
    """Refuse an image that some nodes did not take, unpack or see."""
    missing = [f"{node.name} ({answer.why})" for node, answer in zip(nodes, answers) if answer.status != 0]
    if missing:
        raise Refusal("the image is not on every node: {} did not {}".format("; ".join(missing), what))


def ask(start: List[str], script: str, node: str = "head node") -> str:
    """Return the output of a shell script in the image; `start` is the prefix of a command that runs in the image.

    `node` is the node's name in messages.

    Raises:
        Refusal: the script failed.
    """
    with bounded([*start, "sh", "-c", script], _ASK_TIMEOUT_S, cwd=os.path.expanduser("~")) as child:
        said = list(child.lines())
        status = child.status()
    if status != 0:
        raise Refusal(f"the image does not start on the {node}: {cause(said)}")
    return "\n".join(said)


def versions_script(found: Dict[str, str]) -> str:
    """Return a shell script that prints, inside an image, the versions that the script can find."""
    packages = "/opt/amazon/efa_installed_packages"
    numbers = '\'$1 == "#define" && $2 ~ /^NCCL_(MAJOR|MINOR|PATCH)$/ {v = v s $3; s = "."} END {print v}\''
    asked = {
        "mpi": "{}/bin/mpirun --version | head -n 1".format(found["MPI_HOME"]),
        "nccl": "awk {} {}/include/nccl.h".format(numbers, found["NCCL_HOME"]),
        "cuda": 'basename "$(readlink -f {})"'.format(found["CUDA_HOME"]),
        "efa": f"sed -n 's/^# EFA installer version: //p' {packages}",
        "plugin": f"tr ' ' '\\n' < {packages} | sed -n 's/^libnccl-ofi[_-]\\([0-9.]*[0-9]\\).*/\\1/p' | head -n 1",
    }
    return "\n".join([*(f'echo "{_VERSION} {part} $({{ {ask}; }} 2>/dev/null)"' for part, ask in asked.items()), "true"])


def read_versions(printed: str) -> Dict[str, str]:
    """Return the versions by name from what `versions_script` printed."""
    rows = [line[len(_VERSION) + 1 :].split(" ", 1) for line in printed.splitlines() if line.startswith(_VERSION + " ")]
    return {row[0]: row[1].strip() for row in rows if len(row) > 1 and row[1].strip()}


def _refuse_other_mpi(inside: str, outside: str, image: str) -> None:
    """Refuse an image whose Open MPI has another major version than the head node's.

    Otherwise ranks would hang in MPI_Init or start as one-rank jobs.
    """
    majors = [re.search(r"\b(\d+)\.\d+", text) for text in (inside, outside)]
    if majors[0] and majors[1] and majors[0].group(1) != majors[1].group(1):
        raise Refusal(
            f"the head node starts ranks with {outside!r}, but {image} has {inside!r}; both must have the same major version: "
            "use another image"
        )


def libraries(homes: Dict[str, str]) -> str:
    """Return the shell command by which a program in the image finds MPI, NCCL and CUDA.

    The image's own LD_LIBRARY_PATH comes first, because training in the image uses that path.
    """
    folders = [f"{homes[key]}/{folder}" for key in ("MPI_HOME", "NCCL_HOME") if key in homes for folder in ("lib", "lib64")]
    folders += [homes["CUDA_HOME"] + "/lib64"] if "CUDA_HOME" in homes else []
    own = ":".join(folders)
    return f'export LD_LIBRARY_PATH="${{LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}}{own}"' if folders else ":"


def _conf(homes: Dict[str, str]) -> str:
    """Return enroot's configuration: which variables enter the container, the mounts, and a start without the entry point."""
    mounts = [*_SHARED_FOLDERS, jobs.root()]
    return """# How a command runs in the container: of the node's variables, it gets only those that MPI and NCCL read.
environ() {{
  for name in $(compgen -e); do
    case $name in {passed}) printf '%s=%s\\n' "$name" "${{!name}}" ;; esac
  done
  printf '%s\\n' HOME={home} NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
  # Each rank of a node is in its own user namespace, so no rank can read another rank's memory.
  echo OMPI_MCA_btl_vader_single_copy_mechanism=none
}}
mounts() {{
  printf '%s %s none x-create=dir,bind,rw\\n' {mounts}
}}
rc() {{
  {libraries}
  exec "$@"
}}
""".format(
        passed=" | ".join(prefix + "*" for prefix in _PASSED),
        home=os.path.expanduser("~"),
        mounts=" ".join(f"{folder} {folder}" for folder in mounts),
        libraries=libraries(homes),
    )


def _sha256(path: str) -> str:
    """Return the sha256 of a file, which may be larger than memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        for chunk in iter(lambda: source.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
    return digest.hexdigest()
