"""Creates, changes and deletes what the engine asks for, and survives its own death at any moment.

Every request leaves a record before it has an effect and marks it with this process. Whatever a dead process was
at work on is undone (or, if it was going, finished) when the next one starts. What was made but never heard of again
by the engine that asked (it died before it could write its state) gives way when the same resource is asked for anew.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from rehearsal import hosts, network
from rehearsal.oci.errors import PartlyCreatedError, Problem, ServiceError
from rehearsal.oci.faults import Faults
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.netplan import plan_of
from rehearsal.oci.registry import KINDS
from rehearsal.oci.store import Database, Record, Store, alive, new_ocid, references, this_process
from rehearsal.world import World

_VCN = "oci:Core/vcn:Vcn"
_INSTANCE = "oci:Core/instance:Instance"


class Cloud:
    """One world's Oracle cloud."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.store = Store(world)
        self.faults = Faults(world, self.store)
        self._process = this_process()
        self._rendering = threading.Lock()

    def problems(self, token: str, inputs: Mapping[str, Any], urn: str) -> list[Problem]:
        """What the service would refuse of these inputs, for a preview."""
        return list(KINDS[token].problems(Asked(inputs, self.store.read(), urn=urn)))

    def create(self, token: str, urn: str, inputs: Mapping[str, Any]) -> Record:
        """Make one resource.

        Raises:
            ServiceError: the service refused; nothing is left.
            RequestTimeoutError: no answer.
            PartlyCreatedError: something is left, as in life.
        """
        kind = KINDS[token]
        self.faults.before(kind.service, kind.create)
        for orphan in self._orphans(lambda record: record.urn == urn):
            self._discard(orphan.ocid)
        with self.store.change() as database:
            _refuse_if(kind.problems(Asked(inputs, database)), kind, kind.create)
            record = Record(
                new_ocid(kind.noun), token, urn, "PROVISIONING", dict(inputs), worker=self._process, maker=self._process
            )
            kind.born(database, record)
            database.records[record.ocid] = record
        try:
            kind.effect(self, record, None)
        except PartlyCreatedError:
            self._settle(record.ocid)
            raise
        except BaseException:
            self._remove(record.ocid)
            raise
        self.faults.within(kind.create)
        return self._settle(record.ocid)

    def update(self, ocid: str, inputs: Mapping[str, Any]) -> Record:
        """Change a resource to new inputs.

        Raises:
            ServiceError: the service refused, or knows no such OCID; what was before is kept.
            RequestTimeoutError: no answer.
            PartlyCreatedError: the change got half way.
        """
        found = self.store.read().find(ocid)
        if found is None:
            raise ServiceError(Problem("", f"Resource not found: {ocid}.", 404, "NotAuthorizedOrNotFound"), "Core", "Update")
        kind = KINDS[found.token]
        self.faults.before(kind.service, kind.update)
        with self.store.change() as database:
            record = database.records[ocid]
            _refuse_if(kind.problems(Asked(inputs, database, itself=ocid)), kind, kind.update)
            old, record.inputs = record.inputs, dict(inputs)
            record.state, record.worker, record.acknowledged = "UPDATING", self._process, True
        try:
            kind.effect(self, record, old)
        except PartlyCreatedError:
            self._settle(ocid)
            raise
        except BaseException:
            with self.store.change() as database:
                database.records[ocid].inputs = old
            self._settle(ocid)
            raise
        self.faults.within(kind.update)
        return self._settle(ocid)

    def delete(self, ocid: str) -> None:
        """Remove a resource; one that does not exist is gone already.

        Raises:
            ServiceError: something that exists still needs it, or the request was throttled.
            RequestTimeoutError: no answer.
        """
        found = self.store.read().records.get(ocid)
        if found is None:
            return
        kind = KINDS[found.token]
        self.faults.before(kind.service, kind.delete)
        stack = _stack(found.urn)
        # The engine deletes what it knows from the leaves up: what still hangs here and is none of its own died with a run.
        for orphan in self._orphans(lambda record: _stack(record.urn) == stack and _names(record, found)):
            self._discard(orphan.ocid)
        with self.store.change() as database:
            if ocid not in database.records:
                return
            record = database.records[ocid]
            _refuse_if(_holders(database, record), kind, kind.delete)
            record.state, record.worker = "TERMINATING", self._process
        self.faults.within(kind.delete)
        self._remove(ocid)

    def read(self, ocid: str) -> Record | None:
        """A resource as it is, or None when it is gone; the engine surely knows it from now on."""
        record = self.store.read().find(ocid)
        if record is None:
            return None
        if not KINDS[record.token].exists(self, record):
            self._remove(ocid)
            return None
        self.acknowledge(ocid)
        return record

    def acknowledge(self, ocid: str) -> None:
        """Note that the engine has named a resource, so that it is no orphan of a crash."""
        record = self.store.read().records.get(ocid)
        if record is not None and not record.acknowledged:
            with self.store.change() as database:
                if ocid in database.records:
                    database.records[ocid].acknowledged = True

    def render(self, vcn: object) -> None:
        """Make a VCN in the world what the database says of it."""
        # One at a time, so that an older picture of the same VCN never overtakes a newer one.
        with self._rendering:
            record = self.store.read().find(vcn, _VCN)
            if record is not None:
                network.apply_vcn(self.world, plan_of(self.store.read(), record))

    def recover(self) -> None:
        """Undo or finish what dead processes were at work on, and stop hosts that no record knows."""
        database = self.store.read()
        broken = [record for record in database.records.values() if record.worker and not alive(record.worker)]
        for record in broken:
            if record.state in {"PROVISIONING", "TERMINATING"}:
                self._remove(record.ocid)
            else:
                self._settle(record.ocid)
        if broken:
            for vcn in self.store.read().of(_VCN):
                self.render(vcn.ocid)
        folder = self.world.path / "hosts"
        running = {one.name for one in folder.iterdir()} if folder.is_dir() else set()
        for stray in running - {record.short for record in self.store.read().records.values()}:
            hosts.stop(self.world, stray)

    @contextmanager
    def working(self, record: Record) -> Iterator[None]:
        """Hold a resource that a larger one is bringing up; ready when the block ends, gone when it raises."""
        try:
            yield
        except BaseException:
            self._remove(record.ocid)
            raise
        self._settle(record.ocid)

    def stamp(self, record: Record) -> Record:
        """The record as this process's own work, for resources that a larger one brings along."""
        return replace(record, worker=self._process, maker=self._process)

    def remove(self, ocid: str) -> None:
        """Take away what a larger resource brought along; a missing one is fine."""
        self._remove(ocid)

    def _settle(self, ocid: str) -> Record:
        with self.store.change() as database:
            record = database.records[ocid]
            record.state, record.worker = KINDS[record.token].ready, ""
        return record

    def _remove(self, ocid: str) -> None:
        with self.store.change() as database:
            record = database.records.get(ocid)
            if record is None:
                return
            record.state, record.worker = "TERMINATING", self._process
            children = [child.ocid for child in database.children(ocid)]
        for child in children:
            self._remove(child)
        KINDS[record.token].gone(self, record)
        with self.store.change() as database:
            database.records.pop(ocid, None)

    def _discard(self, ocid: str) -> None:
        """Remove a resource and all that was built on it."""
        database = self.store.read()
        if ocid in database.records:
            for other in [one for one in database.records.values() if _names(one, database.records[ocid])]:
                self._discard(other.ocid)
            self._remove(ocid)

    def _orphans(self, chosen: Any) -> list[Record]:
        return [
            record
            for record in self.store.read().records.values()
            if record.urn and not record.acknowledged and not alive(record.maker) and chosen(record)
        ]


def _refuse_if(problems: Iterator[Problem], kind: Kind, operation: str) -> None:
    problem = next(problems, None)
    if problem is not None:
        raise ServiceError(problem, kind.service, operation)


def _names(record: Record, other: Record) -> bool:
    return other.ocid in references(record.inputs)


def _stack(urn: str) -> str:
    """The stack and the project of a URN (`urn:pulumi:stack::project::type::name`)."""
    return "::".join(urn.split("::")[:2])


def _holders(database: Database, record: Record) -> Iterator[Problem]:
    """What still needs a record, and is neither its own child nor going too."""
    for other in database.records.values():
        if other.state == "TERMINATING" or other.parent == record.ocid or not KINDS[other.token].holds:
            continue
        if _names(other, record):
            yield Problem(
                "",
                f"The {KINDS[record.token].service.split()[-1]} {record.ocid} references the "
                f"{KINDS[other.token].service.split()[-1]} {other.ocid}. You must remove the reference to proceed with this "
                "operation.",
                status=409,
                code="Conflict",
            )
