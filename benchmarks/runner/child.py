"""Runs a child process with a time limit; stops its whole process group at the limit or when the caller stops reading."""

import contextlib
import ctypes
import math
import os
import signal
import subprocess
import threading
import time
from typing import Any, Callable, Iterator, List

_PATIENCE_S = 10
#: prctl(2), and its option PR_SET_PDEATHSIG: the process gets a signal when the thread that started the process exits. prctl
#: is looked up here, before any fork.
_PRCTL, _PDEATHSIG = ctypes.CDLL(None).prctl, 1


class Bounded:
    """A started command; `lines` reads what it prints, `late` tells whether a time limit stopped it.

    The command is stopped when it has printed nothing for `silence_s`; the reader may change this limit.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", silence_s: float) -> None:
        self._process = process
        self.late = False
        self.silence_s = silence_s
        self.heard = time.monotonic()

    def lines(self) -> Iterator[str]:
        """Yield the command's output line by line, to the end."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was requested
        for raw in self._process.stdout:
            self.heard = time.monotonic()
            yield raw.decode("utf-8", "replace").rstrip("\n")

    def status(self) -> int:
        """Wait for the command to finish; return its exit status."""
        return self._process.wait()

    def stop(self) -> None:
        """Stop the command's process group: first with SIGTERM, so that mpirun stops its remote ranks, then with SIGKILL.

        A suspended process reacts only to SIGKILL; without SIGKILL, the process would keep the output open for ever. A process
        that sudo started runs as root, so stopping such a process needs sudo.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:
                with contextlib.suppress(OSError, subprocess.SubprocessError):
                    kill = ["sudo", "-n", "kill", "-s", str(int(number)), "--", f"-{self._process.pid}"]
                    subprocess.run(kill, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_PATIENCE_S, check=False)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_PATIENCE_S)


def _end_with_parent() -> None:
    _PRCTL(_PDEATHSIG, int(signal.SIGTERM))


@contextlib.contextmanager
def bounded(
    argv: List[str],
    timeout_s: float,
    silence_s: float = math.inf,
    before_end: Callable[[], None] = lambda: None,
    **options: Any,
) -> Iterator[Bounded]:
    """Run `argv` in its own process group, with standard error on standard output; stop the command when the context ends.

    The command is also stopped after `timeout_s`, or when it has printed nothing for `silence_s`. Before the command is stopped
    at one of these two limits, `before_end` is called. If this process is killed, the command gets SIGTERM, so that no rank
    keeps running during the next measurement. A command that sudo runs does not get this signal.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=_end_with_parent,  # noqa: PLW1509 - one system call that takes no lock
        **options,
    )
    child = Bounded(process, silence_s)
    deadline, ended = time.monotonic() + timeout_s, threading.Event()

    def watch() -> None:
        while True:
            left_s = min(deadline, child.heard + child.silence_s) - time.monotonic()
            if left_s <= 0:
                break
            if ended.wait(min(left_s, threading.TIMEOUT_MAX)):
                return
        child.late = True
        try:
            before_end()
        finally:
            child.stop()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield child
    finally:
        ended.set()
        if process.poll() is None:
            child.stop()
