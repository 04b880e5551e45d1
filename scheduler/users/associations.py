"""Users in Slurm's database: each has an association with the one account that all jobs are charged to."""

import shutil
import subprocess
from typing import List

from scheduler.users.refusal import RefusalError

ACCOUNT = "users"
_TIMEOUT_S = 60
#: Message of sacctmgr, with exit status 1, if there is nothing to do.
_NOTHING = "Nothing new added"


def add(cluster: str, names: List[str]) -> None:
    """Add associations for users that have none; first create the account if it is missing."""
    _sacctmgr("add", "account", ACCOUNT, f"cluster={cluster}", "description=users of the cluster", "organization=busbar")
    if names:
        _sacctmgr("add", "user", "name={}".format(",".join(names)), f"account={ACCOUNT}", f"cluster={cluster}")


def delete(cluster: str, name: str) -> None:
    """Remove a user's association; the user's finished jobs stay in the database."""
    _sacctmgr("delete", "user", f"name={name}", f"cluster={cluster}")


def _sacctmgr(*words: str) -> None:
    if not shutil.which("sacctmgr"):
        raise RefusalError("there is no sacctmgr, which Slurm's packages have")
    said = ["sacctmgr", "--immediate", *words]
    try:
        done = subprocess.run(said, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise RefusalError(f"Slurm's database did not answer within {_TIMEOUT_S} s") from error
    out = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode and _NOTHING not in out and "Nothing deleted" not in out:
        raise RefusalError("sacctmgr {} {}: {}".format(words[0], words[1], (out.splitlines() or ["no output"])[-1].strip()))
