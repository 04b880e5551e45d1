"""A fake cloud, Slurm and clock for the programs that start and terminate nodes; each fake behaves as its original does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from scheduler.elastic import entry, reconcile, spool
from scheduler.elastic.cloud import Ask, BusyError, CapacityError, Cloud, CloudError, Launch, Listing, Machine
from scheduler.elastic.settings import LaunchSet, Settings
from scheduler.elastic.slurm import NodeState, Slurm
from scheduler.elastic.state import State
from scheduler.elastic.work import Work


class KilledError(BaseException):
    """The program was killed here."""


class Steps:
    """Counts the steps of a run that read or change the world; kills the run before or after step `kill_at`."""

    def __init__(self) -> None:
        self.at, self.kill_at, self.after = 0, -1, False

    def do(self, step: Callable[[], Any]) -> Any:
        self.at += 1
        mine = self.at == self.kill_at
        if mine and not self.after:
            raise KilledError
        found = step()
        if mine:
            raise KilledError
        return found


class CountedState(State):
    """A state that counts each write of its file as a step."""

    _steps: Steps

    def save(self) -> None:
        self._steps.do(super().save)


class FakeCloud(Cloud):
    """A cloud that never starts anything twice for one token, lists its machines, and can fail as the attributes say.

    Attributes:
        room: number of machines that the cloud can still start.
        partial: whether the cloud starts fewer machines than `least` if it has no room for more; if false, it starts none.
        busy: number of calls that the cloud will throttle.
        refuses: an error for every launch.
        hides: an error for every listing.
        unlisted: whether new machines are missing from the listing.
        located: locations of machines, by id; the locations of other machines are unknown.
        shut: why no machine of a set can be started at this time, by set.
        grows: whether a launch beside running machines adds the new machines to the network of the running ones.
        places_to_start, full: the zones to launch in, and the zones without capacity. A launch in a zone without
            capacity returns normally, and only the listing shows its failure.
        wanted: the tokens of launches that are still wanted, as given by the last call of `terminate`.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps, self.room, self.partial, self.busy = steps, 1000, False, 0
        self.refuses: CloudError | None = None
        self.unlisted = False
        self.hides: CloudError | None = None
        self.machines: dict[str, Machine] = {}
        self.launched: dict[str, list[str]] = {}
        self.calls: list[str] = []
        self.failed: dict[str, CloudError] = {}
        self.started = 0
        self.located: dict[str, tuple[str, ...]] = {}
        self.shut: dict[str, str] = {}
        self.grows = False
        self.places_to_start: tuple[str, ...] = ("",)
        self.full: set[str] = set()
        self.wanted: set[str] = set()

    @property
    def running(self) -> list[str]:
        return [its.id for its in self.machines.values() if not its.ended]

    def zones(self, spec: dict[str, Any]) -> tuple[str, ...]:
        del spec
        return self.places_to_start

    def launch(self, wanted: Launch) -> list[str]:
        return self.steps.do(lambda: self._launch(wanted))

    def _launch(self, wanted: Launch) -> list[str]:
        self._call("launch")
        if wanted.token in self.launched:
            return self.launched[wanted.token]
        if self.refuses:
            raise self.refuses
        assert wanted.zone in self.places_to_start
        if wanted.zone in self.full:
            self.failed[wanted.token] = CapacityError("InternalError", f"Out of host capacity in {wanted.zone}.")
            self.launched[wanted.token] = []
            return []
        count = min(wanted.size, self.room)
        if count < wanted.least and not self.partial:
            raise CapacityError("InsufficientInstanceCapacity", "there is no capacity in this zone")
        self.room -= count
        ids = []
        for _ in range(count):
            self.started += 1
            its = f"i-{self.started:04}"
            self.machines[its] = Machine(its, wanted.beside or wanted.token, f"10.0.{self.started // 250}.{self.started % 250}")
            ids.append(its)
        self.launched[wanted.token] = ids
        return ids

    def listing(self) -> Listing:
        def listed() -> Listing:
            self._call("list")
            if self.hides:
                raise self.hides
            return Listing([] if self.unlisted else [*self.machines.values()], self.failed)

        return self.steps.do(listed)

    def places(self, machines: Sequence[Machine], ask: Ask) -> dict[str, tuple[str, ...]]:
        del ask

        def found() -> dict[str, tuple[str, ...]]:
            self._call("places")
            assert all(self.machines[one.id] == one for one in machines)
            return {one.id: self.located[one.id] for one in machines if one.id in self.located}

        return self.steps.do(found)

    def closed(self, sets: dict[str, dict[str, Any]]) -> dict[str, str]:
        assert set(self.shut) <= set(sets)
        if self.hides:
            raise self.hides
        return dict(self.shut)

    def terminate(self, ids: Sequence[str], wanted: Collection[str] = ()) -> None:
        self.wanted = {token for token in wanted if token}

        def end() -> None:
            self._call("terminate")
            for its in sorted(set(ids) & set(self.machines)):
                self.die(its)

        self.steps.do(end)

    def die(self, its: str, why: str = "") -> None:
        if not self.machines[its].ended:
            self.room += 1
        self.machines[its] = self.machines[its]._replace(ended=True, why=why, stopped=False)

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.busy:
            self.busy -= 1
            raise BusyError("RequestLimitExceeded", "Request limit exceeded.")


