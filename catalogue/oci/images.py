"""How OCI's operating-system images differ where first boot and the build touch them, one row for each family.

Sources: seed tutorials (oracle-japan/ocitutorials, intermediates/spinup-gpu-cluster) and oci-hpc 3.1.0 roles
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
        key: what a stack file calls it.
        operating_system: the vendor's name for it, as its API returns it.
        version_prefix: the vendor's version begins with this.
        login: the user that first boot prepares for SSH.
        rdma: what names and addresses the rails: `ifcfg` (first boot writes 16 interface files) or `agent` (the vendor's
            cloud agent does, and files would conflict with it).
        front_nic: name of the interface in the subnet.
        firewall: `firewalld` or `iptables`.
        packages: the package manager, `yum`, `dnf` or `apt`.
        lustre: whether a Lustre client can be built for it (oci-hpc: roles/lustre_client knows Oracle Linux 8, 9 and Ubuntu).
        grow_root: command that grows the root file system to the boot volume, empty if the image does it itself.
        mpi_home: glob of Open MPI's folder; the newest match is used.
        cuda_home: glob of CUDA's folder.
        nccl_home: folder with include/nccl.h and lib64/libnccl.so.
        nccl_packages: packages that first boot must install because the image lacks NCCL.
        nccl_repository: base URL of the package repository that has them.
        nccl_repository_key: URL of the key that signs it.
        slurm: packages of Slurm; None if its repositories have none of 22.05 or later.
        compiler: its own C++ compiler where that is too old for C++14; empty if it is not.
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
        """Return where the software is on it."""
        return Homes((self.mpi_home, *_MPI_ELSEWHERE), (self.cuda_home,), (self.nccl_home,))


#: Where later images of the vendor's have Open MPI (oci-hpc 3.1.0: samples/gpu/nccl_run_allreduce.sbatch, lines 46-50; its
#: images build 5.0.8 there, and bring HPC-X).
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
