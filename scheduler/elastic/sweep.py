"""Finds every dynamic machine by its tags and terminates it, before the network and the required permissions are deleted."""

import time
from typing import Callable, Collection

from scheduler.elastic.cloud import BusyError, Cloud, CloudError

_POLL_S = 5
_TIMEOUT_S = 600


#: A machine that was just started may be missing from the cloud's list for some time (EC2: eventual consistency).
_UNSEEN_S = 60


def all_machines(
    cloud: Cloud,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    known: Collection[str] = (),
) -> int:
    """Terminate all machines and wait until none runs or starts; return 0, or 1 after a refusal or ten minutes.

    `known` are ids of machines that the cloud may not list yet: during the first minute, they are terminated with the other
    machines, and the call waits for them.
    """
    began, said = clock(), -1
    while True:
        try:
            found = cloud.listing()
            running = [machine.id for machine in found.machines if machine.costs]
            if clock() - began < _UNSEEN_S:
                running += sorted(set(known) - {machine.id for machine in found.machines})
            if not running and not found.starting:
                print("no machine that Slurm started runs any more")
                return 0
            if running and len(running) != said:
                said = len(running)
                print(f"terminating {said} machines that Slurm started")
            if running:
                cloud.terminate(running)
            running += [f"launch {token}, whose machines the cloud does not list yet" for token in found.starting]
        except BusyError as error:
            running = [f"an unknown number, because the cloud does not answer ({error})"]
        except CloudError as error:
            print(f"machines that Slurm started may still run, because the cloud refuses to list or terminate them: {error}")
            return 1
        if clock() - began > _TIMEOUT_S:
            print("still running after {} s: {}".format(_TIMEOUT_S, ", ".join(running)))
            return 1
        sleep(_POLL_S)
