"""Machine images of AWS: what first boot and the build need to know about each kind of image.

An image has a different id in each region, so ids come from the stack file or from AWS's public parameters. Sources: AWS Deep
Learning AMI release notes (base GPU images), EFA installer's list of operating systems, FSx for Lustre user guide "Installing
the Lustre client".
"""

from __future__ import annotations

from dataclasses import dataclass

from catalogue import slurm_packages
from catalogue.aws.instances import ARM, X86
from catalogue.homes import Homes
from catalogue.slurm_packages import SlurmPackages

#: Folders of the EFA installer's Open MPI, and of CUDA and NCCL in the Deep Learning images.
_HOMES = Homes(
    ("/opt/amazon/openmpi", "/opt/amazon/openmpi5"), ("/usr/local/cuda",), ("/usr/local/cuda", "/opt/nccl/build", "/usr")
)
_PLUGIN = (
    "/opt/amazon/ofi-nccl/lib",  # EFA installer 1.48 and later
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",  # EFA installer up to 1.47
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/amazon/ofi-nccl/lib/aarch64-linux-gnu",
    "/opt/amazon/efa/lib",
    "/opt/amazon/efa/lib64",
)


#: AWS's public parameters with the ids of the newest images (Deep Learning Base AMIs' release notes, "Query AMI-ID with SSM
#: parameter").
_NEWEST = "/aws/service/deeplearning/ami/{{}}/base-oss-nvidia-driver-gpu-{}/latest/ami-id"


@dataclass(frozen=True)
class MachineImage:
    """One kind of image.

    Attributes:
        key: name of this kind of image in a stack file.
        parameter: AWS's public parameter with the id of the newest image of this kind; {} is replaced by the architecture.
        words: words that must all be in the vendor's name of such an image.
        login: the user that first boot prepares for SSH.
        root_device: name of the root device.
        architectures: CPU architectures on which EFA's installer supports this kind of image; empty if there are none.
        packages: the package manager: `apt` or `dnf`.
        homes: folders of MPI, CUDA and NCCL.
        libraries: folders of the NCCL plugin and libfabric, from old and new installers.
        release: code name of the distribution, for the Lustre client's repository; empty if the distribution has the client.
        slurm: packages of Slurm; None if the distribution's repositories have no Slurm 22.05 or later.
        refuses_rsa: whether the image's sshd accepts no SHA-1 signatures, and so refuses RSA keys of clients that use SHA-1.
    """

    key: str
    parameter: str
    words: tuple[str, ...]
    login: str
    root_device: str
    architectures: tuple[str, ...]
    packages: str
    homes: Homes = _HOMES
    libraries: tuple[str, ...] = _PLUGIN
    release: str = ""
    slurm: SlurmPackages | None = None
    refuses_rsa: bool = False


_ROWS = (
    MachineImage(
        key="ubuntu2204",
        parameter=_NEWEST.format("ubuntu-22.04"),
        words=("Ubuntu", "22.04"),
        login="ubuntu",
        root_device="/dev/sda1",
        architectures=(X86, ARM),
        packages="apt",
        release="jammy",
        refuses_rsa=True,
    ),
    MachineImage(
        key="ubuntu2404",
        parameter=_NEWEST.format("ubuntu-24.04"),
        words=("Ubuntu", "24.04"),
        login="ubuntu",
        root_device="/dev/sda1",
        architectures=(X86, ARM),
        packages="apt",
        release="noble",
        slurm=slurm_packages.NOBLE,
        refuses_rsa=True,  # as on 22.04, sshd accepts no SHA-1 signatures (OpenSSH 9.6)
    ),
    MachineImage(
        key="al2023",
        parameter=_NEWEST.format("amazon-linux-2023"),
        words=("Amazon Linux 2023",),
        login="ec2-user",
        root_device="/dev/xvda",
        architectures=(X86, ARM),
        packages="dnf",
    ),
)

#: Every kind of image by its key.
MACHINE_IMAGES: dict[str, MachineImage] = {row.key: row for row in _ROWS}
