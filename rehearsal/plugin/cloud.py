"""Creates, changes and deletes resources for the engine, and survives a crash at any moment.

A request writes a record that is marked with this process before it does anything else. If the process dies, the next process
that starts finishes the request, because a vendor also continues a request whose caller has died. So if an engine dies while it
creates a resource, this resource comes to exist, is billed, and blocks the deletion of its dependencies. When the engine sends
the request again, a second resource is created beside it.
"""

from __future__ import annotations

import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

from rehearsal.host import hosts
from rehearsal.plugin.errors import PartlyCreatedError, Problem, RequestTimeoutError, ServiceError
from rehearsal.plugin.faults import Faults
from rehearsal.plugin.kinds import Asked, Kind
from rehearsal.plugin.store import Database, Record, Store, alive, this_process
from rehearsal.world.world import World


class Cloud(ABC):
    """One vendor's cloud in one world.

    Attributes:
        pace: the cloud waits this fraction of the real cloud's waiting times: BUSBAR_PACE, from 0 (the default) to 1.
    """

    name: ClassVar[str] = ""
    kinds: ClassVar[Mapping[str, Kind]] = {}
    #: The service's refusal of too many requests.
    throttled: ClassVar[Problem]

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = Store(world, self.name)
        self.faults = Faults(world, self.store, self.throttled)
        self.process = this_process()
        self.pace = _pace(os.environ.get("BUSBAR_PACE", "0"))
        self.rendering = threading.Lock()

    @abstractmethod
    def unknown(self, resource_id: str) -> ServiceError:
        """Return the error for a change of a resource that does not exist."""

    @abstractmethod
    def render(self, vcn_id: object) -> None:
        """Make a VCN or VPC of the world match the database."""

    @abstractmethod
    def render_all(self) -> None:
        """Make every network of the world match the database."""

    def problems(self, token: str, inputs: Mapping[str, Any], urn: str) -> list[Problem]:
        """Return the service's refusals of these inputs, for a preview."""
        return list(self.kinds[token].problems(Asked(inputs, self.store.read(), urn=urn)))

    def create(self, token: str, urn: str, inputs: Mapping[str, Any]) -> Record:
        """Create one resource.

        Raises:
            ServiceError: the service refused; nothing remains.
            RequestTimeoutError: the service did not answer.
            PartlyCreatedError: something remains, as in the real cloud.
        """
        kind = self.kinds[token]
        self.faults.before(kind.service, kind.create, kind.stale(inputs))
        with self.store.change() as database:
            _refuse_if(kind.problems(Asked(inputs, database)), kind, kind.create)
            record = Record(kind.new_id(urn, inputs), token, urn, "PROVISIONING", dict(inputs), worker=self.process)
            kind.on_create(database, record)
            database.records[record.id] = record
        try:
            kind.effect(self, record, None)
        except PartlyCreatedError:
            self._settle(record.id)
            raise
        except BaseException:
            self._remove(record.id)
            raise
        self.faults.within(kind.create)
        return self._settle(record.id)

    def update(self, resource_id: str, inputs: Mapping[str, Any]) -> Record:
        """Change a resource to new inputs.

        Raises:
            ServiceError: the service refused, or does not know the id; nothing changes.
            RequestTimeoutError: the service did not answer.
            PartlyCreatedError: the change stopped halfway.
        """
        found = self.store.read().find(resource_id)
        if found is None:
            raise self.unknown(resource_id)
        kind = self.kinds[found.token]
        self.faults.before(kind.service, kind.update)
        with self.store.change() as database:
            record = database.records[resource_id]
            _refuse_if(kind.problems(Asked(inputs, database, itself=resource_id)), kind, kind.update)
            old, record.inputs = record.inputs, dict(inputs)
            record.state, record.worker = "UPDATING", self.process
        try:
            kind.effect(self, record, old)
        except PartlyCreatedError:
            self._settle(resource_id)
            raise
        except BaseException:
            with self.store.change() as database:
                database.records[resource_id].inputs = old
            self._settle(resource_id)
            raise
        self.faults.within(kind.update)
        return self._settle(resource_id)

    def delete(self, resource_id: str, timeout_s: float = 0) -> None:
        """Delete a resource and wait until it is gone, up to `timeout_s` (0: no limit); do nothing if the resource is missing.

        Raises:
            ServiceError: the service refused, for example because another resource depends on this resource.
            RequestTimeoutError: the service did not answer, or the deletion did not finish in time.
        """
        found = self.store.read().records.get(resource_id)
        if found is None:
            return
        kind = self.kinds[found.token]
        self.faults.before(kind.service, kind.delete)
        with self.store.change() as database:
            if resource_id not in database.records:
                return
            record = database.records[resource_id]
            _refuse_if(self._holders(database, record), kind, kind.delete)
            record.state, record.worker = "TERMINATING", self.process
        self.faults.within(kind.delete)
        self.faults.ending(kind.delete, timeout_s)
        self._remove(resource_id)

    def read(self, resource_id: str) -> Record | None:
        """Return a resource, or None if it does not exist any more."""
        record = self.store.read().find(resource_id)
        if record is None:
            return None
        if not self.kinds[record.token].exists(self, record):
            self._remove(resource_id)
            return None
        return record

    def recover(self) -> None:
        """Finish the work of dead processes, and stop hosts without a record."""
        database = self.store.read()
        broken = [record for record in database.records.values() if record.worker and not alive(record.worker)]
        # A resource without a URN is a member of a pool. An unfinished member is removed first; if its pool is unfinished, too,
        # finishing the pool creates another member.
        for record in sorted(broken, key=lambda record: bool(record.urn)):
            if record.state == "TERMINATING" or (record.state == "PROVISIONING" and not record.urn):
                self._remove(record.id)
            elif record.state == "PROVISIONING":
                self._finish(record)
            else:
                self._settle(record.id)
        if broken:
            self.render_all()
        folder = self.world.path / "hosts"
        running = {one.name for one in folder.iterdir()} if folder.is_dir() else set()
        known = {record.short for store in Store.all_of(self.world) for record in store.read().records.values()}
        for stray in running - known:
            hosts.stop(self.world, stray)

    @contextmanager
    def working(self, record: Record) -> Iterator[None]:
        """Create a part of a larger resource.

        The part becomes ready when the `with` block ends, and is removed if the block raises.
        """
        try:
            yield
        except BaseException:
            self._remove(record.id)
            raise
        self._settle(record.id)

    def wait(self, seconds: float) -> None:
        """Wait for `seconds`, the vendor's own waiting time, multiplied by `pace`."""
        time.sleep(seconds * self.pace)

    def failed(self, record: Record, why: str) -> PartlyCreatedError:
        """Record that a resource exists, but failed because of `why`; return the error to raise."""
        with self.store.change() as database:
            mine = database.records[record.id]
            mine.private["failed"] = why
            kind = self.kinds[mine.token]
            return PartlyCreatedError(kind.shown(record), kind.outputs(mine), record.inputs, why)

    def stamp(self, record: Record) -> Record:
        """Return a copy of the record of a part of a larger resource; the copy is marked with this process."""
        return replace(record, worker=self.process)

    def remove(self, resource_id: str) -> None:
        """Remove a resource that is part of a larger resource; idempotent."""
        self._remove(resource_id)

    def _finish(self, record: Record) -> None:
        """Finish the creation that a dead process began; if the service refuses, nothing remains."""
        try:
            self.kinds[record.token].effect(self, record, None)
        except PartlyCreatedError:
            self._settle(record.id)
        except (ServiceError, RequestTimeoutError, RuntimeError):
            self._remove(record.id)
        else:
            self._settle(record.id)

    def _settle(self, resource_id: str) -> Record:
        with self.store.change() as database:
            record = database.records[resource_id]
            record.state, record.worker = self.kinds[record.token].ready, ""
        return record

    def _remove(self, resource_id: str) -> None:
        with self.store.change() as database:
            record = database.records.get(resource_id)
            if record is None:
                return
            record.state, record.worker = "TERMINATING", self.process
            children = [child.id for child in database.children(resource_id)]
        for child in children:
            self._remove(child)
        self.kinds[record.token].gone(self, record)
        with self.store.change() as database:
            database.records.pop(resource_id, None)

    def _needs(self, record: Record, other: Record) -> bool:
        names = self.kinds[other.token].names(other)
        return any(one in names for one in self.kinds[record.token].needs(record))

    def _holders(self, database: Database, record: Record) -> Iterator[Problem]:
        """Yield a refusal for each resource that depends on `record` and so blocks its deletion.

        A resource does not block the deletion if it is a child of `record`, if it is being deleted itself, or if the `holds` of
        its type is false.
        """
        for other in database.records.values():
            kind = self.kinds[other.token]
            if other.state == "TERMINATING" or record.id in {other.parent, other.id} or not kind.holds:
                continue
            if self._needs(other, record):
                yield self.kinds[record.token].in_use(record, other, kind)


def _refuse_if(problems: Iterator[Problem], kind: Kind, operation: str) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise ServiceError(problem, kind.service, operation)


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = -1
    if not 0 <= pace <= 1:
        raise ValueError(
            f"BUSBAR_PACE is {text!r}, but must be a number from 0 to 1: the fraction of the vendor's waiting times to wait."
        )
    return pace
