"""Systems Manager parameters that a program declares as resources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rehearsal.aws import parameters
from rehearsal.aws.errors import Problem, invalid, refused
from rehearsal.aws.kinds import Asked, Kind, shown
from rehearsal.plugin.errors import ServiceError
from rehearsal.plugin.resource_cloud import ResourceCloud
from rehearsal.plugin.store import Database, Record

PARAMETER = "aws:ssm/parameter:Parameter"
_VALUES = ("value", "insecureValue", "valueWo")
_STANDARD_BYTES = 4096  # Systems Manager user guide, "Parameter tiers"
_DEEPEST = 15


class Parameter(Kind):
    """A parameter. Its value is in a file in the world's folder, because not only programs but also hosts write parameters."""

    space = "parameter"
    token, noun, service, arn, arn_service = PARAMETER, "parameter", "SSM", "parameter{id}", "ssm"
    create, update, delete = "PutParameter", "PutParameter", "DeleteParameter"
    unplayed: ClassVar[Mapping[str, str]] = {"valueWo": "the rehearsal supports only values that are kept in the state."}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        name, kind = asked.known("name"), asked.known("type")
        given = [one for one in _VALUES if asked.inputs.get(one) is not None]
        if len(given) != 1:
            yield refused("value", "ValidationException", f"exactly one of {', '.join(_VALUES)} is needed, got {len(given)}.")
        if given == ["insecureValue"] and kind == "SecureString":
            yield refused("insecureValue", "ValidationException", "insecureValue cannot be set for a SecureString.")
        for one in given:
            text = asked.known(one)
            if isinstance(text, str) and len(text.encode()) > _STANDARD_BYTES and asked.known("tier") != "Advanced":
                yield refused(one, "ValidationException", f"Standard tier parameters support {_STANDARD_BYTES} bytes of value.")
        if name is not None:
            yield from _name(asked, str(name))

    @override
    def new_id(self, urn: str, inputs: Mapping[str, Any]) -> str:
        return self.key(str(inputs.get("name") or urn.rpartition("::")[2]))

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        record.computed.update(name=shown(record), dataType="text", tier="Standard", version=1, keyId="", description="")
        name = shown(record)
        record.computed["arn"] = self.arn_of(record.inputs, name if name.startswith("/") else f"/{name}")

    @override
    def effect(self, cloud: ResourceCloud, record: Record, old: Mapping[str, Any] | None) -> None:
        value = next(record.inputs[one] for one in _VALUES if record.inputs.get(one) is not None)
        before = next((old[one] for one in _VALUES if old.get(one) is not None), None) if old else None
        if old is not None and before == value:
            return
        try:
            made = parameters.put(
                cloud.world,
                shown(record),
                str(value),
                type=record.inputs["type"],
                overwrite=old is not None or bool(record.inputs.get("overwrite")),
            )
        except parameters.ExistsError as there:
            code = "ParameterAlreadyExists"
            words = "The parameter already exists. To overwrite this value, set the overwrite option in the request to true."
            raise ServiceError(refused("name", code, words), self.service, self.create) from there
        with cloud.store.change() as database:
            mine = database.records[record.id]
            mine.computed["version"] = made.version
            mine.private["written"] = True

    @override
    def gone(self, cloud: ResourceCloud, record: Record) -> None:
        # If the parameter already existed, creating this resource failed, and the parameter must not be deleted.
        if cloud.store.read().records[record.id].private.get("written"):
            parameters.delete(cloud.world, shown(record))

    @override
    def exists(self, cloud: ResourceCloud, record: Record) -> bool:
        return parameters.get(cloud.world, shown(record)) is not None


def _name(asked: Asked, name: str) -> Iterator[Problem]:
    first = name.strip("/").partition("/")[0].lower()
    if first.startswith(("aws", "ssm")):
        yield refused("name", "ValidationException", f'Parameter name: can\'t be prefixed with "aws" or "ssm": {name}.')
    if name.count("/") > _DEEPEST:
        yield refused("name", "HierarchyLevelLimitExceededException", f"{name} has more than {_DEEPEST} levels.")
    if "/" in name and not name.startswith("/"):
        yield invalid("name", f"Parameter name must be a fully qualified name: {name} has levels and must begin with /.")
    if asked.neighbours(PARAMETER, name=name):
        yield refused("name", "ParameterAlreadyExists", f"The parameter {name} already exists.")
