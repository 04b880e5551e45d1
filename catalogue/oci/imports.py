"""Oracle's images for GPU nodes, with driver, CUDA and DOCA-OFED; a stack imports these images from Object Storage.

Source: oci-hpc b5285a68 (2026-05-19), documentation/Prerequisites.md, "Images", which describes the import: by URL,
as type OCI, with the operating system, under the name of the file. The vendor may withdraw these public URLs at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

_BUCKET = (
    "https://objectstorage.ca-montreal-1.oraclecloud.com/p/AIo4CP0P_DlUelDlsWgGPWmY6FcBQzJWmmFyGKdY0epkh87a9Q3ndvFYycjIxTQ9"
    "/n/idxzjcdglx2s/b/images/o/"
)
_580, _590 = "GPU-580-OPEN-CUDA-13.0-2026.03.13-0", "GPU-590-OPEN-CUDA-13.1-2026.03.13-0"


@dataclass(frozen=True)
class ImportedImage:
    """One image in Object Storage.

    Attributes:
        key: name of the image in a stack file.
        family: the image's family, a key of `catalogue.IMAGES`.
        name: name of the image's file, and of the imported image.
        driver: version of the GPU driver.
    """

    key: str
    family: str
    name: str
    driver: str

    @property
    def url(self) -> str:
        """URL of the image's file."""
        return _BUCKET + self.name


def _rows(noun: str, family: str, name: str) -> tuple[ImportedImage, ImportedImage]:
    return (
        ImportedImage(f"{noun}-nv580", family, f"{name}-DOCA-OFED-3.2.1-{_580}", "580 (open modules), CUDA 13.0"),
        ImportedImage(f"{noun}-nv590", family, f"{name}-DOCA-OFED-3.2.1-{_590}", "590 (open modules), CUDA 13.1"),
    )


_ROWS = (
    *_rows("ol8", "ol8", "Oracle-Linux-8.10-2026.02.28-0-RHCK"),
    *_rows("ol9", "ol9", "Oracle-Linux-9.7-2026.02.28-0-RHCK"),
    *_rows("ubuntu2204", "ubuntu2204", "Canonical-Ubuntu-22.04-2026.02.28-0"),
    *_rows("ubuntu2404", "ubuntu2404", "Canonical-Ubuntu-24.04-2026.02.28-0-6.8"),
)

#: Every image, by its name in a stack file.
IMPORTS: dict[str, ImportedImage] = {row.key: row for row in _ROWS}
