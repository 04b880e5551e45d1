"""Closes sets whose capacity (a Capacity Block) has not begun or has ended, and opens them when the capacity begins.

ParallelCluster keeps the nodes of such sets in a maintenance reservation in Slurm; here they are DOWN, so that `sinfo -R` shows
the reason. Jobs that can use another set use that set; all other jobs wait.
"""

from scheduler.elastic.cloud import CloudError
from scheduler.elastic.work import Work, worded

_PERIOD_S = 60
#: A set stays closed until the cloud reports otherwise.
_FOR_GOOD = float("inf")


def follow(work: Work) -> None:
    """Ask the cloud once a minute which sets are closed; without an answer, nothing changes, and the next run asks again."""
    state, now = work.state, work.clock()
    if now - state.windows_at < _PERIOD_S:
        return
    try:
        found = work.cloud.closed({key: one.spec for key, one in work.settings.sets.items()})
    except CloudError as error:
        work.say(f"the cloud does not say which capacity there is at the moment: {error}")
        return
    state.windows_at = now
    for key in sorted({*found, *state.shut}):
        why = worded(found.get(key, ""))
        if why:
            _close(work, key, why)
        elif key in state.shut:
            _open(work, key)


def _close(work: Work, key: str, why: str) -> None:
    """Keep all nodes of a set DOWN; jobs on them are requeued, because the cloud is about to terminate the machines."""
    if work.state.shut.get(key) != why:
        work.say(f"{key}: {why}")
    work.state.shut[key] = why
    work.state.pauses[key] = {"reason": why, "until": _FOR_GOOD}
    # Nodes that are DOWN for another reason, and nodes that an update has added, get this reason, too.
    failed = work.state.failed
    work.fail([node for node in work.settings.sets[key].nodes if failed.get(node, {}).get("reason") != why], why, _FOR_GOOD)


def _open(work: Work, key: str) -> None:
    why = work.state.shut.pop(key)
    work.say(f"{key}: its nodes may start")
    work.state.pauses.pop(key, None)
    for its in work.state.failed.values():
        if its["reason"] == why:
            its["until"] = work.clock()
