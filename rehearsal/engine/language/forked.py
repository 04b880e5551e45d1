"""A program that program_server.py forks, as the language host sees it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import threading
from pathlib import Path

#: Environment variable with the path of the server's socket.
SERVER = "REHEARSED_PROGRAMS"


class Forked:
    """One running program; it has the methods of a Popen that the language host uses."""

    def __init__(self, server: str, python: str, argv: list[str], environment: dict[str, str]) -> None:
        asked = {"python": python, "argv": argv, "environment": environment, "folder": str(Path.cwd())}
        data = json.dumps(asked).encode()
        self._server = socket.socket(socket.AF_UNIX)
        self._server.connect(server)
        network = os.open("/proc/self/ns/net", os.O_RDONLY)
        socket.send_fds(self._server, [len(data).to_bytes(8, "big")], [1, 2, network])
        os.close(network)
        self._server.sendall(data)
        self._lock = threading.Lock()
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the program runs."""
        with self._lock:
            if self._status is None and select.select([self._server], [], [], 0)[0]:
                said = self._server.recv(64)
                self._status = int(said) if said else -signal.SIGKILL  # when the server ends, it kills its programs
            return self._status

    def wait(self) -> int:
        """Wait for the program's end and return the exit status."""
        while (status := self.poll()) is None:
            select.select([self._server], [], [])
        return status

    def send_signal(self, number: int) -> None:
        """Send a signal to the program."""
        with contextlib.suppress(ConnectionError):
            self._server.sendall(bytes([number]))

    def kill(self) -> None:
        """Kill the program."""
        self.send_signal(signal.SIGKILL)

    def close(self) -> None:
        """Close the connection, as the end of this host's process does; the server then kills the program."""
        self._server.close()
