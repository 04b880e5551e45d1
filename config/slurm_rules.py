"""Checks of a Slurm cluster that the rules of every cloud share; entries of machines are named by their paths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from catalogue.containers import PYXIS, PYXIS_SHA256
from catalogue.slurm_packages import SlurmPackages
from config.rule import Breach
from config.slurm import Scheduler
from scheduler import names
from scheduler.slurm_conf import NODE_PORT


class Entry(NamedTuple):
    """Machines of one kind: their path, how many always run or may be started, and whether their rails are known in advance.

    `static` is the key of those that always run.
    """

    path: str
    static: str
    running: int
    dynamic: int
    rails: bool
    always_on: int


def _without_controller(path: str, count: int, where: str) -> Breach:
    return Breach(path, f"is {count}, and {where} is not set; nothing would start them, so set {where}: {{}}")


def unstarted(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield dynamic machines that nothing starts."""
    for one in entries:
        if one.dynamic and slurm is None:
            yield _without_controller(f"{one.path}.dynamic", one.dynamic, where)


def idle(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield a controller at `where` that has nothing to start."""
    if slurm is not None and not any(one.dynamic for one in entries):
        yield Breach(where, f"is set, but nothing has dynamic nodes; give an entry a number of them, or remove {where}")


def mixed(entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield entries with machines of both kinds."""
    for one in entries:
        if one.dynamic and one.running:
            yield Breach(
                f"{one.path}.{one.static}",
                f"is {one.running}, and dynamic is {one.dynamic}; nodes of one entry either always run or belong to a queue; "
                "make two entries of it",
            )


def homeless(where: str, slurm: Scheduler | None, home: object) -> Iterator[Breach]:
    """Yield a cluster without home folders on all nodes: its jobs' output would be deleted with their nodes."""
    if slurm is not None and home is None:
        yield Breach(
            f"{where}.storage.home",
            f"is not set, and {where}.slurm is; jobs write to home folders, which must be on all nodes and outlive them: set "
            f"{where}.storage.home: {{}}",
        )


def shared_login(where: str, slurm: Scheduler | None, shared: bool) -> Iterator[Breach]:
    """Yield a shared home of the login user where no scheduler runs that user's jobs."""
    if slurm is None and shared:
        yield Breach(
            f"{where}.storage.home.shareLoginUser",
            f"is true, but {where}.slurm is not set; it is for jobs that the login user submits: remove it",
        )


def test_size(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield a test job that no entry can run, or that has no fabric to measure."""
    if slurm is None:
        return
    most = max((one.dynamic for one in entries), default=0)
    if slurm.test_nodes == 1:
        yield Breach(f"{where}.testNodes", "is 1; one node has no fabric to measure, so it must be at least 2")
    elif most and slurm.test_nodes > most:
        yield Breach(f"{where}.testNodes", f"is {slurm.test_nodes}, and no entry has more than {most} dynamic nodes")


def entry_test(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield a test of new machines that cannot run."""
    if slurm is None or not slurm.entry_test:
        return
    for one in entries:
        if one.dynamic and not one.rails:
            yield Breach(
                f"{where}.entryTest",
                f"is true, but no rails of {one.path} are known before its machines start, so none could be measured; leave it "
                "out",
            )
        elif one.dynamic == 1:
            yield Breach(
                f"{where}.entryTest",
                f"is true, but {one.path}.dynamic is 1; a test takes two machines, so raise that or leave this out",
            )
        elif one.running:
            yield Breach(
                f"{where}.entryTest",
                f"is true, but {one.path}.{one.static} is {one.running}; the test's program comes with the test job, which is "
                "there only where no node always runs",
            )


#: The breach for an empty list of packages' sums, with or without a Slurm cluster.
ENROOT_UNCHECKED = (
    "is not set: where an image has no enroot, machines install as root the packages that GitHub serves, compared with "
    "nothing; give their sha256, which the machines' log names"
)


def enroot_unchecked(where: str, slurm: Scheduler | None) -> Iterator[Breach]:
    """Yield packages of enroot without a sha256 to compare them with."""
    if slurm and slurm.containers and not slurm.containers.enroot_sha256:
        yield Breach(f"{where}.containers.enrootSha256", ENROOT_UNCHECKED)


def always_on(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield nodes that should always run but are not nodes that the controller may start."""
    for one in entries:
        if one.always_on and slurm is None:
            yield _without_controller(f"{one.path}.alwaysOn", one.always_on, where)
        elif one.always_on > one.dynamic:
            yield Breach(
                f"{one.path}.alwaysOn",
                f"is {one.always_on}, and dynamic is {one.dynamic}; nodes that always run are some of the dynamic ones",
            )


class Side(NamedTuple):
    """Machines behind existing rules: the path that names those rules, a phrase for them, and how peers name the machines.

    `lets` tells whether they let TCP out (or in) to one of these peers, to a port.
    """

    path: str
    said: str
    peers: tuple[str, ...]
    lets: Callable[[tuple[str, ...], bool, int], bool]


def reach(where: str, slurm: Scheduler, login: Side, nodes: Side) -> Iterator[Breach]:
    """Yield calls between the machines of a Slurm cluster that existing rules block."""
    slurmd = ((NODE_PORT, NODE_PORT, "slurmd"),)
    calls = [(login, False, nodes, slurm.ports), (login, True, nodes, slurmd)]
    calls += [(nodes, False, login, slurmd), (nodes, True, login, slurm.ports)]
    if slurm.login_nodes:  # the controller sets them up over SSH
        calls += [(login, out, login, ((22, 22, "SSH"), *slurm.ports)) for out in (False, True)]
    for side, out, peer, ports in calls:
        closed = [
            f"{first if first == last else f'{first}-{last}'} ({what})"
            for first, last, what in ports
            if not all(side.lets(peer.peers, out, port) for port in (first, last))
        ]
        if closed:
            who = f"login nodes and controller call each other there: open them, or set {where}.loginNodes to 0"
            who = who if side is peer else "controller and nodes call each other there: open them"
            yield Breach(side.path, f"{side.said} TCP {', '.join(closed)} {'to' if out else 'from'} {peer.peers[0]}; {who}")


def contained(where: str, slurm: Scheduler | None, container: object) -> Iterator[Breach]:
    """Yield an image for ranks of the test job that nothing runs, and another version with the known version's sum."""
    if slurm is None:
        return
    if slurm.containers is None:
        if container is not None:
            yield Breach(
                f"{where}.container",
                f"is set, but {where}.slurm.containers is not; the test job's ranks start in an image through Pyxis: set "
                f"{where}.slurm.containers: {{}}, or remove container",
            )
    elif slurm.containers.pyxis != PYXIS and slurm.containers.pyxis_sha256 == PYXIS_SHA256:
        yield Breach(
            f"{where}.slurm.containers.pyxisSha256",
            f"is that of {PYXIS}, and pyxis is {slurm.containers.pyxis}; give the sha256 of "
            f"https://github.com/NVIDIA/pyxis/archive/refs/tags/v{slurm.containers.pyxis}.tar.gz",
        )


def queue_name(path: str, name: str) -> Iterator[Breach]:
    """Yield why Slurm does not allow a queue of that name."""
    why = names.refused_queue(name)
    if why:
        yield Breach(path, f"is {name!r}; {why}")


def software(login: str, family: str, packages: SlurmPackages | None) -> Iterator[Breach]:
    """Yield why a controller of the image family at the path `login` has no Slurm."""
    if packages is None:
        yield Breach(login, f"is {family}, for which there is no package of Slurm 22.05 or later; take {_ABLE[login[:3]]}")


#: Image families with Slurm, by the cloud's group.
_ABLE = {"oci": "ol9 or ubuntu2404", "aws": "ubuntu2404"}
