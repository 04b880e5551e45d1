"""Starts programs for language hosts by forking: this process has imported the SDKs, so that no program of a test imports them.

program_server.py SOCKET    serve until standard input is closed

A language host connects once per program. It sends the length of a JSON document (8 bytes), the document and three descriptors:
the program's standard output, its standard error and the host's network namespace. Each further byte from the host is a signal
for the program. When the program has ended, the host gets the program's exit status as a line, negative for a signal. If the
host disappears, the program is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, cast

import pydantic
import yaml
from pulumi_aws import cloudcontrol, ec2, fsx, iam, s3, servicequotas, ssm, vpc
from pulumi_command import local, remote
from pulumi_oci import core, filestorage, limits, lustre

#: The clouds' SDKs load a module when a name in it is first used. So one name of every module that programs use is listed here.
#: A program's own modules are not imported, because a program may belong to another checkout.
LOADED = (
    *(pydantic.BaseModel, yaml.safe_dump, local.Command, remote.Command),
    *(core.Vcn, filestorage.FileSystem, limits.get_limit_values, lustre.FileStorageLustreFileSystem),
    *(cloudcontrol.Resource, ec2.Instance, fsx.LustreFileSystem, iam.Role, s3.Bucket, servicequotas.get_service_quota),
    *(ssm.Parameter, vpc.SecurityGroupEgressRule),
)
DESCRIPTORS = 3
_CLONE_NEWNET = 0x40000000


class _Started(BaseException):
    """Raised in the new process: leaves the server's loop."""

    def __init__(self, asked: dict[str, Any], descriptors: list[int]) -> None:
        super().__init__()
        self.asked, self.descriptors = asked, descriptors


class Server:
    """Forks programs and reports how they ended."""

    def __init__(self, path: str) -> None:
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._running: dict[int, socket.socket] = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()

    def serve(self) -> None:
        """Serve until standard input is closed; then kill the programs that still run."""
        while True:
            hosts = {host: pid for pid, host in self._running.items()}
            ready, _, _ = select.select([sys.stdin.buffer, self._woken, self._listener, *hosts], [], [])
            if sys.stdin.buffer in ready:
                break
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if self._listener in ready:
                self._accept()
            for host, pid in hosts.items():
                if host in ready and pid in self._running:
                    self._signal(host, pid)
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)

    def _accept(self) -> None:
        host, _ = self._listener.accept()
        data, descriptors, _, _ = socket.recv_fds(host, 8, DESCRIPTORS)
        size, data = int.from_bytes(data, "big"), b""
        while len(data) < size:
            data += host.recv(size - len(data))
        pid = os.fork()
        if pid == 0:
            for other in (host, self._listener, *self._running.values()):
                other.close()
            raise _Started(json.loads(data), list(descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        self._running[pid] = host

    def _signal(self, host: socket.socket, pid: int) -> None:
        try:
            numbers = host.recv(64)
        except ConnectionError:
            numbers = b""
        for number in numbers or bytes([signal.SIGKILL]):
            os.kill(pid, number)
        if not numbers:  # nobody waits for this program any more
            self._running.pop(pid).close()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if host := self._running.pop(pid, None):
                    with contextlib.suppress(ConnectionError):
                        host.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
                    host.close()


def _become(asked: dict[str, Any], descriptors: list[int]) -> None:
    """Make this process look as if Python had just started with the arguments of `asked`."""
    output, errors, network = descriptors
    if ctypes.CDLL(None, use_errno=True).setns(network, _CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    sys.executable = asked["python"]
    sys.argv = asked["argv"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    for stream in (sys.stdout, sys.stderr):
        cast("io.TextIOWrapper", stream).reconfigure(write_through=True)  # as `python -u` does


def main(path: str) -> None:
    """Serve; the SDKs were imported with this module."""
    gc.freeze()  # a garbage collection in a program would otherwise copy all shared memory
    try:
        Server(path).serve()
    except _Started as started:
        _become(started.asked, started.descriptors)
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1])
