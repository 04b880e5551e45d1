"""The vendors' own services: the services' addresses and names, and for each cloud the process that runs its services.

A service is on the rehearsed Internet, in the operator's namespace, so a VCN's routes and rules apply to the traffic between a
host and a service. A service's process holds a lock while it listens. The lock shows whether the process runs; a pid would not
show this, because another program may have the same pid by now.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rehearsal.net import network, wires
from rehearsal.world.world import World, write_whole

PORT, PLAIN_PORT = 443, 80
_FOLDER = "services"
_START_S = 60
_END_S = 20


@dataclass(frozen=True)
class Service:
    """One cloud's services.

    Attributes:
        cloud: name of the cloud.
        address: address of the services.
        names: full names of the services, in lower case.
        program: command that starts the services' process, with the interpreter first; the process calls `listening` once it
            listens.
        scale: divisor of line rates, for hosts that the process boots.
    """

    cloud: str
    address: str
    names: tuple[str, ...]
    program: tuple[str, ...]
    scale: int


def announce(world: World, service: Service) -> None:
    """Make the services' names, and all names announced earlier, resolvable in every VCN; only `start` starts the process."""
    record = world.folder(_FOLDER) / f"{service.cloud}.json"
    with wires.locked(world, "services"):
        names = announced(world, service.cloud).names if record.exists() else ()
        both = replace(service, names=tuple(dict.fromkeys((*names, *service.names))))
        text = json.dumps(asdict(both))
        if not record.exists() or record.read_text() != text:
            write_whole(record, text)


def announced(world: World, cloud: str) -> Service:
    """Return a cloud's announced services.

    Raises:
        FileNotFoundError: no services of that cloud were announced.
    """
    found = json.loads((world.path / _FOLDER / f"{cloud}.json").read_text())
    return Service(found["cloud"], found["address"], tuple(found["names"]), tuple(found["program"]), found["scale"])


def start(world: World, cloud: str, checkout: Path) -> None:
    """Start the process of a cloud's services unless it is running; return when it listens.

    Raises:
        RuntimeError: the process does not listen within a minute; the message has the last line of the process's log.
        FileNotFoundError: the services were not announced.
    """
    with wires.locked(world, f"start-{cloud}"):
        if _runs(world, cloud):
            return
        service = announced(world, cloud)
        network.ensure_operator(world)
        operator = world.netns(network.OPERATOR)
        wires.ip([f"addr replace {service.address}/32 dev lo"], operator)
        log = world.folder(_FOLDER) / f"{cloud}.log"
        own = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(checkout)}
        own |= {"BUSBAR_WORLD": str(world.path), "BUSBAR_SCALE": str(service.scale)}
        environment = ["env", "-i", *(f"{name}={value}" for name, value in own.items())]
        script = 'exec "$@" </dev/null >>"$0" 2>&1'
        quiet = [*environment, "sh", "-c", script, str(log), *service.program]
        wires.call(["setsid", "--fork", *wires.inside(operator), *quiet])
        _await(world, cloud, log)


def _await(world: World, cloud: str, log: Path) -> None:
    end = time.monotonic() + _START_S
    while not _runs(world, cloud):
        if time.monotonic() > end:
            said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
            raise RuntimeError(f"{cloud}'s services did not listen in {_START_S} s; last log line: {(said or ['none'])[-1]}")
        time.sleep(0.05)


def _lock(world: World, cloud: str) -> Path:
    return world.folder("locks") / f"service-{cloud}"


def _runs(world: World, cloud: str) -> bool:
    with _lock(world, cloud).open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def listening(world: World, cloud: str) -> Iterator[None]:
    """Mark this process as the process that listens for a cloud's services, as long as the block runs."""
    with _lock(world, cloud).open("r+" if _lock(world, cloud).exists() else "w+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def stop(world: World) -> None:
    """Stop the process of every cloud's services; idempotent.

    Raises:
        RuntimeError: a process survives SIGKILL.
    """
    folder = world.path / "locks"
    for lock in sorted(folder.glob("service-*")) if folder.is_dir() else ():
        end = time.monotonic() + _END_S
        while _runs(world, lock.name.removeprefix("service-")):
            if time.monotonic() > end:
                raise RuntimeError(f"the process of {lock.name} still exists {_END_S} s after SIGKILL.")
            text = lock.read_text()
            if text.isdecimal():  # the holder of the lock has written its pid
                os.kill(int(text), signal.SIGKILL)
            time.sleep(0.02)
