"""The reasons for which the service refuses the launch details of an instance or of an instance configuration."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rehearsal.oci.core_subnet import SUBNET, private
from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.images import Image
from rehearsal.oci.imports import image_of
from rehearsal.oci.kinds import Asked
from rehearsal.oci.marketplace import subscribed
from rehearsal.oci.netplan import served, subnet_cidr, within
from rehearsal.oci.places import AVAILABILITY_DOMAINS, COMPARTMENTS
from rehearsal.oci.shapes import SHAPES, Shape, limit, quota_use
from rehearsal.plugin.store import Database
from rehearsal.plugin.wire import Unknown, known, known_at

INSTANCE = "oci:Core/instance:Instance"

# "The combined size of the metadata and extendedMetadata objects can be a maximum of 32,000 bytes":
# LaunchInstanceDetails.metadata.
_METADATA_BYTES = 32_000
_KEY_TYPES = (
    "ssh-rsa",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
)
_KEY_FIELDS = 2


@dataclass(frozen=True)
class Details:
    """The launch details of one instance or of an instance configuration.

    Attributes:
        asked: the request with these details.
        prefix: path of the details in the inputs, with a dot at the end; empty if the inputs themselves are the details.
        image_path: path of an image's OCID below `prefix`.
        subnet_path: path of the subnet's OCID below `prefix`.
        domain: the availability domain, if it is known.
    """

    asked: Asked
    prefix: str
    image_path: str
    subnet_path: str
    domain: str | None

    def at(self, path: str) -> Any:
        """Return the known value at a path below the prefix, or None."""
        return known_at(self.asked.inputs, f"{self.prefix}{path}")

    @property
    def shape(self) -> Shape | None:
        """The shape, if it is known and exists."""
        return SHAPES.get(str(self.at("shape")))

    @property
    def image(self) -> Image | None:
        """The image, if it is known and exists."""
        return image_of(self.asked.database, self.at(self.image_path))

    def refuse(self, path: str, message: str, status: int = 400, code: str = "InvalidParameter") -> Problem:
        """Return a problem at a path below the prefix."""
        return Problem(f"{self.prefix}{path}", message, status, code)


def problems(details: Details) -> Iterator[Problem]:
    """Yield every problem of launch details, as far as the inputs are known."""
    compartment = details.at("compartmentId")
    if compartment is not None and compartment not in COMPARTMENTS:
        yield not_found(f"{details.prefix}compartmentId", compartment)
    if details.domain is not None and details.domain not in AVAILABILITY_DOMAINS:
        yield not_found(f"{details.prefix}availabilityDomain", details.domain)
    yield from _shape(details)
    yield from _image(details)
    yield from _vnic(details)
    yield from _metadata(details)
    yield from _platform(details)


def _shape(details: Details) -> Iterator[Problem]:
    name, shape = details.at("shape"), details.shape
    if name is None:
        return
    if shape is None:
        yield details.refuse("shape", f"Shape {name} is not offered in this region.", 404, "NotAuthorizedOrNotFound")
        return
    if details.domain in AVAILABILITY_DOMAINS and details.domain not in shape.offered_in:
        offered = ", ".join(shape.offered_in)
        yield details.refuse("shape", f"Shape {name} is not offered in {details.domain}, only in {offered}.")
    config = details.at("shapeConfig")
    ocpus, memory = details.at("shapeConfig.ocpus"), details.at("shapeConfig.memoryInGbs")
    if shape.flexible is None:
        if config is not None and (ocpus, memory) != (None, None):
            yield details.refuse("shapeConfig", f"shapeConfig is given, but {name} is not flexible: leave shapeConfig out.")
        return
    if config is None and not isinstance(details.asked.inputs.get("shapeConfig"), Unknown):
        yield details.refuse("shapeConfig", f"shapeConfig is missing, but the flexible shape {name} needs ocpus.")
        return
    low, high = shape.flexible.ocpus
    if ocpus is not None and not low <= ocpus <= high:
        yield details.refuse("shapeConfig.ocpus", f"shapeConfig.ocpus is {ocpus}, but {name} takes {low} to {high}.")
    elif ocpus is not None and memory is not None:
        least, most = shape.flexible.memory_gib_per_ocpu
        top = min(most * ocpus, shape.flexible.memory_gib_max)
        if not least * ocpus <= memory <= top:
            yield details.refuse(
                "shapeConfig.memoryInGbs",
                f"memoryInGbs is {memory}, but {name} with {ocpus} OCPUs takes {least * ocpus} to {top}.",
            )


def _image(details: Details) -> Iterator[Problem]:
    kind = details.at("sourceDetails.sourceType")
    if kind == "bootVolume":
        yield details.refuse("sourceDetails.sourceType", "The rehearsal boots instances only from images.", 501, "NotRehearsed")
    ocid, image, shape = details.at(details.image_path), details.image, details.shape
    if ocid is not None and image is None:
        yield not_found(f"{details.prefix}{details.image_path}", ocid)
    if image is None:
        return
    if image.listing and not subscribed(details.asked.database, details.at("compartmentId"), image.id):
        # oci-hpc, marketplace.tf: the compartment subscribes to the listing before the launch.
        yield not_found(f"{details.prefix}{details.image_path}", image.id)
    if shape is not None and not image.fits(shape):
        yield details.refuse("shape", f"Shape {shape.name} is not valid for image {image.id}.")
    size = details.at("sourceDetails.bootVolumeSizeInGbs")
    if size is not None and str(size).isdecimal() and int(size) < image.size_gib:
        yield details.refuse(
            "sourceDetails.bootVolumeSizeInGbs",
            f"bootVolumeSizeInGbs is {size}, but image {image.display_name} needs {image.size_gib}.",
        )


def _vnic(details: Details) -> Iterator[Problem]:
    ocid = details.at(details.subnet_path)
    subnet = details.asked.database.find(ocid, SUBNET)
    if ocid is not None and subnet is None:
        yield not_found(f"{details.prefix}{details.subnet_path}", ocid)
    if subnet is None:
        return
    # In the SDK, assignPublicIp is a string for an instance, but a boolean in an instance configuration.
    if str(details.at("createVnicDetails.assignPublicIp")).lower() == "true" and private(subnet.inputs):
        yield details.refuse(
            "createVnicDetails.assignPublicIp",
            f"assignPublicIp is true, but subnet {subnet.id} prohibits public IPs on VNICs.",
        )
    address = details.at("createVnicDetails.privateIp")
    if address is not None:
        if not within(address, subnet_cidr(subnet)):
            yield details.refuse(
                "createVnicDetails.privateIp", f"privateIp {address} is not a host's address in {subnet_cidr(subnet)}."
            )
        elif address in served(details.asked.database) or any(
            one.computed.get("privateIp") == address for one in details.asked.neighbours(INSTANCE)
        ):
            yield details.refuse("createVnicDetails.privateIp", f"privateIp {address} is taken.", 409, "Conflict")
    label = details.at("createVnicDetails.hostnameLabel")
    for one in details.asked.neighbours(INSTANCE):
        if label is not None and one.private["subnet"] == subnet.id and one.private["hostname"] == label.lower():
            yield details.refuse(
                "createVnicDetails.hostnameLabel",
                f"hostnameLabel {label!r} is taken in subnet {subnet.id}.",
                409,
                "Conflict",
            )


def _metadata(details: Details) -> Iterator[Problem]:
    metadata, extended = details.at("metadata"), details.at("extendedMetadata")
    given = [one for one in (metadata, extended) if isinstance(one, Mapping)]
    texts = [str(part) for one in given for pair in one.items() for part in pair if not isinstance(part, Unknown)]
    size = sum(len(text.encode()) for text in texts)
    if size > _METADATA_BYTES:
        yield details.refuse("metadata", f"metadata and extendedMetadata have {size} bytes; the maximum is {_METADATA_BYTES}.")
    if not isinstance(metadata, Mapping):
        return
    keys, user_data = known(metadata.get("ssh_authorized_keys")), known(metadata.get("user_data"))
    for line in (keys or "").splitlines():
        if line.strip() and not line.lstrip().startswith("#") and not _is_public_key(line):
            shown = line if "PRIVATE" in line else f"{line[:24]!r}..."
            shown = "a private key" if "PRIVATE" in line else shown
            yield details.refuse(
                "metadata.ssh_authorized_keys", f"ssh_authorized_keys contains {shown}, which is not a public SSH key."
            )
            break
    if user_data is not None:
        try:
            base64.b64decode("".join(user_data.split()), validate=True)
        except binascii.Error:
            yield details.refuse("metadata.user_data", "user_data is not base64, but the service accepts nothing else.")


def _is_public_key(line: str) -> bool:
    words = line.split()
    at = next((index for index, word in enumerate(words) if word in _KEY_TYPES), None)
    if at is None or len(words) < at + _KEY_FIELDS:
        return False
    try:
        blob = base64.b64decode(words[at + 1], validate=True)
        (length,) = struct.unpack_from(">I", blob)
    except (binascii.Error, struct.error):
        return False
    # The decoded data repeat the key type; the key itself follows.
    return blob[4 : 4 + length] == words[at].encode() and len(blob) > 4 + length


def _platform(details: Details) -> Iterator[Problem]:
    platform, shape = details.at("platformConfig.type"), details.shape
    if platform is not None and shape is not None and platform not in shape.platforms:
        yield details.refuse(
            "platformConfig.type",
            f"platformConfig.type is {platform}, but {shape.name} takes {' or '.join(shape.platforms)}.",
        )


def used(database: Database, quota: str, domain: str) -> float:
    """Return how much of a quota the instances of an availability domain use, in the quota's unit."""
    return sum(
        quota_use(SHAPES[one.private["shape"]], one.private["ocpus"])
        for one in database.of(INSTANCE)
        if SHAPES[one.private["shape"]].quota == quota and one.private["domain"] == domain
    )


def over_limit(database: Database, shape: Shape, domain: str, more: float) -> str | None:
    """Return the service's message if `more` units of a shape's quota would exceed the limit, or None."""
    have, most = used(database, shape.quota, domain), limit(shape.quota)
    if have + more <= most:
        return None
    return (
        f"The following service limits were exceeded: {shape.quota}. {more:g} more are asked for in {domain}, where "
        f"{have:g} of {most} are in use. Request a service limit increase from the service limits page in the console."
    )
