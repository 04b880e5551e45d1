"""Starts or stops the exporter of RDMA counters in this pod; a pod has no systemd, so the exporter runs as long as the pod.

The program's argument is the pod's address, on which the exporter listens.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import Any, Dict

from components.remote_scripts.wait_for_answer import wait_for_answer

#: The exporter's folder, below the pod's home folder.
FOLDER = os.path.join(os.path.expanduser("~"), ".busbar", "exporter")
_ENDS_S = 10


def main(program: str, ask: Dict[str, Any]) -> None:
    """Start `program`, which is the exporter, or stop it; print whether the exporter is running, or exit with a message.

    `ask` has `exporter` (whether the exporter is to run), `port`, and `readers` (the networks that may read).
    """
    _end()
    if not ask["exporter"]:
        shutil.rmtree(FOLDER, ignore_errors=True)
        print(json.dumps({"there": False}))
        return
    listen = sys.argv[1]
    os.makedirs(FOLDER, mode=0o700, exist_ok=True)
    path = os.path.join(FOLDER, "rdma_exporter.py")
    with open(path, "w") as target:
        target.write(program)
    allowed = [word for one in ask["readers"] for word in ("--allow", one)]
    argv = [sys.executable, "-IS", path, "--listen", listen, "--port", str(ask["port"]), *allowed]
    log = os.path.join(FOLDER, "log")
    with open(log, "w") as said:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True)
    with open(os.path.join(FOLDER, "pid"), "w") as target:
        target.write(str(child.pid))
    wait_for_answer("http://{}:{}/metrics".format(listen, ask["port"]), f"see {log} in the pod")
    print(json.dumps({"there": True}))


def _end() -> None:
    """Stop the exporter whose pid is in the file `pid`, unless another process has that pid by now."""
    try:
        with open(os.path.join(FOLDER, "pid")) as source:
            pid = int(source.read())
    except (OSError, ValueError):
        return
    deadline = time.time() + _ENDS_S
    while FOLDER.encode() in _words_of(pid):
        try:
            os.kill(pid, signal.SIGTERM if time.time() < deadline else signal.SIGKILL)
        except OSError:
            return
        time.sleep(0.05)


def _words_of(pid: int) -> bytes:
    """Return the command line of a process; empty if the process has exited."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as source:
            return source.read()
    except OSError:
        return b""
