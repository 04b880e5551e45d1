"""Families of operating-system images on OCI: a row for each family, with what matters to first boot and to the build.

Sources: tutorials of oracle-japan/ocitutorials (intermediates/spinup-gpu-cluster), and the oci-hpc 3.1.0 roles
firewall, boot-volume, localdisk, mpivars, limits, oci-cloud-agent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from catalogue import slurm_packages
from catalogue.homes import Homes
from catalogue.slurm_packages import SlurmPackages


@dataclass(frozen=True)
class ImageFamily:
    """One family of images.

    Attributes:
        key: name of the family in a stack file.
        operating_system: the operating system, as OCI's API names it.
        version_prefix: beginning of the operating system's version in OCI's API.
        login: the image's login user, whom first boot prepares for SSH.
        rdma: what gives the rails their names and addresses: `ifcfg` (first boot writes one interface file for each rail) or
            `agent` (OCI's cloud agent, with which such files would conflict).
        front_nic: network interface in the VCN's subnet.
        firewall: `firewalld` or `iptables`.
        packages: the package manager: `yum`, `dnf` or `apt`.
        lustre: whether a Lustre client can be built on the image (oci-hpc, roles/lustre_client: Oracle Linux 8 and 9, Ubuntu).
        grow_root: command that grows the root file system to the size of the boot volume; empty if the image does this itself.
        mpi_home: glob of Open MPI's folder; the newest match is used.
        cuda_home: glob of CUDA's folder; the newest match is used.
        nccl_home: NCCL's folder, which contains include/nccl.h.
        nccl_packages: NCCL's packages, which first boot installs; empty if the image has NCCL.
        nccl_repository: base URL of the package repository that has these packages.
        nccl_repository_key: URL of the key that signs this repository.
        slurm: Slurm's packages; None if the image's repositories have no Slurm 22.05 or later.
        compiler: empty if the image's C++ compiler can build nccl-tests (C++14); otherwise the name of that compiler.
    """

    key: str
    operating_system: str
    version_prefix: str
    login: str
    rdma: str
    front_nic: str
    firewall: str
    packages: str
    lustre: bool
    grow_root: str
    mpi_home: str
    cuda_home: str
    nccl_home: str
    nccl_packages: tuple[str, ...] = ()
    nccl_repository: str = ""
    nccl_repository_key: str = ""
    slurm: SlurmPackages | None = None
    compiler: str = ""

    @property
    def homes(self) -> Homes:
        """Return where Open MPI, CUDA and NCCL are in these images."""
        return Homes((self.mpi_home, *_MPI_ELSEWHERE), (self.cuda_home,), (self.nccl_home,))


#: Where newer OCI images have Open MPI: 5.0.8 built from source, and HPC-X (oci-hpc 3.1.0:
#: samples/gpu/nccl_run_allreduce.sbatch, lines 46-50).
_MPI_ELSEWHERE = ("/opt/openmpi-*", "/opt/hpcx-*/ompi")

_GROWFS = "/usr/libexec/oci-growfs -y"
_CUDA_RHEL7 = "https://developer.download.nvidia.com/compute/cuda/repos/rhel7/x86_64"

_UBUNTU2204 = ImageFamily(
    key="ubuntu2204",
    operating_system="Canonical Ubuntu",
    version_prefix="22.04",
    login="ubuntu",
    rdma="agent",
    front_nic="eth0",
    firewall="iptables",
    packages="apt",
    lustre=True,
    grow_root="",
    mpi_home="/usr/mpi/gcc/openmpi-*",
    cuda_home="/usr/local/cuda*",
    nccl_home="/usr",
)

_ROWS = (
    ImageFamily(
        key="ol7",
        operating_system="Oracle Linux",
        version_prefix="7",
        login="opc",
        rdma="ifcfg",
        front_nic="enp45s0f0",
        firewall="firewalld",
        packages="yum",
        lustre=False,
        grow_root=_GROWFS,
        mpi_home="/usr/mpi/gcc/openmpi-*",
        cuda_home="/usr/local/cuda*",
        nccl_home="/usr",
        nccl_packages=("libnccl", "libnccl-devel", "libnccl-static"),
        nccl_repository=_CUDA_RHEL7,
        nccl_repository_key=f"{_CUDA_RHEL7}/D42D0685.pub",
        compiler="GCC 4.8",
    ),
    ImageFamily(
        key="ol8",
        operating_system="Oracle Linux",
        version_prefix="8",
        login="opc",
        rdma="agent",
        front_nic="eth0",
        firewall="firewalld",
        packages="dnf",
        lustre=True,
        grow_root=_GROWFS,
        mpi_home="/usr/mpi/gcc/openmpi-*",
        cuda_home="/usr/local/cuda*",
        nccl_home="/usr",
    ),
    ImageFamily(
        key="ol9",
        operating_system="Oracle Linux",
        version_prefix="9",
        login="opc",
        rdma="agent",
        front_nic="eth0",
        firewall="firewalld",
        packages="dnf",
        lustre=True,
        grow_root=_GROWFS,
        mpi_home="/usr/mpi/gcc/openmpi-*",
        cuda_home="/usr/local/cuda*",
        nccl_home="/usr",
        slurm=slurm_packages.EL9,
    ),
    _UBUNTU2204,
    replace(_UBUNTU2204, key="ubuntu2404", version_prefix="24.04", slurm=slurm_packages.NOBLE),
)

#: Every image family by its key.
IMAGES: dict[str, ImageFamily] = {row.key: row for row in _ROWS}
