"""Runs a command on many nodes at once, with a limit on connections and on time; failures are returned as data.

A command goes over SSH, or, in pods and Slurm jobs, through the program that replaces ssh. Over SSH, the command shares a
connection that `keep` opened, or opens a new connection.
"""

import contextlib
import os
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, List, NamedTuple, Sequence, Union

from benchmarks.launch import placeholders
from benchmarks.launch.protocol import Node

#: How many connections are open at the same time. Each goes to a different host, so sshd's MaxStartups (10 unauthenticated
#: connections by default) does not limit this number. The reason for a limit: each connection is a process on the head node.
WINDOW = 32
#: How long to wait for the output of a killed program.
_PATIENCE_S = 5
#: Command that starts Python on any node, without the user's environment and site packages: environment and packages must not
#: change results, and loading the packages takes a third of the start-up time.
PYTHON = "python3 -IS"
#: The program that replaces ssh; its arguments are an address and a command. Pods have such a program (manifests/ranks.py), and
#: so do Slurm jobs (slurm_job.py).
_OWN_SHELL = os.environ.get(placeholders.REMOTE_SHELL, "")
_PERSIST_S = 60
_KEEP_TIMEOUT_S = 20


def shared() -> str:
    """Return the path, in ssh's notation, of the sockets of connections that are kept open; empty if none are kept open.

    No connection is kept open if a program replaces ssh, or if the socket's path would be too long. The limit is 104 bytes on
    some systems; ssh expands %C to 40 bytes, and adds 17 bytes while it creates the socket.
    """
    folder = "~/.busbar/ssh"
    if _OWN_SHELL:
        return ""
    return folder + "/%C" if len(os.path.expanduser(folder)) + 1 + 40 + 17 < 104 else ""  # noqa: PLR2004 - explained above


_SSH = (
    "ssh",
    *("-o", "BatchMode=yes"),
    *("-o", "StrictHostKeyChecking=yes"),
    # A machine image's ssh_config may set this option to /dev/null (oci-hpc-images does), but the nodes' host keys are in
    # ~/.ssh/known_hosts.
    *("-o", "UserKnownHostsFile=~/.ssh/known_hosts"),
    *("-o", "ConnectTimeout=15"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=4"),
    *(("-o", "ControlPath=" + shared()) if shared() else ()),
)
#: Beginning of the command line that runs a command on another node; the node's address and the command are appended.
SSH = (_OWN_SHELL,) if _OWN_SHELL else _SSH


class Answer(NamedTuple):
    """The answer of one node: exit `status` (255: SSH failed, 124: timed out), standard output and error."""

    status: int
    out: str
    err: str

    @property
    def why(self) -> str:
        """Return the last line that a failed command printed."""
        lines = (self.err.strip() or self.out.strip() or "no output").splitlines()
        return lines[-1]


def keep(nodes: Sequence[Node]) -> None:
    """Open a connection to every node except the first; later commands to a node, and mpirun, share this connection.

    A connection closes after an idle minute. Failures are ignored, because the next command to the node reports them.
    """
    if not shared():
        return
    os.makedirs(os.path.expanduser(os.path.dirname(shared())), mode=0o700, exist_ok=True)
    kept = ("-o", "ControlMaster=auto", "-o", f"ControlPersist={_PERSIST_S}")

    def open_to(node: Node) -> None:
        # The background process of older ssh versions keeps standard error open, so standard error is discarded.
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen([*SSH, *kept, node.address, "true"], **silent)  # type: ignore[call-overload]
        try:
            process.wait(_KEEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    with ThreadPoolExecutor(max_workers=WINDOW) as pool:
        list(pool.map(open_to, nodes[1:]))


def each(nodes: Sequence[Node], command: str, stdin: bytes, timeout_s: float) -> List[Answer]:
    """Run the shell `command` with `stdin` on every node, of which the first is this machine; return the answers in order."""
    local = nodes[0].address

    def ask(node: Node) -> Answer:
        if node.address == local:
            return _ask(["sh", "-c", command], stdin, timeout_s)
        return on(node.address, command, stdin, timeout_s)

    with ThreadPoolExecutor(max_workers=WINDOW) as pool:
        return list(pool.map(ask, nodes))


def beginnings(nodes: Sequence[Node], code: str) -> List[List[str]]:
    """Return, for each node, the command that runs the Python `code` there, unbuffered; the first node is this machine."""
    remote = f"{PYTHON} -u -c {shlex.quote(code)}"
    local = [*PYTHON.split(), "-u", "-c", code]
    return [local if index == 0 else [*SSH, node.address, remote] for index, node in enumerate(nodes)]


def send(nodes: Sequence[Node], path: str, digest: str, timeout_s: float) -> List[Answer]:
    """Copy the file `path` to the same path on every node, except where a file with the sha256 `digest` is already there.

    Return one answer for each node, in order. The file appears complete or not at all. `send` does not read the whole file
    into memory, because a container image has many GB.
    """
    there = shlex.quote(path)
    check, check_part = (
        f"echo {shlex.quote(digest + '  ' + name)} | sha256sum --check --quiet --strict - 2> /dev/null"
        for name in (path, path + ".part")
    )
    part = shlex.quote(path + ".part")
    # If the connection breaks, `cat` ends as if the file were complete, so the copy is checked before it gets its final name.
    take = f"mkdir -p {shlex.quote(os.path.dirname(path))} && cat > {part} && {check_part} && mv {part} {there}"
    local = nodes[0].address
    deadline = time.monotonic() + timeout_s

    def copy(node: Node) -> Answer:
        if node.address == local:
            return Answer(0, "", "")
        found = on(node.address, check, b"", max(deadline - time.monotonic(), 1))
        if found.status in (0, 255):
            return found
        with open(path, "rb") as source:
            return _ask([*SSH, node.address, take], source, max(deadline - time.monotonic(), 1))

    with ThreadPoolExecutor(max_workers=WINDOW) as pool:
        return list(pool.map(copy, nodes))


def on(address: str, command: str, stdin: bytes, timeout_s: float) -> Answer:
    """Run the shell `command` on another node."""
    return _ask([*SSH, address, command], stdin, timeout_s)


def _ask(argv: List[str], stdin: Union[bytes, BinaryIO], timeout_s: float) -> Answer:
    """Run `argv` with `stdin`, which is bytes or an open file."""
    began = time.monotonic()
    given, source = (stdin, subprocess.PIPE) if isinstance(stdin, bytes) else (None, stdin.fileno())
    process = subprocess.Popen(argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        out, err = process.communicate(given, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # a child of the program may hold the pipes open
            process.communicate(timeout=_PATIENCE_S)
        return Answer(124, "", f"no answer within {time.monotonic() - began:.0f} s")
    return Answer(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def source_of(module: object) -> bytes:
    """Return the source text of one of the runner's modules, to run the module on a node with `python3 -`."""
    name = module.__name__  # type: ignore[attr-defined]
    return str(module.__loader__.get_source(name)).encode()  # type: ignore[attr-defined]
