"""Images, their operating systems, and the compatible shapes of each image."""

from __future__ import annotations

from dataclasses import dataclass

from rehearsal.oci.shapes import SHAPES, Shape


@dataclass(frozen=True)
class Image:
    """One image of the vendor's list.

    Attributes:
        name: the host builder's name for the image (`ol7-gpu`).
        family: the operating system's family (`ol7`), which decides device names.
        size_gib: size of the image's root file system; a boot volume must be at least as large.
        listing: OCID of the image's Marketplace listing, whose version is `display_name`; empty if no subscription is needed.
        gpu: whether the image has the NVIDIA driver and, except for `ol9-driver`, CUDA, OFED and the RDMA tools.
    """

    name: str
    operating_system: str
    version: str
    display_name: str
    size_gib: int
    gpu: bool
    listing: str = ""

    @property
    def id(self) -> str:
        """The image's OCID."""
        if self.listing:
            return f"ocid1.image.oc1..marketplace-{self.name}-{len(self.display_name)}"
        return f"ocid1.image.oc1..rehearsed-{self.name}"

    @property
    def family(self) -> str:
        """The operating system's family: `ol7`, `ol8`, `ol9`, `ubuntu2204` or `ubuntu2404`."""
        return self.name.partition("-")[0]

    def fits(self, shape: Shape) -> bool:
        """Return whether the vendor lists the shape as compatible with the image."""
        if shape.architecture != "x86_64":
            return False
        if not shape.bare_metal:
            return True
        if not self.gpu or "AMD" in shape.gpu:
            return False
        # Oracle Linux 7 images support only bare-metal shapes whose front-end device has a documented name on this system.
        return self.family != "ol7" or shape.front_ol7_name is not None


#: oci-hpc b5285a68: variables.tf, lines 304-324.
_GPU_LISTING = "ocid1.appcataloglisting.oc1..aaaaaaaab2hkpxsglxfbzitiiqv6djxzj5q5soxotwdem2dd2kbifgk4p55q"
_OL8 = "Oracle-Linux-8.10-2025.06.17-0-RHCK-OFED-24.10-1.1.4.0"
_VERSIONS = (f"{_OL8}-GPU-550-CUDA-12.4-2025.07.19-0", f"{_OL8}-GPU-570-OPEN-CUDA-12.8-2025.07.18-0")

_IMAGES = (
    *(Image("ol8-gpu", "Oracle Linux", "8.10", version, 50, gpu=True, listing=_GPU_LISTING) for version in _VERSIONS),
    Image("ol7-gpu", "Oracle Linux", "7.9", "Oracle-Linux-7.9-Gen2-GPU-2022.08.29-0", 50, gpu=True),
    Image("ol8-gpu", "Oracle Linux", "8.10", "Oracle-Linux-8.10-Gen2-GPU-2025.05.19-0", 50, gpu=True),
    Image("ol9-gpu", "Oracle Linux", "9.5", "Oracle-Linux-9.5-Gen2-GPU-2025.05.19-0", 50, gpu=True),
    # This image has the driver, but no CUDA, OFED or RDMA tools:
    # https://docs.oracle.com/en-us/iaas/images/oracle-linux-9x/oracle-linux-9-6-gen2-gpu-2025-10-23-0.htm
    Image("ol9-driver", "Oracle Linux", "9.6", "Oracle-Linux-9.6-Gen2-GPU-2025.10.23-0", 50, gpu=True),
    Image("ubuntu2204-gpu", "Canonical Ubuntu", "22.04", "Canonical-Ubuntu-22.04-GPU-2025.05.20-0", 50, gpu=True),
    Image("ol7", "Oracle Linux", "7.9", "Oracle-Linux-7.9-2024.05.31-0", 47, gpu=False),
    Image("ol8", "Oracle Linux", "8.10", "Oracle-Linux-8.10-2025.05.19-0", 47, gpu=False),
    Image("ol9", "Oracle Linux", "9.5", "Oracle-Linux-9.5-2025.05.19-0", 47, gpu=False),
)

IMAGES = {image.id: image for image in _IMAGES}


def compatible(image: Image) -> list[Shape]:
    """Return the compatible shapes of an image, in the order of SHAPES."""
    return [shape for shape in SHAPES.values() if image.fits(shape)]
