"""Checks of a Slurm cluster for the rules of OCI and AWS; refusals name an entry of machines by its path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from catalogue.containers import PYXIS, PYXIS_SHA256
from catalogue.slurm_packages import SlurmPackages
from config.rule import Breach
from config.slurm import Scheduler
from scheduler import names
from scheduler.slurm_conf import NODE_PORT


class Entry(NamedTuple):
    """One entry of machines in the stack file.

    Attributes:
        path: the entry's path.
        static: name of the key that sets the number of static nodes.
        running: number of static nodes, which always run.
        dynamic: number of nodes that the controller may start.
        rails: whether the rails are known before a machine starts.
        always_on: how many of the dynamic nodes are never stopped.
    """

    path: str
    static: str
    running: int
    dynamic: int
    rails: bool
    always_on: int


def _without_controller(path: str, count: int, where: str) -> Breach:
    return Breach(path, f"is {count}, but {where} is not set, so nothing would start these nodes; set {where}: {{}}")


def unstarted(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield the number of dynamic nodes of each entry if there is no controller to start them."""
    for one in entries:
        if one.dynamic and slurm is None:
            yield _without_controller(f"{one.path}.dynamic", one.dynamic, where)


def idle(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield a controller, set by the key `where`, that has no nodes to start."""
    if slurm is not None and not any(one.dynamic for one in entries):
        yield Breach(where, f"is set, but no entry has dynamic nodes; set dynamic in an entry, or remove {where}")


def mixed(entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield entries with both static and dynamic nodes."""
    for one in entries:
        if one.dynamic and one.running:
            yield Breach(
                f"{one.path}.{one.static}",
                f"is {one.running}, and dynamic is {one.dynamic}; nodes of one entry are either all static or all dynamic; "
                "split the entry into two",
            )


def homeless(where: str, slurm: Scheduler | None, home: object) -> Iterator[Breach]:
    """Yield a Slurm cluster without shared home folders: the output of jobs would be deleted with the nodes."""
    if slurm is not None and home is None:
        yield Breach(
            f"{where}.storage.home",
            f"is not set, but {where}.slurm is; jobs write to home folders, which all nodes must share and which must outlive "
            f"the nodes: set {where}.storage.home: {{}}",
        )


def shared_login(where: str, slurm: Scheduler | None, shared: bool) -> Iterator[Breach]:
    """Yield a shared home of the login user if there is no Slurm cluster to run that user's jobs."""
    if slurm is None and shared:
        yield Breach(
            f"{where}.storage.home.shareLoginUser",
            f"is true, but {where}.slurm is not set; the key serves only jobs that the login user submits: remove it",
        )


def test_size(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield `testNodes` if no entry has that many dynamic nodes, or if the test job would have no fabric to measure."""
    if slurm is None:
        return
    most = max((one.dynamic for one in entries), default=0)
    if slurm.test_nodes == 1:
        yield Breach(f"{where}.testNodes", "is 1; one node has no fabric to measure, so set 2 or more")
    elif most and slurm.test_nodes > most:
        yield Breach(f"{where}.testNodes", f"is {slurm.test_nodes}, but no entry has more than {most} dynamic nodes")


def entry_test(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield a refusal of the entry test for each entry whose new machines it cannot test."""
    if slurm is None or not slurm.entry_test:
        return
    for one in entries:
        if one.dynamic and not one.rails:
            yield Breach(
                f"{where}.entryTest",
                f"is true, but the rails of {one.path} are not known before its machines start, so they cannot be tested; "
                "leave entryTest out",
            )
        elif one.dynamic == 1:
            yield Breach(
                f"{where}.entryTest",
                f"is true, but {one.path}.dynamic is 1; a test takes two machines, so raise dynamic, or leave entryTest out",
            )
        elif one.running:
            yield Breach(
                f"{where}.entryTest",
                f"is true, but {one.path}.{one.static} is {one.running}; the test of new machines is installed with the test "
                "job, and a stack that measures static nodes has no test job: leave entryTest out",
            )


#: Text of the breach for an empty `enrootSha256`, with or without a Slurm cluster.
ENROOT_UNCHECKED = (
    "is not set: where an image has no enroot, machines install GitHub's packages as root without checking them; give their "
    "sha256, which is in the machines' log"
)


def enroot_unchecked(where: str, slurm: Scheduler | None) -> Iterator[Breach]:
    """Yield an empty `enrootSha256`: machines would install packages of enroot without checking the packages."""
    if slurm and slurm.containers and not slurm.containers.enroot_sha256:
        yield Breach(f"{where}.containers.enrootSha256", ENROOT_UNCHECKED)


def always_on(where: str, slurm: Scheduler | None, entries: Sequence[Entry]) -> Iterator[Breach]:
    """Yield an `alwaysOn` without a controller, or an `alwaysOn` that is greater than `dynamic`."""
    for one in entries:
        if one.always_on and slurm is None:
            yield _without_controller(f"{one.path}.alwaysOn", one.always_on, where)
        elif one.always_on > one.dynamic:
            yield Breach(
                f"{one.path}.alwaysOn",
                f"is {one.always_on}, but dynamic is {one.dynamic}; alwaysOn counts those dynamic nodes that are never stopped",
            )


class Side(NamedTuple):
    """Machines that existing security rules protect: the controller and the login nodes together, or the GPU nodes.

    Attributes:
        path: path of the key that names the security group, or the subnet with security lists, that has the rules.
        said: beginning of a refusal, such as `is sg-1, which blocks`; the refusal goes on with what the rules block.
        peers: the groups and networks by which the other side's rules name these machines.
        lets: a function that tells whether the rules allow TCP connections between these machines and the other side. Its
            arguments are the other side's `peers`, whether the connection goes out, and the port that it goes to.
        edges: the first port of each range of ports in the rules, and the first port after each range. Between two
            neighbouring edges, `lets` answers the same for every port.
    """

    path: str
    said: str
    peers: tuple[str, ...]
    lets: Callable[[tuple[str, ...], bool, int], bool]
    edges: frozenset[int]


def edges(ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
    """Return the attribute `edges` of a `Side` whose rules have these ranges of ports (first port, last port)."""
    return frozenset(port for first, last in ranges for port in (first, last + 1))


def reach(where: str, slurm: Scheduler, login: Side, nodes: Side) -> Iterator[Breach]:
    """Yield the ports that existing rules block between the machines of a Slurm cluster."""
    slurmd = ((NODE_PORT, NODE_PORT, "slurmd"),)
    calls = [(login, False, nodes, slurm.ports), (login, True, nodes, slurmd)]
    calls += [(nodes, False, login, slurmd), (nodes, True, login, slurm.ports)]
    if slurm.login_nodes:  # the controller sets login nodes up over SSH
        calls += [(login, out, login, ((22, 22, "SSH"), *slurm.ports)) for out in (False, True)]
    for side, out, peer, ports in calls:
        who = f"login nodes and controller reach each other on these ports: open them, or set {where}.loginNodes to 0"
        who = who if side is peer else "controller and nodes reach each other on these ports: open them"
        yield from blocked(side, out, peer, ports, who)


def blocked(side: Side, out: bool, peer: Side, ports: Iterable[tuple[int, int, str]], why: str) -> Iterator[Breach]:
    """Yield a refusal if the rules of `side` block connections on some of `ports`, either to `peer` or from `peer`.

    Args:
        side: the machines whose rules are judged.
        out: whether connections go out to `peer`; otherwise they come in from `peer`.
        peer: the machines at the other end.
        ports: ranges of ports: the first port, the last port, and what uses the range (empty if `why` says it).
        why: end of the refusal.
    """
    closed = [
        f"{first if first == last else f'{first}-{last}'}{what and f' ({what})'}"
        for first, last, what in ports
        if not all(side.lets(peer.peers, out, port) for port in {first, *(one for one in side.edges if first < one <= last)})
    ]
    if closed:
        yield Breach(side.path, f"{side.said} TCP {', '.join(closed)} {'to' if out else 'from'} {peer.peers[0]}; {why}")


def contained(where: str, slurm: Scheduler | None, container: object) -> Iterator[Breach]:
    """Yield the test job's image if no Pyxis can start the image; yield a checksum of Pyxis that belongs to another version."""
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
            f"is the checksum of Pyxis {PYXIS}, but pyxis is {slurm.containers.pyxis}; give the sha256 of "
            f"https://github.com/NVIDIA/pyxis/archive/refs/tags/v{slurm.containers.pyxis}.tar.gz",
        )


def queue_name(path: str, name: str) -> Iterator[Breach]:
    """Yield why Slurm does not allow a queue with the name `name`, which the key at `path` sets."""
    why = names.refused_queue(name)
    if why:
        yield Breach(path, f"is {name!r}; {why}")


def software(login: str, family: str, packages: SlurmPackages | None) -> Iterator[Breach]:
    """Yield the login node's image family, set by the key `login`, if there is no package of Slurm 22.05 or later for it."""
    if packages is None:
        yield Breach(login, f"is {family}, for which there is no package of Slurm 22.05 or later; take {_ABLE[login[:3]]}")


#: Image families for which there is a package of Slurm 22.05 or later, by cloud.
_ABLE = {"oci": "ol9 or ubuntu2404", "aws": "ubuntu2404"}
