"""What the service remembers besides the resources that exist: work requests, ended resources and used retry tokens.

It is kept only in this process, so it is lost when the world ends. The vendor shows ended resources for about a day.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.oci.ocids import new_ocid, now, stamp

Shown = dict[str, Any]


@dataclass
class WorkRequest:
    """One asynchronous operation on one resource.

    Attributes:
        operation: the API's operation that began it; who reads its details needs the same permissions.
        resource: OCID of what it works on.
        entity: kind of that resource.
        action: what is done to it: CREATED, UPDATED or DELETED.
        error: why it failed, code and message.
    """

    operation: str
    compartment: str
    resource: str
    entity: str
    action: str
    id: str = field(default_factory=lambda: new_ocid("coreservicesworkrequest"))
    status: str = "IN_PROGRESS"
    accepted: str = field(default_factory=lambda: stamp(now()))
    finished: str = ""
    error: tuple[str, str] | None = None

    def shown(self) -> Shown:
        """Return it as the API does."""
        done = self.status != "IN_PROGRESS"
        return {
            "id": self.id, "operationType": self.operation, "status": self.status, "compartmentId": self.compartment,
            "percentComplete": 100.0 if done else 0.0, "timeAccepted": self.accepted, "timeStarted": self.accepted,
            "timeFinished": self.finished or None,
        }  # fmt: skip

    def resources(self) -> list[Shown]:
        """Return what it works on."""
        action = "IN_PROGRESS" if self.status == "IN_PROGRESS" else self.action
        where = {"entityType": self.entity, "identifier": self.resource, "entityUri": f"/20160918/{self.resource}"}
        return [{"actionType": action, **where}]

    def errors(self) -> list[Shown]:
        """Return why it failed."""
        if self.error is None:
            return []
        code, message = self.error
        return [{"code": code, "message": message, "timestamp": self.finished}]


class Ledger:
    """The work requests, ended resources and retry tokens that one process remembers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, WorkRequest] = {}
        self._gone: dict[str, Shown] = {}
        self._tokens: set[str] = set()

    def begin(self, request: WorkRequest) -> WorkRequest:
        """Remember an operation that begins."""
        with self._lock:
            self._requests[request.id] = request
        return request

    def end(self, request: WorkRequest, error: tuple[str, str] | None = None) -> None:
        """Remember that an operation succeeded, or failed with an error."""
        with self._lock:
            request.status = "FAILED" if error else "SUCCEEDED"
            request.error, request.finished = error, stamp(now())

    def requests(self) -> list[WorkRequest]:
        """Return all operations, the oldest first."""
        with self._lock:
            return list(self._requests.values())

    def bury(self, shown: Mapping[str, Any]) -> None:
        """Remember a resource that has ended, as it was last shown."""
        with self._lock:
            self._gone[shown["id"]] = {**shown, "lifecycleState": "TERMINATED"}

    def gone(self, noun: str, existing: Container[str]) -> list[Shown]:
        """Return the ended resources whose OCIDs have this noun, without those that the store still has (`existing`)."""
        with self._lock:
            return [one for ocid, one in self._gone.items() if ocid.split(".")[1] == noun and ocid not in existing]

    def ended(self, ocid: str) -> Shown | None:
        """Return an ended resource, or None."""
        with self._lock:
            return self._gone.get(ocid)

    def used(self, token: str) -> bool:
        """Return whether a request with this retry token has made something."""
        with self._lock:
            return token in self._tokens

    def use(self, token: str) -> None:
        """Remember that a request with a retry token has made something."""
        with self._lock:
            self._tokens.add(token)
