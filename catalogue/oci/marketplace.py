"""A table of images in OCI's Marketplace, by name; each image contains driver, CUDA, OFED, MPI and NCCL.

Source: oci-hpc b5285a68 (2026-05-19), variables.tf, lines 304-324. catalogue/oci/imports.py has more images with names. Stacks
name all other images by their OCID: the vendor's platform images, and images that a user has imported.
"""

from __future__ import annotations

from dataclasses import dataclass

_GPU = "ocid1.appcataloglisting.oc1..aaaaaaaab2hkpxsglxfbzitiiqv6djxzj5q5soxotwdem2dd2kbifgk4p55q"
_OL8 = "Oracle-Linux-8.10-2025.06.17-0-RHCK-OFED-24.10-1.1.4.0-GPU"


@dataclass(frozen=True)
class MarketplaceImage:
    """One version of one listing in the Marketplace.

    Attributes:
        key: name of the image in a stack file.
        family: the image's family, a key of `catalogue.IMAGES`.
        listing: OCID of the listing.
        version: the listing's version.
        driver: version of the GPU driver.
    """

    key: str
    family: str
    listing: str
    version: str
    driver: str


_ROWS = (
    MarketplaceImage("ol8-nv570", "ol8", _GPU, f"{_OL8}-570-OPEN-CUDA-12.8-2025.07.18-0", "570 (open modules), CUDA 12.8"),
    MarketplaceImage("ol8-nv550", "ol8", _GPU, f"{_OL8}-550-CUDA-12.4-2025.07.19-0", "550, CUDA 12.4"),
)

#: Every image, by its name in a stack file.
MARKETPLACE: dict[str, MarketplaceImage] = {row.key: row for row in _ROWS}
