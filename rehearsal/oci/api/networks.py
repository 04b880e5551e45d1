"""Cluster networks as the API creates, resizes and terminates them: the answer comes at once, the effect later.

A network whose launch fails ends as TERMINATED (oci-hpc issue 6), without machines; its work request has the reason. There is
one exception: after the planted fault `capacity` with `partial`, the network and its launched machines stay (oci-hpc issue 37).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rehearsal.oci.api import shown
from rehearsal.oci.api.ledger import Ledger, WorkRequest
from rehearsal.oci.cloud import Cloud
from rehearsal.oci.compute import INSTANCE, NO_CAPACITY
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.kinds import Asked
from rehearsal.oci.pools import ClusterNetwork
from rehearsal.plugin.errors import PartlyCreatedError, RequestTimeoutError, ServiceError
from rehearsal.plugin.presence import present
from rehearsal.plugin.store import Database, Record

NETWORK = ClusterNetwork()
#: A launch waits this long, so that its machines do not boot too early for Slurm; no real machine boots in less time. Slurm
#: refuses a node that booted before Slurm requested the node. Before Slurm compares the time of the boot with the time of the
#: request, it rounds both up to whole seconds.
_LEAST_START_S = 2
_FAILURES = (PartlyCreatedError, ServiceError, RequestTimeoutError, RuntimeError, KeyError)
_BUSY = "The resource is in a state that does not allow this operation: another operation is running."
_USED_TOKEN = (
    "The provided retry token was used in an earlier request that resulted in a system update, but a subsequent operation "  # noqa: S105
    "invalidated the token."
)


def refused(problem: Problem, operation: str) -> ServiceError:
    """Return the service's refusal of an operation."""
    return ServiceError(problem, NETWORK.service, operation)


