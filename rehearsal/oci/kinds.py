"""What every type of resource here has in common; the types themselves are in the rooms beside this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.places import COMPARTMENTS
from rehearsal.oci.store import Database, Record, now
from rehearsal.oci.wire import known_at

if TYPE_CHECKING:
    from rehearsal.oci.cloud import Cloud


@dataclass(frozen=True)
class Asked:
    """A request to judge: what is wanted, and the cloud as it is.

    Attributes:
        inputs: the properties; some may not be known yet.
        database: what exists.
        itself: the OCID of the resource, if it exists and is changed.
        urn: the resource's name in the engine. A preview leaves out what bears the same name when it looks for
            neighbours, as it may be about to go; a creation does not, as it is still there.
    """

    inputs: Mapping[str, Any]
    database: Database
    itself: str | None = None
    urn: str | None = None

    def known(self, path: str) -> Any:
        """What lies at a dotted path, or None when it is absent or not known yet."""
        return known_at(self.inputs, path)

    def neighbours(self, token: str, **inputs: object) -> list[Record]:
        """The live records of a type with these inputs, other than this one."""
        return [
            record
            for record in self.database.of(token, **inputs)
            if record.ocid != self.itself and not (self.urn and record.urn == self.urn)
        ]


class Kind:
    """One type of resource: what the service refuses, adds and does.

    The methods that change something run in this order: `born` inside the transaction that records the resource,
    `effect` after it, then the state becomes `ready`. Going, `gone` runs before the record does.
    """

    token = ""
    noun = ""
    service = ""
    ready = "AVAILABLE"
    create = ""
    update = ""
    delete = ""
    references: ClassVar[Mapping[str, str]] = {}
    """Path -> token of what must exist there."""
    named = True
    """Whether it has a display name, which the service makes up where none is given."""
    holds = True
    """Whether what its inputs name cannot be deleted while it exists."""

    def problems(self, asked: Asked) -> Iterator[Problem]:
        """Everything that the service would refuse, as far as it is known yet."""
        compartment = asked.known("compartmentId")
        if compartment is not None and compartment not in COMPARTMENTS:
            yield not_found("compartmentId", compartment)
        for path, token in self.references.items():
            ocid = asked.known(path)
            if ocid is not None and asked.database.find(ocid, token) is None:
                yield not_found(path, ocid)

    def born(self, database: Database, record: Record) -> None:  # noqa: ARG002  most types need no neighbours
        """Add what the service decides; the record is not in the database yet."""
        record.computed["timeCreated"] = now()
        if self.named and "displayName" not in record.inputs:
            record.computed["displayName"] = f"{self.noun}{record.computed['timeCreated'][:19].translate(_DIGITS)}"

    def effect(self, cloud: Cloud, record: Record, old: Mapping[str, Any] | None) -> None:
        """Make it so in the world; `old` are the inputs before an update, None at creation; idempotent."""

    def outputs(self, record: Record) -> dict[str, Any]:
        """What the engine gets to see of it."""
        return record.outputs()

    def gone(self, cloud: Cloud, record: Record) -> None:
        """Leave nothing of it in the world; idempotent."""

    def exists(self, cloud: Cloud, record: Record) -> bool:  # noqa: ARG002  most types live in the database alone
        """Whether what the record speaks of is still in the world."""
        return True


_DIGITS = str.maketrans("", "", "-: ")
