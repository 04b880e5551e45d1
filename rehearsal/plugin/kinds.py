"""Base class of the resource types of both clouds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rehearsal.plugin.errors import Problem
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record, references
from rehearsal.plugin.wire import each, known_at


@dataclass(frozen=True)
class Asked:
    """A request to check: the inputs, and the cloud's current state.

    Attributes:
        inputs: the properties; some may not be known yet.
        database: all existing resources.
        itself: the id of the resource, if it exists and is to be changed.
        urn: the resource's URN in the engine; set only in a preview. `neighbours` leaves out resources with this URN, because
            the previewed update may delete and replace them.
    """

    inputs: Mapping[str, Any]
    database: Database
    itself: str | None = None
    urn: str | None = None

    def known(self, path: str) -> Any:
        """Return the value at a dotted path; None if it is absent or unknown."""
        return known_at(self.inputs, path)

    def neighbours(self, token: str, **inputs: object) -> list[Record]:
        """Return the live records of a type with these inputs; this resource's own record is left out."""
        return [
            record
            for record in self.database.of(token, **inputs)
            if record.id != self.itself and not (self.urn and record.urn == self.urn)
        ]


class Kind(ABC):
    """One resource type: the service's refusals, additions and effects.

    Methods that change something run in this order: `on_create` inside the transaction that records the resource, then
    `effect`, then the state becomes `ready`. At deletion, `gone` runs before the record is deleted.
    """

    token = ""
    noun = ""
    service = ""
    ready = "AVAILABLE"
    create = ""
    update = ""
    delete = ""
    #: Path of an input, such as `subnetIds[]` -> type token of the existing resource that the input must name.
    references: ClassVar[Mapping[str, str]] = {}
    #: Whether a resource of this type blocks the deletion of the resources that its inputs refer to.
    holds = True

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Yield the service's refusals, as far as the inputs are known."""
        for pattern, token in self.references.items():
            for path, named in each(asked.inputs, pattern):
                if self.referred(asked.database, token, named) is None:
                    yield self.missing(path, str(named), token)

    def referred(self, database: Database, token: str, named: object) -> Record | None:
        """Return the record that a reference names, or None."""
        return database.find(named, token)

    def stale(self, inputs: Mapping[str, Any]) -> Problem | None:  # noqa: ARG002
        """Return the service's error for a resource that the inputs name but the service does not know yet, or None."""
        return None

    def missing(self, path: str, named: str, token: str) -> Problem:  # noqa: ARG002
        """Return the refusal of a reference to a resource that does not exist."""
        return Problem(path, f"{path} names {named}, which does not exist.", status=404)

    @abstractmethod
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        """Return a new id in the vendor's format."""

    # The empty methods below are not abstract, because most types need none of them.

    def on_create(self, database: Database, record: Record) -> None:  # noqa: B027
        """Add the properties that the service decides; the record is not in the database yet."""

    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:  # noqa: B027
        """Apply a resource to the world; `old` is the inputs before an update, or None at creation; idempotent."""

    def outputs(self, record: Record) -> dict[str, Any]:
        """Return a resource's outputs."""
        return record.outputs()

    def gone(self, cloud: ResourceCloud, record: Record) -> None:  # noqa: B027
        """Remove a resource from the world; idempotent."""

    def exists(self, cloud: ResourceCloud, record: Record) -> bool:  # noqa: ARG002  most types are only in the database
        """Return whether a resource still exists in the world."""
        return True

    def shown(self, record: Record) -> str:
        """Return the id that a record has in the engine's state."""
        return record.id

    def key(self, shown: str) -> str:
        """Return the id of the record that has the id `shown` in the engine's state."""
        return shown

    def names(self, record: Record) -> frozenset[str]:
        """Return the names by which other resources may refer to a resource, as `needs` yields them."""
        return frozenset({record.id})

    def needs(self, record: Record) -> Iterator[str]:
        """Yield the names of the resources on which a resource depends; by default, all strings in the resource's inputs."""
        return references(record.inputs)

    def in_use(self, record: Record, holder: Record, kind: Kind) -> Problem:  # noqa: ARG002
        """Return the refusal to delete a resource on which a `holder` of type `kind` depends."""
        return Problem("", f"{record.id} is needed by {holder.id}.", status=409, code="Conflict")