class FakeSlurm(Slurm):
    """Slurm's states of nodes, as slurmctld 22.05 changes them (tests/rehearsed/test_rehearsed_elastic.py runs the real one).

    Attributes:
        delays: whether nodes start only at the next `power_save`, because Slurm checks every 30 s.
        asked: nodes that Slurm was asked to start, once for each request.
        dismissed: nodes that Slurm was asked to power down, once for each request.
    """

    def __init__(self, steps: Steps, nodes: Iterable[str], folder: Path) -> None:
        self.steps, self.folder = steps, folder
        self.delays, self.asked, self.dismissed = False, list[str](), list[str]()
        self.comments: dict[str, str] = {}
        self.reconfigured = 0
        self.nodes = {node: NodeState(frozenset(("IDLE", "CLOUD", "POWERED_DOWN")), "") for node in nodes}

    def states(self) -> dict[str, NodeState]:
        return dict(self.nodes)

    def down(self, nodes: Sequence[str], reason: str) -> None:
        def change() -> None:
            for node in nodes:
                self.nodes[node] = NodeState(self.nodes[node].flags - {"IDLE", "ALLOCATED"} | {"DOWN"}, reason)

        self.steps.do(change)

    def power_down(self, nodes: Sequence[str]) -> None:
        def change() -> None:
            self.dismissed += nodes
            self.idle(*nodes)

        self.steps.do(change)

    def power_up(self, nodes: Sequence[str]) -> None:
        def change() -> None:
            self.asked += nodes
            for node in nodes:  # even a node that is already starting is shown as powered down again
                its = self.nodes[node]
                self.nodes[node] = NodeState(its.flags | {"POWER_UP", "POWERED_DOWN"}, its.reason)
            if not self.delays:
                self.power_save()

        self.steps.do(change)

    def power_save(self) -> None:
        """Do what Slurm does every 30 s: start the nodes that Slurm was asked to start."""
        self.start(*(("", [node]) for node, its in self.nodes.items() if "POWER_UP" in its.flags))

    def resume(self, nodes: Sequence[str]) -> None:
        def change() -> None:
            for node in nodes:
                off = ("CLOUD", "POWERED_DOWN") if "-dy-" in node else ()
                self.nodes[node] = NodeState(frozenset(("IDLE", *off)), "")

        self.steps.do(change)

    def reconfigure(self) -> None:
        def read() -> None:
            self.reconfigured += 1

        self.steps.do(read)

    def comment(self, node: str, text: str) -> None:
        self.steps.do(lambda: self.comments.update({node: text}))

    def start(self, *jobs: tuple[str, Sequence[str]]) -> None:
        """Do what Slurm does when jobs need nodes that are not running."""
        for _, nodes in jobs:
            self.allocate(nodes)
        if jobs:
            spool.write(str(self.folder), spool.RESUME, [spool.Group(job, tuple(nodes)) for job, nodes in jobs])

    def allocate(self, nodes: Sequence[str]) -> None:
        """Change the states of nodes as Slurm does before it calls `busbar-resume`."""
        for node in nodes:
            self.nodes[node] = NodeState(frozenset(("ALLOCATED", "CLOUD", "POWERING_UP")), "")

    def idle(self, *nodes: str) -> None:
        """Do what Slurm does with nodes that were idle for long enough."""
        for node in nodes:
            self.nodes[node] = NodeState(frozenset(("IDLE", "CLOUD", "POWERED_DOWN")), "")
        if nodes:
            spool.write(str(self.folder), spool.SUSPEND, [spool.Group("", tuple(nodes))])

    def reasons(self) -> dict[str, str]:
        """Return what `sinfo -R` shows."""
        return {node: its.reason for node, its in self.nodes.items() if its.reason}


