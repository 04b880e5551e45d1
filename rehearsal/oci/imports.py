"""Images that are imported from Object Storage, and the shapes that are added to these images.

Sources: terraform-provider-oci: core_image_resource.go, core_shape_management_resource.go. The rehearsed Object Storage has
the image files that documentation/Prerequisites.md of oci-hpc b5285a68 names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from rehearsal.oci.errors import Problem, not_found
from rehearsal.oci.images import IMAGES, Image
from rehearsal.oci.kinds import Asked, Kind
from rehearsal.oci.shapes import SHAPES, Shape
from rehearsal.plugin.store import Database, Record

IMAGE = "oci:Core/image:Image"
ADDED = "oci:Core/shapeManagement:ShapeManagement"

#: URLs of the vendor's x86 images with NVIDIA's driver; the groups `ol` and `ubuntu` match the operating system's version.
_OBJECT = re.compile(
    r"https://objectstorage\.ca-montreal-1\.oraclecloud\.com/p/[A-Za-z0-9_-]{64}/n/idxzjcdglx2s/b/images/o/"
    r"(?P<name>(?:Oracle-Linux-(?P<ol>8\.10|9\.7)-2026\.02\.28-0-RHCK"
    r"|Canonical-Ubuntu-(?P<ubuntu>22\.04-2026\.02\.28-0|24\.04-2026\.02\.28-0-6\.8))"
    r"-DOCA-OFED-3\.2\.1-GPU-(?:580-OPEN-CUDA-13\.0|590-OPEN-CUDA-13\.1)-2026\.03\.13-0)"
)
_SIZE_GIB = 50


@dataclass(frozen=True)
class Imported(Image):
    """A custom image in a compartment; the image supports x86 VM shapes, and all shapes that were added to the image."""

    ocid: str = ""
    added: frozenset[str] = frozenset()

    @property
    @override
    def id(self) -> str:
        return self.ocid

    @override
    def fits(self, shape: Shape) -> bool:
        return shape.name in self.added or (not shape.bare_metal and shape.architecture == "x86_64")


def image_of(database: Database, ocid: object) -> Image | None:
    """Return the platform image or imported image with this OCID, or None."""
    record = database.find(ocid, IMAGE)
    if record is None:
        return IMAGES.get(str(ocid))
    source = record.inputs["imageSourceDetails"]
    return Imported(
        name=f"{_family(source['sourceUri'])}-gpu",
        operating_system=source.get("operatingSystem") or "",
        version=source.get("operatingSystemVersion") or "",
        display_name=str(record.outputs()["displayName"]),
        size_gib=_SIZE_GIB,
        gpu=True,
        ocid=record.id,
        added=frozenset(str(one.inputs["shapeName"]) for one in database.of(ADDED, imageId=record.id)),
    )


def _family(url: str) -> str:
    found = _OBJECT.fullmatch(url)
    if found is None:
        return ""
    return f"ol{found['ol'].partition('.')[0]}" if found["ol"] else f"ubuntu{found['ubuntu'][:5].replace('.', '')}"


class ImageKind(Kind):
    """A custom image."""

    token, noun, service = IMAGE, "image", "Core Image"
    create, update, delete = "CreateImage", "UpdateImage", "DeleteImage"

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        source = asked.inputs.get("imageSourceDetails")
        if source is None:
            yield Problem("imageSourceDetails", "The rehearsal supports only imported images.", 501, "NotRehearsed")
        kind, url = asked.known("imageSourceDetails.sourceType"), asked.known("imageSourceDetails.sourceUri")
        if kind is not None and kind != "objectStorageUri":
            yield Problem("imageSourceDetails.sourceType", "The rehearsal imports images only by URL.", 501, "NotRehearsed")
        if kind == "objectStorageUri" and isinstance(source, Mapping) and source.get("sourceUri") is None:
            yield Problem("imageSourceDetails.sourceUri", "sourceUri is missing.", 400, "MissingParameter")
        if url is not None and not _family(str(url)):
            yield not_found("imageSourceDetails.sourceUri", str(url))

    @override
    def on_create(self, database: Database, record: Record) -> None:
        super().on_create(database, record)
        source = record.inputs["imageSourceDetails"]
        record.computed.update(
            operatingSystem=source.get("operatingSystem") or "",
            operatingSystemVersion=source.get("operatingSystemVersion") or "",
            sizeInMbs=str(_SIZE_GIB * 1024),
            billableSizeInGbs=str(_SIZE_GIB),
            launchMode="NATIVE",
            listingType="",
            createImageAllowed=True,
            baseImageId="",
        )


class AddedShape(Kind):
    """An entry that adds a shape to an image."""

    token, noun, service = ADDED, "shapemanagement", "Core Shape Management"
    create, delete = "AddImageShapeCompatibilityEntry", "RemoveImageShapeCompatibilityEntry"
    named = False
    references: ClassVar[Mapping[str, str]] = {"imageId": IMAGE}

    @override
    def problems(self, asked: Asked) -> Iterator[Problem]:
        yield from super().problems(asked)
        shape = asked.known("shapeName")
        if shape is not None and shape not in SHAPES:
            yield Problem("shapeName", f"Shape {shape} does not exist.")

    @override
    def on_create(self, database: Database, record: Record) -> None:
        """Do nothing: the entry has no computed fields."""
