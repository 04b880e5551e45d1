"""Contents of AWS's Deep Learning AMIs: what each AMI puts on a host's root file system."""

from __future__ import annotations

from rehearsal.aws import efa_software
from rehearsal.host import etc_files
from rehearsal.host.images import DNF, EVERYWHERE, IMAGE_FOLDER, Image

_COMMANDS = {"aws": "aws", "nvidia-smi": "nvidia-smi"}
_CUDA, _DRIVER = "12.8", "570.133.20"

#: Image name -> distribution family, release, full name, login user, commands.
_ROWS: dict[str, tuple[etc_files.Family, str, str, str, dict[str, str]]] = {
    "ubuntu2204": ("ubuntu", "22.04", "Ubuntu 22.04.5 LTS", "ubuntu", {}),
    "ubuntu2404": ("ubuntu", "24.04", "Ubuntu 24.04.5 LTS", "ubuntu", {}),
    "al2023": ("amzn", "2023", "Amazon Linux 2023.7.20250512", "ec2-user", DNF),
}

#: Ubuntu release -> kernel of the AMI. Sources: AWS's release notes of "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu
#: 22.04)", and AWS's release notes of the AMI for Ubuntu 24.04, dated 2026-10-08. FSx's repository for Ubuntu 22.04 (jammy) has
#: no Lustre module for the kernel of the 22.04 AMI: in September 2026, the repository's newest module was for kernel
#: 6.8.0-1063.
_KERNELS = {"22.04": "6.8.0-1066-aws", "24.04": "7.0.0-1014-aws"}

NAMES = tuple(_ROWS)


def image(name: str) -> Image:
    """Return the image with this name: ubuntu2204-aws, ubuntu2404-aws or al2023-aws.

    Raises:
        ValueError: no image has this name.
    """
    base, _, kind = name.partition("-")
    if kind != "aws" or base not in _ROWS:
        raise ValueError(f"image {name!r} is not rehearsed; use one of {', '.join(f'{one}-aws' for one in _ROWS)}.")
    family, release, pretty, user, commands = _ROWS[base]
    cuda = f"usr/local/cuda-{_CUDA}"
    built = f"build/nccl-{efa_software.NCCL}"
    nccl = {f"{cuda}/lib/libnccl.so.2": f"{built}/libnccl.so.2", f"{cuda}/include/nccl.h": f"{built}/nccl.h"}
    macros = [f'-D{macro}="{value}"' for macro, value in efa_software.VERSIONS.items()]
    return Image(
        name=name,
        vendor="amazon",
        family=family,
        release=release,
        kernel=_KERNELS.get(release, ""),
        pretty=pretty,
        user=user,
        commands=EVERYWHERE | commands | _COMMANDS,
        cuda=_CUDA,
        driver=_DRIVER,
        mpi=efa_software.MPI,
        includes=True,
        nccl=efa_software.NCCL,
        own_texts=efa_software.texts(family),
        own_links={
            f"{cuda}/lib/libnccl.so": "libnccl.so.2",
            "usr/bin/nvidia-container-cli": "/usr/lib/rehearsal/nvidia-container-cli",
        },
        own_copies=efa_software.copies(family) | nccl,
        builds={"libnccl-net.so": ("-shared", "-fPIC", *macros, str(IMAGE_FOLDER / "system/ofi.c"))},
    )