class Controller:
    """The controller's disk, and runs of `reconcile` on this disk.

    `entry_s` is the time limit of the test of new machines, in seconds; 0 means that new machines are not tested.
    """

    def __init__(self, folder: Path, size: int = 8, entry_s: float = 0, always_on: int = 0) -> None:
        self.folder, self.now, self.steps = folder, 1_000_000.0, Steps()
        self.spool = folder / "wanted"
        self.spool.mkdir()
        self.hosts = folder / "hosts"
        self.hosts.write_text("127.0.0.1 localhost\n")
        self.topology = folder / "topology.conf"
        script = "/home/.busbar/entry-test.sh" if entry_s else ""
        sets = {f"gpu/{name}": LaunchSet("gpu", name, size, 1800, {}, script, entry_s) for name in ("p5", "p4")}
        sets["gpu/p5"] = sets["gpu/p5"]._replace(always_on=always_on)
        self.desk = entry.Desk(str(folder / entry.FOLDER))
        static = {f"gpu-st-p5-{number}": (f"i-st{number}", f"10.1.0.{number}") for number in (1, 2)}
        self.settings = Settings(sets, {}, {}, static)
        self.cloud = FakeCloud(self.steps)
        self.slurm = FakeSlurm(self.steps, [node for one in sets.values() for node in one.nodes], self.spool)
        self.slurm.nodes.update((node, NodeState(frozenset(("IDLE",)), "")) for node in static)
        self.silent: set[str] = set()
        self.joined: list[str] = []
        self.said: list[str] = []

    def nodes(self, count: int, name: str = "p5", first: int = 1) -> list[str]:
        return [f"gpu-dy-{name}-{number}" for number in range(first, first + count)]

    def run(self, times: int = 1, seconds: float = 5) -> State:
        """Run the program several times; each run reads its state from the disk."""
        for _ in range(times):
            self.now += seconds
            reconcile.once(self.work())
        return self.state()

    def work(self) -> Work:
        state = CountedState.load(str(self.folder / "state.json"))
        state._steps = self.steps  # noqa: SLF001 - a private field is not saved
        return Work(
            self.settings,
            state,
            str(self.spool),
            self.slurm,
            self.cloud,
            self._join,
            lambda: self.now,
            self.said.append,
            str(self.hosts),
            self._reach,
            topology=str(self.topology),
        )

    def state(self) -> State:
        return State.load(str(self.folder / "state.json"))

    def _reach(self, node: str, machine: str, address: str, _: dict[str, str]) -> str:
        assert self.cloud.machines[machine].address == address
        return "Connection refused" if node in self.silent else ""

    def _join(self, node: str, machine: str, address: str, others: dict[str, str]) -> str:
        if node in self.silent:
            return "Connection refused"
        self.joined.append(node)
        if node in self.settings.static:
            assert self.settings.static[node] == (machine, address)
            return ""
        assert self.cloud.machines[machine].address == address == others[node]
        if "POWERING_UP" in self.slurm.nodes[node].flags:
            self.slurm.nodes[node] = NodeState(frozenset(("IDLE", "CLOUD")), "")
        return ""
