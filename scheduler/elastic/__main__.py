"""Runs one of the controller's programs for dynamic nodes; the first argument names the program.

`identity CLOUD` and then `install` set up this machine as the controller, before any other program runs. `resume`, `suspend`
and `resume-failed` record Slurm's requests, and `reconcile` carries these requests out. `entry-tests` runs the tests that
machines must pass before they become nodes. `keep-jobs` copies Slurm's jobs for the next controller. `sweep` terminates all
machines.
"""

import json
import os
import sys
from typing import Any, Callable, Dict, List

from scheduler import slurm_facts
from scheduler.elastic import controller, entry, handover, join, reconcile, settings, spool, sweep
from scheduler.elastic.aws import Aws
from scheduler.elastic.cloud import Cloud
from scheduler.elastic.oci import Oci
from scheduler.elastic.slurm import Slurm
from scheduler.elastic.state import State, UnreadableError, only_one
from scheduler.elastic.work import CLOSED, Work
from scheduler.programs import RUN_TIMEOUT_S
from scheduler.users.refusal import RefusalError

_CLOUDS: Dict[str, Callable[[Dict[str, Any]], Cloud]] = {"aws": Aws, "oci": Oci}
#: How long `sweep` waits for a run of `reconcile` (s); systemd kills that run earlier, after RUN_TIMEOUT_S.
_RUN_ENDS_S = RUN_TIMEOUT_S + 60
_JOBS_LOCK = "jobs-lock"
#: How long a destroy waits until a copy of Slurm's jobs has been written (s).
_FORGOTTEN_S = 60
_WISHES = (spool.RESUME, spool.SUSPEND, spool.FAILED)


def main(argv: List[str]) -> int:
    """Run one program; return its exit status."""
    verb, folder = argv[0], os.path.join(settings.FOLDER, "wanted")
    if verb in _WISHES:
        named = os.environ.get("SLURM_RESUME_FILE", "") if verb == spool.RESUME else ""
        spool.write(folder, verb, spool.groups_of(argv[1], _read(named)))
        return 0
    if verb == "identity":
        print(json.dumps(controller.identity(argv[1]), sort_keys=True))
        return 0
    if verb == "install":
        controller.install(sys.stdin.read(), os.path.abspath(sys.argv[0]), _cloud)
        return 0
    known = settings.load()
    if verb == "entry-tests":
        entry.all_due(entry.Desk(os.path.join(settings.FOLDER, entry.FOLDER)), entry.over_ssh(settings.load))
        return 0
    if verb == "keep-jobs":
        return _keep_jobs(known)
    return _alone(verb, known, folder)


def _cloud(given: Dict[str, Any]) -> Cloud:
    return _CLOUDS[given["name"]](given)


def _keep_jobs(known: settings.Settings) -> int:
    with only_one(os.path.join(settings.FOLDER, _JOBS_LOCK)) as mine:
        closed = os.path.exists(os.path.join(settings.FOLDER, CLOSED))
        if mine and known.jobs and not closed and not handover.is_done(settings.FOLDER):
            said = handover.keep(handover.Place(**known.jobs), controller.public_key(), slurm_facts.version, settings.FOLDER)
            if said:
                print(said)
    return 0


def _forget_jobs(known: settings.Settings) -> str:
    """Remove the copy of Slurm's jobs; return why that failed, or an empty text."""
    with only_one(os.path.join(settings.FOLDER, _JOBS_LOCK), _FORGOTTEN_S) as mine:
        if not mine:
            return "the copy is being written"
        try:
            handover.forget(handover.Place(**(known.jobs or {})), controller.public_key(), settings.FOLDER)
        except (OSError, RefusalError) as error:
            return str(error)
    return ""


def _alone(verb: str, known: settings.Settings, folder: str) -> int:
    """Run a program that calls the cloud, under a lock, so that only one such program runs at a time."""
    cloud, lock = _cloud(known.cloud), os.path.join(settings.FOLDER, "lock")
    if verb == "sweep":
        return _sweep(cloud, lock, known)
    if handover.is_given(settings.FOLDER):
        print("another controller has taken over")
        return 0
    with only_one(lock) as mine:
        if not mine:
            print("another run is at work and carries out the requests")
            return 0
        try:
            state = State.load(os.path.join(settings.FOLDER, "state.json"))
        except UnreadableError as error:
            print(error, file=sys.stderr)
            return 1
        joins, reaches, asks = join.over_ssh(known.join), join.reaches(known.join), join.asks(known.join)
        reconcile.once(Work(known, state, folder, Slurm(), cloud, joins, reach=reaches, ask=asks))
    return 0


def _sweep(cloud: Cloud, lock: str, known: settings.Settings) -> int:
    """Let nothing start any more, wait until the current run of `reconcile` has ended, and terminate all machines.

    Then remove the copy of Slurm's jobs: if the home file system is kept, a later stack must not run these jobs.
    """
    with open(os.path.join(settings.FOLDER, CLOSED), "w", encoding="utf-8"):
        pass
    with only_one(lock, _RUN_ENDS_S) as mine:
        if not mine:
            why = f"another run of `reconcile` or `sweep` has not ended within {_RUN_ENDS_S} s"
            print(f"machines that Slurm started may still run, because {why}")
            return 1
        status = sweep.all_machines(cloud, known=_started())
    why = _forget_jobs(known) if known.jobs and not status else ""
    if why:
        print(
            "the copy of Slurm's jobs remains, and a later stack of this name with the same home file system would run these "
            f"jobs again: {why}"
        )
    return status


def _started() -> List[str]:
    """Return the ids of the machines that `reconcile` remembers; none if its state cannot be read."""
    try:
        return State.load(os.path.join(settings.FOLDER, "state.json")).machines
    except UnreadableError:
        return []


def _read(path: str) -> str:
    """Return the text of Slurm's file about the jobs; empty if there is no file, and then the nodes belong to no job."""
    try:
        with open(path, encoding="utf-8") as source:
            return source.read()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
