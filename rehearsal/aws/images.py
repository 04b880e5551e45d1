"""Amazon machine images (AMIs): their ids and public parameters, and the host image that a rehearsal uses for each AMI."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Image:
    """One machine image. In the rehearsal, an image has the same id in every region.

    Attributes:
        id: `ami-...`.
        name: AWS's name for the image.
        host: name of the host image that the rehearsal boots in place of this machine image (see host_images.py).
        owner: account or alias that published the image.
        root_gib: size of the image's root snapshot.
        parameters: names of the public Systems Manager parameters that contain the image's id.
    """

    id: str
    name: str
    host: str
    owner: str
    root_gib: int
    root_device: str
    parameters: tuple[str, ...]
    architecture: str = "x86_64"
    description: str = ""


_DLAMI = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-"
_UBUNTU = "/aws/service/canonical/ubuntu/server/22.04/stable/current/{}/hvm/ebs-gp2/ami-id"
_AL2023 = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-{}-{}"

_ROWS = (
    Image(
        "ami-0123456789abcdef0", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20261016", "ubuntu2204-aws",
        "amazon", 75, "/dev/sda1", (f"{_DLAMI}ubuntu-22.04/latest/ami-id",),
        description="Supported EC2 instances: G4dn, G5, G6, Gr6, G6e, P4, P4de, P5, P5e, P5en, P6-B200, P6-B300",
    ),
    Image(
        "ami-0123456789abcdef6", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261006", "ubuntu2404-aws",
        "amazon", 75, "/dev/sda1", (f"{_DLAMI}ubuntu-24.04/latest/ami-id",),
        description="Supported EC2 instances: G4dn, G5, G6, Gr6, G6e, P4, P4de, P5, P5e, P5en, P6-B200, P6-B300",
    ),
    Image(
        "ami-0123456789abcdef7", "Deep Learning ARM64 Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20261006", "ubuntu2404-aws",
        "amazon", 75, "/dev/sda1", (f"{_DLAMI.replace('x86_64', 'arm64')}ubuntu-24.04/latest/ami-id",),
        "arm64", "Supported EC2 instances: G5g, P6e-GB200, P6e-GB300",
    ),
    Image(
        "ami-0123456789abcdef1", "Deep Learning Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023) 20261016", "al2023-aws",
        "amazon", 75, "/dev/xvda", (f"{_DLAMI}amazon-linux-2023/latest/ami-id",),
        description="Supported EC2 instances: G4dn, G5, G6, Gr6, G6e, P4, P4de, P5, P5e, P5en, P6-B200, P6-B300",
    ),
    Image(
        "ami-0123456789abcdef2", "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20261010", "ubuntu2204-aws",
        "099720109477", 8, "/dev/sda1", (_UBUNTU.format("amd64"),),
        description="Canonical, Ubuntu, 22.04 LTS, amd64 jammy image",
    ),
    Image(
        "ami-0123456789abcdef3", "al2023-ami-2023.9.20261012.0-kernel-6.1-x86_64", "al2023-aws", "amazon", 8, "/dev/xvda",
        (_AL2023.format("6.1", "x86_64"), _AL2023.format("default", "x86_64")),
        description="Amazon Linux 2023 AMI 2023.9 x86_64 HVM kernel-6.1",
    ),
    Image(
        "ami-0123456789abcdef4", "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) ARM64 20261016", "ubuntu2204-aws",
        "amazon", 75, "/dev/sda1", (f"{_DLAMI.replace('x86_64', 'arm64')}ubuntu-22.04/latest/ami-id",),
        "arm64", "Supported EC2 instances: G5g, P6e-GB200",
    ),
    Image(
        "ami-0123456789abcdef5", "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-arm64-server-20261010", "ubuntu2204-aws",
        "099720109477", 8, "/dev/sda1", (_UBUNTU.format("arm64"),), "arm64", "Canonical, Ubuntu, 22.04 LTS, arm64 jammy image",
    ),
)  # fmt: skip

IMAGES = {one.id: one for one in _ROWS}
#: Public parameter -> the image's id.
PARAMETERS = {name: one.id for one in _ROWS for name in one.parameters}
