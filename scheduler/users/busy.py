"""Lists what a user still runs: jobs of the cluster, and processes on the controller."""

import os
import shutil
import subprocess
from typing import List

from scheduler.users.refusal import RefusalError

_TIMEOUT_S = 30
_PROC = "/proc"


def jobs(uid: int) -> List[str]:
    """Return the user's unfinished jobs, as `ID (STATE)`; none without Slurm.

    Raises:
        RefusalError: Slurm does not answer.
    """
    if not shutil.which("squeue"):
        return []
    words = ["squeue", "--noheader", f"--user={uid}", "--format=%A (%T)"]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise RefusalError(f"Slurm did not say within {_TIMEOUT_S} s which jobs the user has") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no output"]
        raise RefusalError(f"Slurm does not say which jobs the user has: {said[-1]}")
    return sorted(set(done.stdout.decode().split("\n")) - {""})


def processes(uid: int) -> List[str]:
    """Return the user's processes on this machine, as `PID (NAME)`."""
    found = []
    for number in sorted((name for name in os.listdir(_PROC) if name.isdigit()), key=int):
        try:
            if os.stat(f"{_PROC}/{number}").st_uid == uid:
                with open(f"{_PROC}/{number}/comm", encoding="utf-8", errors="replace") as source:
                    found.append(f"{number} ({source.read().strip()})")
        except OSError:
            continue  # the process exited meanwhile
    return found