class Networks:
    """The cluster networks of one world."""

    def __init__(self, cloud: Cloud, ledger: Ledger) -> None:
        self._cloud, self._ledger = cloud, ledger
        self._guard, self._turns = threading.Lock(), dict[str, threading.Lock]()

    def create(self, inputs: Mapping[str, Any], token: str) -> tuple[Record, WorkRequest | None]:
        """Start to create a cluster network; return its record and its work request.

        If an earlier request with the same token has created the network, the work request is None.

        Raises:
            ServiceError: the service refuses the request.
        """
        operation = "CreateClusterNetwork"
        with self._cloud.store.change() as database:
            again = [one for one in database.of(NETWORK.token) if token and one.private.get("retryToken") == token]
            if again:
                return again[0], None
            if token and self._ledger.used(token):
                raise refused(Problem("", _USED_TOKEN, 409, "InvalidatedRetryToken"), operation)
            problem = next(iter(NETWORK.problems(Asked(inputs, database))), None)
            if problem is not None:
                raise ServiceError(problem, NETWORK.service, operation)
            made = Record(NETWORK.new_id("", inputs), NETWORK.token, "", "PROVISIONING", dict(inputs))
            record = self._cloud.stamp(made)
            NETWORK.on_create(database, record)
            record.private["retryToken"] = token
            database.records[record.id] = record
            self._ledger.use(token)
        request = self._begin(operation, record, "CREATED")
        self._later(record.id, lambda: self._provision(record, request))
        return record, request

    def update(self, ocid: str, asked: Mapping[str, Any]) -> None:
        """Start to change a network's tags and its pool's size and configuration; only a changed size starts an operation.

        The vendor's answer has no work request. The requested size stays recorded even if the pool could not reach it.

        Raises:
            ServiceError: there is no such network or pool, another operation on the network is running, or the service refuses
                the new size or tags.
        """
        operation = "UpdateClusterNetwork"
        with self._cloud.store.change() as database:
            record = database.find(ocid, NETWORK.token)
            if record is None or set(asked["pools"]) - {record.private["pool"]}:
                raise refused(not_found("", ocid), operation)
            if record.state != NETWORK.ready or record.worker not in {"", self._cloud.process}:
                raise refused(Problem("", _BUSY, 409, "IncorrectState"), operation)
            inputs = {**record.inputs, **{name: asked[name] for name in ("freeformTags", "definedTags") if name in asked}}
            pool = inputs["instancePools"][0]
            renewed = {**pool, **asked["pools"].get(record.private["pool"], {})}
            changed = renewed["size"] != pool["size"]
            inputs["instancePools"] = [renewed]
            problem = next(iter(NETWORK.problems(Asked(inputs, database, record.id))), None)
            if problem is not None:
                raise refused(problem, operation)
            record.inputs = inputs
            if changed:
                record.state, record.private["scaling"] = "SCALING", record.private.get("scaling", 0) + 1
        if changed:
            request = self._begin(operation, record, "UPDATED")
            self._later(ocid, lambda: self._resized(ocid, request))

    def _resized(self, ocid: str, request: WorkRequest) -> None:
        time.sleep(_LEAST_START_S)
        found, error = self._cloud.store.read().find(ocid), None
        try:
            if found is not None:
                more = found.inputs["instancePools"][0]["size"] - len(shown.members(self._cloud.store.read(), ocid))
                if more > 0 and self._cloud.faults.lacking(more, _domain(found)) is not None:
                    raise refused(NO_CAPACITY, "LaunchInstance")
                NETWORK.effect(self._cloud, found, found.inputs)
        except _FAILURES as failure:
            error = _error(failure)
        self._ledger.end(request, error)
        with self._cloud.store.change() as database:
            self._settle(database, ocid)

    def terminate(self, ocid: str) -> WorkRequest:
        """Start to terminate a cluster network with all its instances.

        Raises:
            ServiceError: there is no such network, or another operation on the network is running.
        """
        operation = "TerminateClusterNetwork"
        with self._cloud.store.change() as database:
            record = database.find(ocid, NETWORK.token)
            if record is None:
                raise refused(not_found("", ocid), operation)
            if record.worker not in {"", self._cloud.process}:
                raise refused(Problem("", _BUSY, 409, "IncorrectState"), operation)
            record.private["ending"] = True
        request = self._begin(operation, record, "DELETED")
        self._later(ocid, lambda: self._end(ocid, request))
        return request

    def detach(self, pool: str, instance: str, *, shrink: bool, end: bool) -> WorkRequest:
        """Start to remove an instance from its pool.

        With `shrink`, the pool gets smaller; otherwise, the pool starts a replacement. With `end`, the removed instance is
        terminated.

        Raises:
            ServiceError: there is no such pool, or the pool has no such instance.
        """
        with self._cloud.store.change() as database:
            owner = next((one for one in database.of(NETWORK.token) if one.private["pool"] == pool), None)
            record = database.find(instance, INSTANCE)
            if owner is None or record is None or record.parent != owner.id:
                raise refused(not_found("", pool if owner is None else instance), "DetachInstancePoolInstance")
            owner.state, owner.private["scaling"] = "SCALING", owner.private.get("scaling", 0) + 1
            if shrink:
                owner.inputs["instancePools"][0]["size"] -= 1
            if end:
                record.state, record.worker = "TERMINATING", self._cloud.process
            else:
                record.parent = None
        request = self._begin("DetachInstancePoolInstance", owner, "UPDATED")
        self._later(owner.id, lambda: self._detached(owner.id, record, request, shrink=shrink, end=end))
        return request

    def end_instance(self, record: Record) -> WorkRequest:
        """Start to terminate one instance; in the rehearsal, the instance's pool does not replace the instance."""
        with self._cloud.store.change() as database:
            mine = database.records[record.id]
            mine.state, mine.worker = "TERMINATING", self._cloud.process
        request = WorkRequest("TerminateInstance", record.inputs["compartmentId"], record.id, "instance", "DELETED")
        self._ledger.begin(request)
        self._later(record.parent or record.id, lambda: self._ended(record, request))
        return request

    def lost(self) -> None:
        """Treat an instance as terminated if the instance's host has disappeared."""
        for record in self._cloud.store.read().of(INSTANCE):
            if record.state == "RUNNING" and self._cloud.read(record.id) is None:
                self._ledger.bury(shown.instance(record))

    @contextmanager
    def _only(self, ocid: str) -> Iterator[None]:
        """Lock a network, so that operations on it run one after the other."""
        with self._guard:
            turn = self._turns.setdefault(ocid, threading.Lock())
        with turn:
            yield

    def _begin(self, operation: str, record: Record, action: str) -> WorkRequest:
        request = WorkRequest(operation, record.inputs["compartmentId"], record.id, "clusterNetwork", action)
        return self._ledger.begin(request)

    def _later(self, ocid: str, work: Callable[[], None]) -> None:
        def turn() -> None:
            with self._only(ocid), present(self._cloud.world):
                work()

        threading.Thread(target=turn, daemon=True).start()

    def _provision(self, record: Record, request: WorkRequest) -> None:
        time.sleep(_LEAST_START_S)
        size = record.inputs["instancePools"][0]["size"]
        lacking = self._cloud.faults.lacking(size, _domain(record))
        try:
            if lacking is not None and not lacking.get("partial"):
                raise refused(NO_CAPACITY, "LaunchInstance")
            self._launch(record, partial=lacking is not None)
        except _FAILURES as failure:
            self._ledger.end(request, _error(failure))
            if lacking is None or not lacking.get("partial"):
                self._bury_network(record)
        else:
            self._ledger.end(request)

    def _launch(self, record: Record, *, partial: bool) -> None:
        if not partial:
            with self._cloud.working(record):
                NETWORK.effect(self._cloud, record, None)
            return
        try:
            NETWORK.effect(self._cloud, record, None)
        finally:
            with self._cloud.store.change() as database:
                database.records[record.id].worker = ""

    def _bury_network(self, record: Record) -> None:
        database = self._cloud.store.read()
        alive = database.records.get(record.id)
        self._ledger.bury(shown.network(database, alive or record))
        if alive is not None:
            self._cloud.remove(record.id)

    def _end(self, ocid: str, request: WorkRequest) -> None:
        database = self._cloud.store.read()
        record = database.records.get(ocid)
        if record is not None:  # None means that a failed launch has already terminated the network
            # The API shows a terminated resource from the ledger as soon as the resource has no record.
            for one in shown.members(database, ocid):
                self._ledger.bury(shown.instance(one))
            self._ledger.bury(shown.network(database, record))
            self._cloud.remove(ocid)
        self._ledger.end(request)

    def _ended(self, record: Record, request: WorkRequest) -> None:
        self._ledger.bury(shown.instance(record))
        self._cloud.remove(record.id)
        self._ledger.end(request)

    def _detached(self, owner: str, record: Record, request: WorkRequest, *, shrink: bool, end: bool) -> None:
        error = None
        if end:
            self._ledger.bury(shown.instance(record))
            self._cloud.remove(record.id)
        found = self._cloud.store.read().find(owner)
        try:
            if found is not None and not shrink:
                NETWORK.effect(self._cloud, found, found.inputs)
        except _FAILURES as failure:
            error = _error(failure)
        with self._cloud.store.change() as database:
            self._settle(database, owner)
        self._ledger.end(request, error)

    @staticmethod
    def _settle(database: Database, owner: str) -> None:
        record = database.find(owner)
        if record is not None:
            record.private["scaling"] -= 1
            if not record.private["scaling"] and record.state == "SCALING":
                record.state = NETWORK.ready


def _domain(record: Record) -> str:
    return str(record.inputs["placementConfiguration"]["availabilityDomain"])


def _error(failure: BaseException) -> tuple[str, str]:
    if isinstance(failure, ServiceError):
        return failure.problem.code, failure.problem.message
    said = str(failure)
    # If only a part of the launch failed, the provider's message contains the service's message.
    return NO_CAPACITY.code, NO_CAPACITY.message if NO_CAPACITY.message in said else said
