"""Base class of OCI's resource types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from typing_extensions import override

from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.ocids import new_ocid, now
from rehearsal.oci.places import COMPARTMENTS
from rehearsal.plugin import kinds
from rehearsal.plugin.kinds import Asked
from rehearsal.plugin.store import Database, Record, references

__all__ = ["Asked", "Kind"]


class Kind(kinds.Kind):
    """One of OCI's resource types."""

    #: Whether the service generates a display name for a resource of this type if the inputs have none.
    named = True

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        compartment = asked.known("compartmentId")
        if compartment is not None and compartment not in COMPARTMENTS:
            yield not_found("compartmentId", compartment)
        # The cast is right: the inherited method yields only what `missing` returns, and `missing` below returns OCI's Problem.
        yield from cast("Iterator[Problem]", super().problems(asked))

    @override
    def missing(self, path: str, named: str, token: str) -> Problem:
        return not_found(path, named)

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return new_ocid(self.noun)

    def on_create(self, database: Database, record: Record) -> None:  # noqa: ARG002  most types need no neighbours
        """Add the properties that the service decides; the record is not in the database yet."""
        record.computed["timeCreated"] = now()
        if self.named and "displayName" not in record.inputs:
            record.computed["displayName"] = f"{self.noun}{record.computed['timeCreated'][:19].translate(_DIGITS)}"

    @override
    def outputs(self, record: Record) -> dict[str, Any]:
        return {**super().outputs(record), "state": record.state}

    @override
    def needs(self, record: Record) -> Iterator[str]:
        return (one for one in references(record.inputs) if one.startswith("ocid1."))

    @override
    def in_use(self, record: Record, holder: Record, kind: kinds.Kind) -> Problem:
        # The service's own wording, from its message about a subnet and a VNIC: in this message, the resource that is in use
        # "references" the resource that uses it.
        return Problem(
            "",
            f"The {self.service.split()[-1]} {record.id} references the {kind.service.split()[-1]} {holder.id}. "
            "You must remove the reference to proceed with this operation.",
            status=409,
            code="Conflict",
        )


_DIGITS = str.maketrans("", "", "-: ")
