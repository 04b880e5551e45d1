"""Merges an instance's own properties and its launch template's properties into one description of the launch."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rehearsal.aws.images import IMAGES, Image
from rehearsal.aws.kinds import SUBNET, TEMPLATE
from rehearsal.aws.templates import version
from rehearsal.aws.types import TYPES, Type
from rehearsal.plugin.store import Database, Record
from rehearsal.plugin.wire import Unknown, known, known_at

PLAIN, BOTH, EFA_ONLY = "interface", "efa", "efa-only"
_TARGET = "capacityReservationSpecification.capacityReservationTarget"
_TEMPLATE_NAMES = {"imageId": "ami"}


@dataclass(frozen=True)
class Nic:
    """One network interface of a launch.

    Attributes:
        card: index of the network card.
        device: device index of the interface on the network card.
        kind: interface type: `interface`, `efa` or `efa-only`.
        public: whether the interface gets a public address; None means the subnet's default.
        path: path of the property that describes the interface.
    """

    card: int
    device: int
    kind: str
    subnet: str | None
    groups: tuple[str, ...] | None
    public: bool | None
    path: str
    address: str | None = None

    @property
    def efa(self) -> bool:
        """Whether the interface carries EFA traffic."""
        return self.kind in {BOTH, EFA_ONLY}


@dataclass(frozen=True)
class Launch:
    """One launch; a value is None if the value is missing or not known yet.

    Attributes:
        inputs: properties under their names in the Instance resource, even if the properties come from a template.
        nics: network interfaces in the order of the request; the default interface if the request lists no interfaces.
        own_nics: whether the request lists interfaces.
    """

    inputs: Mapping[str, Any]
    nics: tuple[Nic, ...]
    own_nics: bool
    user_data: bytes | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def known(self, path: str) -> Any:
        """Return the value at a dotted path."""
        return known_at(self.inputs, path)

    @property
    def type(self) -> Type | None:
        """The instance type, if it is known and exists."""
        return TYPES.get(str(self.known("instanceType")))

    @property
    def image(self) -> Image | None:
        """The image, if it is known and exists."""
        return IMAGES.get(str(self.known("ami")))

    @property
    def market(self) -> str:
        """The purchase option: `on-demand`, `spot` or `capacity-block`."""
        return str(self.known("instanceMarketOptions.marketType") or "on-demand")

    @property
    def placement_group(self) -> str | None:
        """Name of the placement group."""
        return _text(self.known("placement.groupName") or self.known("placementGroup"))

    @property
    def reservation(self) -> str | None:
        """Id of the reservation to launch into."""
        return _text(self.known(f"{_TARGET}.capacityReservationId"))

    @property
    def reservation_group(self) -> str | None:
        """ARN of the group of reservations to launch into."""
        return _text(self.known(f"{_TARGET}.capacityReservationResourceGroupArn"))

    @property
    def profile(self) -> str | None:
        """Name or ARN of the instance profile."""
        given = known(self.inputs.get("iamInstanceProfile"))
        return _text((known_at(given, "name") or known_at(given, "arn")) if isinstance(given, Mapping) else given)

    @property
    def root(self) -> Mapping[str, Any]:
        """The properties that the request sets for the root volume."""
        own = known(self.inputs.get("rootBlockDevice"))
        if isinstance(own, Mapping):
            return own
        image = self.image
        for one in known(self.inputs.get("blockDeviceMappings")) or []:
            if image and isinstance(one, Mapping) and one.get("deviceName") == image.root_device:
                ebs = known(one.get("ebs"))
                return ebs if isinstance(ebs, Mapping) else {}
        return {}

    def subnet(self, database: Database) -> Record | None:
        """Return the subnet of the first interface, if the subnet is known and exists."""
        return database.find(self.nics[0].subnet, SUBNET)


def of_instance(inputs: Mapping[str, Any], database: Database) -> Launch | None:
    """Return the launch that an instance's properties describe; None if the template is not known yet or does not exist."""
    template = inputs.get("launchTemplate")
    if template is None:
        return _launch(dict(inputs), {}, "")
    if isinstance(template, Unknown):
        return None
    record = database.find(known(template.get("id")), TEMPLATE) or _by_name(database, known(template.get("name")))
    data = version(record, str(known(template.get("version")) or "$Default")) if record else None
    if data is None:
        return None
    own = {key: value for key, value in inputs.items() if key not in {"launchTemplate", "tags", "region"}}
    return _launch({**_as_instance(data), **own}, data, "launchTemplate.")


def of_template(data: Mapping[str, Any]) -> Launch:
    """Return the launch that a template's version describes."""
    return _launch(_as_instance(data), data, "")


def _by_name(database: Database, name: object) -> Record | None:
    return next((one for one in database.of(TEMPLATE) if name and one.computed["name"] == name), None)


def _as_instance(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template's properties under their names in the Instance resource."""
    own = {"name", "namePrefix", "description", "tags", "tagSpecifications", "updateDefaultVersion", "defaultVersion"}
    found = {_TEMPLATE_NAMES.get(key, key): value for key, value in data.items() if key not in own}
    text = found.pop("userData", None)
    return found | ({"userDataBase64": text} if text is not None else {})


def _launch(inputs: dict[str, Any], data: Mapping[str, Any], prefix: str) -> Launch:
    given = known(inputs.get("networkInterfaces"))
    nics = tuple(
        _nic(one, f"{prefix}networkInterfaces[{at}]") for at, one in enumerate(given or []) if isinstance(one, Mapping)
    )
    tags = {str(one.get("resourceType")): dict(one.get("tags") or {}) for one in known(data.get("tagSpecifications")) or []}
    # If the request lists no interfaces, the instance's security groups apply to its only interface.
    groups = known(inputs.get("vpcSecurityGroupIds"))
    single = Nic(
        0, 0, PLAIN, known(inputs.get("subnetId")), _strings(groups), known(inputs.get("associatePublicIpAddress")), "subnetId",
        known(inputs.get("privateIp")),
    )  # fmt: skip
    return Launch(inputs, nics or (single,), bool(nics), _user_data(inputs), tags.get("instance", {}))


def _nic(one: Mapping[str, Any], path: str) -> Nic:
    public = known(one.get("associatePublicIpAddress"))
    return Nic(
        card=int(known(one.get("networkCardIndex")) or 0),
        device=int(known(one.get("deviceIndex")) or 0),
        kind=str(known(one.get("interfaceType")) or PLAIN),
        subnet=known(one.get("subnetId")),
        groups=_strings(known(one.get("securityGroups"))),
        public=None if public is None else str(public).lower() == "true",
        path=path,
        address=known(one.get("privateIpAddress")),
    )


def _text(value: Any) -> str | None:
    return str(value) if value else None


def _strings(values: Any) -> tuple[str, ...] | None:
    if not isinstance(values, list) or any(isinstance(one, Unknown) for one in values):
        return None
    return tuple(str(one) for one in values)


def _user_data(inputs: Mapping[str, Any]) -> bytes | None:
    plain, encoded = known(inputs.get("userData")), known(inputs.get("userDataBase64"))
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded)
        except ValueError:
            return None
    return plain.encode() if isinstance(plain, str) else None
