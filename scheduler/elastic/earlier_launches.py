"""What an installation does about machines launched before it: by an earlier controller, or with earlier launch settings."""

import time
from typing import Callable

from scheduler.elastic import sweep
from scheduler.elastic.cloud import BusyError, Cloud, CloudError
from scheduler.elastic.settings import Settings
from scheduler.elastic.state import State

_POLL_S = 5
#: How long a cloud may take to learn the rights of a new controller.
_RIGHTS_S = 300
_ADOPTED_S = 600


def end(cloud: Cloud, sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic) -> str:
    """Terminate an earlier controller's machines, so that no machine still runs when Slurm starts the machine's job again.

    Return a warning if machines may still run: the cloud has refused for five minutes, or machines have not ended within ten
    minutes. Otherwise, return an empty text.
    """
    limit = clock() + _RIGHTS_S
    while sweep.all_machines(cloud, sleep, clock):
        if clock() > limit:
            return "machines of the earlier controller may still run; this controller goes on trying to terminate them"
        sleep(_POLL_S)
    return ""


def adopt(
    cloud: Cloud,
    wanted: Settings,
    state: Callable[[], State],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Make all launches use present settings, because an update deletes earlier settings after the installation.

    Return a warning if launches still use earlier settings after ten minutes, or if the cloud refuses. Otherwise, return an
    empty text.

    Args:
        cloud: the cloud with present settings.
        wanted: the present settings.
        state: reads the state of `reconcile`, which may run at the same time.
        sleep: waits for some seconds.
        clock: returns a time in seconds.
    """
    limit = clock() + _ADOPTED_S
    present = [one.spec for one in wanted.sets.values()]
    while True:
        sets = {batch.network: wanted.sets.get(batch.node_set) for batch in state().batches.values()}
        try:
            left = cloud.adopt({token: its.spec for token, its in sets.items() if its}, present)
            why = "{} still use earlier settings".format(", ".join(left))
        except BusyError as error:
            left, why = ["?"], f"the cloud does not answer: {error}"
        except CloudError as error:
            return _warning(f"the cloud refuses: {error}")
        if not left:
            return ""
        if clock() > limit:
            return _warning(why)
        sleep(_POLL_S)


def _warning(why: str) -> str:
    return f"this update may be unable to delete earlier launch settings, and then the next update deletes them: {why}"
