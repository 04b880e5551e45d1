"""What the API service remembers besides the existing resources: work requests, terminated resources and used retry tokens.

Only this process has this state, so the state is lost when the process ends. The vendor lists terminated resources for about a
day.
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
        operation: the API operation that started the work request; reading the work request needs this operation's permissions.
        resource: OCID of the resource.
        entity: kind of the resource.
        action: the change of the resource: CREATED, UPDATED or DELETED.
        error: code and message of the failure, or None.
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
        """Return the work request in the API's form."""
        done = self.status != "IN_PROGRESS"
        return {
            "id": self.id, "operationType": self.operation, "status": self.status, "compartmentId": self.compartment,
            "percentComplete": 100.0 if done else 0.0, "timeAccepted": self.accepted, "timeStarted": self.accepted,
            "timeFinished": self.finished or None,
        }  # fmt: skip

    def resources(self) -> list[Shown]:
        """Return the work request's resource in the API's form."""
        action = "IN_PROGRESS" if self.status == "IN_PROGRESS" else self.action
        where = {"entityType": self.entity, "identifier": self.resource, "entityUri": f"/20160918/{self.resource}"}
        return [{"actionType": action, **where}]

    def errors(self) -> list[Shown]:
        """Return the work request's error in the API's form."""
        if self.error is None:
            return []
        code, message = self.error
        return [{"code": code, "message": message, "timestamp": self.finished}]


class Ledger:
    """The work requests, terminated resources and retry tokens that one process remembers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[str, WorkRequest] = {}
        self._gone: dict[str, Shown] = {}
        self._tokens: set[str] = set()

    def begin(self, request: WorkRequest) -> WorkRequest:
        """Record the start of an operation."""
        with self._lock:
            self._requests[request.id] = request
        return request

    def end(self, request: WorkRequest, error: tuple[str, str] | None = None) -> None:
        """Record that an operation succeeded, or failed with an error."""
        with self._lock:
            request.status = "FAILED" if error else "SUCCEEDED"
            request.error, request.finished = error, stamp(now())

    def requests(self) -> list[WorkRequest]:
        """Return all operations, the oldest first."""
        with self._lock:
            return list(self._requests.values())

    def bury(self, shown: Mapping[str, Any]) -> None:
        """Record a terminated resource with the properties that the API last showed."""
        with self._lock:
            self._gone[shown["id"]] = {**shown, "lifecycleState": "TERMINATED"}

    def gone(self, noun: str, existing: Container[str]) -> list[Shown]:
        """Return the terminated resources whose OCIDs have `noun` as their second part, except resources in `existing`."""
        with self._lock:
            return [one for ocid, one in self._gone.items() if ocid.split(".")[1] == noun and ocid not in existing]

    def ended(self, ocid: str) -> Shown | None:
        """Return a terminated resource, or None."""
        with self._lock:
            return self._gone.get(ocid)

    def used(self, token: str) -> bool:
        """Return whether a request with this retry token has created something."""
        with self._lock:
            return token in self._tokens

    def use(self, token: str) -> None:
        """Record that a request with a retry token has created something."""
        with self._lock:
            self._tokens.add(token)
