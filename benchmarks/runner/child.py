"""Runs a child process with a time limit, and stops its whole process group at the limit or when the reader ends."""

import contextlib
import os
import signal
import subprocess
import threading
from typing import Any, Iterator, List

_PATIENCE_S = 10


class Bounded:
    """A started command; `lines` reads what it prints, `late` says whether the time limit ended it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.late = False

    def lines(self) -> Iterator[str]:
        """Yield its output line by line, to the end."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        for raw in self._process.stdout:
            yield raw.decode("utf-8", "replace").rstrip("\n")

    def status(self) -> int:
        """Wait for its end; return its exit status."""
        return self._process.wait()

    def stop(self) -> None:
        """End its process group: first with SIGTERM, so that mpirun ends its ranks on other nodes, then with SIGKILL."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)
                return


@contextlib.contextmanager
def bounded(argv: List[str], timeout_s: float, **options: Any) -> Iterator[Bounded]:
    """Run `argv` in its own process group for at most `timeout_s`, standard error on standard output; stop it on leaving."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, **options
    )
    child = Bounded(process)

    def expire() -> None:
        child.late = True
        child.stop()

    timer = threading.Timer(timeout_s, expire)
    timer.daemon = True
    timer.start()
    try:
        yield child
    finally:
        timer.cancel()
        if process.poll() is None:
            child.stop()
