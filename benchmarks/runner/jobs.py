"""Runs detached work under a run id: the work starts once, can be found after a lost connection, and its result is kept.

The folder `~/.busbar/runs/RUN_ID` has request.json and progress.log, and at the end line.json (done) or failed.txt. The worker
holds a lock as long as it lives, so nobody waits for a dead worker.
"""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import time
from typing import IO, Any, Callable, Dict, Optional

from benchmarks.launch import protocol
from benchmarks.runner.refusal import Refusal

#: Longest line that a runner may print: the line goes into Pulumi's state files and messages.
LINE_LIMIT_BYTES = 64 * 1024
#: How long to keep waiting for a result after the worker's time limit has passed.
_GRACE_S = 300
_POLL_S = 0.05
#: Tries to take a run's lock, and the pause between two tries.
_LOCK_TRIES, _BETWEEN_LOCKS_S = 100, 0.01
#: Bytes to write when checking for free disk space: more than any file of a run except the run's evidence.
ROOM_BYTES = 1 << 20
Say = Callable[[str], None]


def root() -> str:
    """Return the runner's folder on this node."""
    return os.path.join(os.path.expanduser("~"), ".busbar")


def folder(run_id: str) -> str:
    """Return the folder of one run."""
    if not run_id.isalnum():
        raise Refusal(f"run id {run_id!r} is invalid: only letters and digits are allowed")
    return os.path.join(root(), "runs", run_id)


def submit(request: protocol.Request) -> None:
    """Start the request's work unless it is running or done."""
    here = folder(request.run_id)
    os.makedirs(here, mode=0o700, exist_ok=True)
    with open(os.path.join(here, "worker.lock"), "w") as lock:
        if not _locked(here, lock):
            return  # a worker is running
        if os.path.exists(os.path.join(here, "line.json")):
            return  # the work is done
        for leftover in ("failed.txt", "progress.log"):
            if os.path.exists(os.path.join(here, leftover)):
                os.unlink(os.path.join(here, leftover))
        write(os.path.join(here, "request.json"), json.dumps(protocol.data(request)))
        with open(os.path.join(here, "worker.log"), "ab") as log:
            subprocess.Popen(
                [sys.executable, "-IS", os.path.abspath(sys.argv[0]), "worker", here],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=os.path.expanduser("~"),
                start_new_session=True,  # outlives this SSH session
                pass_fds=(lock.fileno(),),  # the worker holds the lock from its start
            )


def _locked(here: str, lock: IO[str]) -> bool:
    """Take a run's lock; return false if a worker has it.

    If only a reader in `wait` has the lock, try again: a reader has it only for an instant.
    """
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if _running(here):
                return False
            time.sleep(_BETWEEN_LOCKS_S)
        else:
            return True
    return False


def work(here: str, module_of: Callable[[str], Any]) -> None:
    """Do the work of the request in folder `here`, in the detached process; the files there record the outcome.

    `module_of` returns the module for a kind of request; the function `work` of that module does the work.
    """
    with text(os.path.join(here, "request.json")) as source:
        request = protocol.request(json.load(source))
    progress = os.path.join(here, "progress.log")

    def say(line: str) -> None:
        with text(progress, "a") as target:
            target.write(line.rstrip("\n") + "\n")

    try:
        write(os.path.join(here, "line.json"), _line(protocol.data(module_of(request.kind).work(request, here, say))))
    except Refusal as refusal:
        write(os.path.join(here, "failed.txt"), str(refusal))
    except Exception as error:
        write(os.path.join(here, "failed.txt"), f"the runner itself failed ({error!r}); see {here}/worker.log")
        raise


def _line(result: Dict[str, Any]) -> str:
    text = json.dumps(result, sort_keys=True)
    if len(text.encode()) > LINE_LIMIT_BYTES:
        raise Refusal(f"the result is {len(text)} bytes long, but a line may have at most {LINE_LIMIT_BYTES}")
    return text


def wait(run_id: str, timeout_s: Optional[float]) -> int:
    """Show progress on standard error until the run finishes, then print the run's line; return the exit status.

    Raises:
        Refusal: the run failed, its worker died, or the run takes too long.
    """
    here = folder(run_id)
    if not os.path.isdir(here):
        raise Refusal(f"no run {run_id} is known on this node")
    bound_s = timeout_s or _requested_timeout_s(here)
    # The worker may use its time limit twice: once to wait for another measurement on this node, then to measure.
    deadline = time.monotonic() + 2 * bound_s + _GRACE_S
    shown = 0
    while True:
        running = _running(here)  # the lock is read before the files, so that the worker's last files are not missed
        shown = _show(os.path.join(here, "progress.log"), shown)
        if os.path.exists(os.path.join(here, "line.json")):
            print(_read(os.path.join(here, "line.json")))
            return 0
        if os.path.exists(os.path.join(here, "failed.txt")):
            raise Refusal(_read(os.path.join(here, "failed.txt")))
        if not running:
            raise Refusal(f"the work on the head node ended without a result; {_cause(here)}")
        if time.monotonic() > deadline:
            limit = f"{int(bound_s)} s of waiting and {int(bound_s)} s of work"
            raise Refusal(f"run {run_id} is still running, although its limit is {limit}")
        time.sleep(_POLL_S)


def _running(here: str) -> bool:
    with open(os.path.join(here, "worker.lock"), "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so that no reader takes another reader for a worker
        except OSError:
            return True
    return False


def _show(path: str, shown: int) -> int:
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as source:
        source.seek(shown)
        text = source.read()
    whole = text[: text.rfind(b"\n") + 1]
    if whole:
        sys.stderr.write(whole.decode("utf-8", "replace"))
        sys.stderr.flush()
    return shown + len(whole)


def _requested_timeout_s(here: str) -> float:
    return float(json.loads(_read(os.path.join(here, "request.json")))["timeout_s"])


def find_room(path: str) -> None:
    """Check for free disk space: write a file at `path`, and remove it.

    Raises:
        OSError: there is not enough space.
    """
    try:
        with open(path, "wb") as target:
            target.write(bytes(ROOM_BYTES))
    finally:
        if os.path.exists(path):
            os.unlink(path)


def _cause(here: str) -> str:
    """Return why a worker ended: a full disk, on which it could not write the reason, or else the last line of its log."""
    try:
        find_room(os.path.join(here, "room"))
    except OSError as error:
        return f"its disk: {error.strerror}"
    return f"last log line: {_last_line(here)}"


def _last_line(here: str) -> str:
    path = os.path.join(here, "worker.log")
    lines = _read(path).strip().splitlines() if os.path.exists(path) else []
    return lines[-1] if lines else "none"


def text(path: str, mode: str = "r") -> IO[str]:
    """Open a text file as UTF-8 in any locale: under LC_ALL=C, Python 3.6 would fail on a non-ASCII character."""
    return open(path, mode, encoding="utf-8", errors="replace")


def _read(path: str) -> str:
    with text(path) as source:
        return source.read()


def write(path: str, content: str) -> None:
    """Write a file atomically, so that no reader sees a part of it."""
    with text(path + ".new", "w") as target:
        target.write(content)
        target.flush()
        os.fsync(target.fileno())
    os.rename(path + ".new", path)


def fresh(path: str) -> str:
    """Return `path` as an empty folder; what was in it is deleted."""
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path
