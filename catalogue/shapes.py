"""RDMA shapes of OCI: what is in the machine, and the names of its rails.

Sources are files of oracle-quickstart/oci-hpc 3.1.0 unless the row says otherwise.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from catalogue import gpus

_NHC = "oci-hpc:playbooks/roles/nhc/templates/oci.nhc.conf.j2"
_ALLREDUCE = "oci-hpc:samples/gpu/nccl_run_allreduce.sbatch"
_GB200 = "oci-hpc:samples/gpu/nccl_run_allreduce_GB200.sbatch"
_RCCL = "oci-hpc:samples/gpu/rccl_run_allreduce.sbatch"
_HPC = "oci-hpc:playbooks/roles/rdma-interface/vars/main.yml"
_SCHEMA = "oci-hpc:schema.yaml (RDMA shape list; no rail data published there)"


@dataclass(frozen=True)
class Rdma:
    """The rails of one machine.

    Attributes:
        ports: number of RDMA ports (rails).
        port_gbit_s: line rate of one port, Gb/s, one direction.
        hca: RDMA device of each rail, in NCCL's order; same length as `ports`.
        ucx_net_devices: what UCX may use for MPI's own traffic; empty if MPI does not use UCX.
        el7_netdevs: names of the rail interfaces on Oracle Linux 7 images, in rail order; empty if there is no such image.
    """

    ports: int
    port_gbit_s: int
    hca: tuple[str, ...]
    ucx_net_devices: str
    el7_netdevs: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a row that contradicts itself."""
        if len(self.hca) != self.ports or len(set(self.hca)) != self.ports:
            msg = f"{self.ports} ports need {self.ports} different HCAs, got {self.hca}"
            raise ValueError(msg)
        if self.el7_netdevs and len(self.el7_netdevs) != self.ports:
            msg = f"{self.ports} ports need {self.ports} interface names, got {self.el7_netdevs}"
            raise ValueError(msg)

    @property
    def nccl_ib_hca(self) -> str:
        """Value of NCCL_IB_HCA: `=` asks for exact names, without it mlx5_1 would also match mlx5_10 to mlx5_17."""
        return "=" + ",".join(self.hca)

    @property
    def node_gbytes_per_s(self) -> float:
        """Sum of the line rates of one machine, GB/s (decimal), one direction."""
        return self.ports * self.port_gbit_s / 8


@dataclass(frozen=True)
class Shape:
    """One kind of machine.

    Attributes:
        name: the vendor's name.
        gpu: GPU model; empty for CPU shapes.
        gpus: GPUs in one machine.
        memory_gib: main memory, 0 where it varies.
        nvme: local NVMe disks, 0 where they vary.
        rdma: its rails; None if no source states them, or there are none.
        environment: key of `catalogue.ENVIRONMENTS`; None if no source states one.
        source: where the row was read.
        front: interface of the front-end network, or several with commas; empty if the environment names
            it, or NCCL finds it.
        unnamed: number and line rate (Gbit/s) of rails that sources count but do not name. The names come from the machine; the
            rate does not, because older EFA drivers report 100 Gbit/s for every device.
    """

    name: str
    gpu: str
    gpus: int
    memory_gib: int
    nvme: int
    rdma: Rdma | None
    environment: str | None
    source: str
    front: str = ""
    unnamed: tuple[int, int] | None = None

    @property
    def nvlink_gbytes_per_s(self) -> float | None:
        """Return one GPU's NVLink rate, GB/s in one direction; None for PCIe GPUs, other makers' and unknown models."""
        return gpus.nvlink_gbytes_per_s(self.gpu)

    def __post_init__(self) -> None:
        """Refuse a row that contradicts itself."""
        if bool(self.gpu) != bool(self.gpus):
            msg = f"{self.name}: a GPU name and a GPU count come together"
            raise ValueError(msg)


def _mlx5(*numbers: int) -> tuple[str, ...]:
    return tuple(f"mlx5_{number}" for number in numbers)


def _el7(*buses: int) -> tuple[str, ...]:
    return tuple(f"enp{bus}s0f{port}" for bus in buses for port in (0, 1))


# oci-hpc:samples/gpu/ifup.sh names the interfaces bus by bus, and HCAs are numbered in that order; NCCL's list below groups
# them by NUMA node instead, so the two orders differ on purpose.
_GPU4 = Rdma(
    16,
    100,
    _mlx5(0, 2, 6, 8, 10, 12, 14, 16, 1, 3, 7, 9, 11, 13, 15, 17),
    "mlx5_4:1",
    _el7(12, 22, 72, 76, 138, 148, 195, 209),
)
_A100_V2 = Rdma(
    16,
    100,
    _mlx5(5, 6, 7, 8, 1, 2, 3, 4, 14, 15, 16, 17, 9, 10, 11, 12),
    "mlx5_0:1",
    _el7(12, 22, 71, 75, 137, 147, 195, 209),
)
_H100 = Rdma(16, 200, _mlx5(0, 1, *range(3, 11), *range(12, 18)), "eth0")
_H200 = Rdma(8, 400, _mlx5(0, 3, 4, 5, 6, 9, 10, 11), "eth0")
_B300 = Rdma(16, 400, _mlx5(0, 1, *range(7, 15), *range(16, 22)), "eth0")
_GB200_V1 = Rdma(4, 400, _mlx5(0, 1, 3, 4), "mlx5_0:1,mlx5_1:1,mlx5_3:1,mlx5_4:1")
_GB_WIDE = Rdma(8, 400, _mlx5(0, 1, 2, 3, 5, 6, 7, 8), "eth0")
_MI300X = Rdma(8, 400, _mlx5(0, 2, 3, 4, 5, 7, 8, 9), "mlx5_0:1")
_MI355X_V1 = Rdma(8, 400, _mlx5(*range(8)), "eth0")
# Pollara NICs: oci-hpc-oke:docs/recommended-nccl-rccl-parameters-by-shape.md
_MI355X = Rdma(8, 400, tuple(f"ionic_{n}" for n in (0, 2, 3, 4, 5, 7, 8, 9)), "eth0")

_A100_40 = "NVIDIA A100-SXM4-40GB"
_A100_80 = "NVIDIA A100-SXM4-80GB"

_ROWS = (
    Shape("BM.GPU4.8", _A100_40, 8, 2048, 4, _GPU4, "A", _ALLREDUCE),
    Shape("BM.GPU.A100-v2.8", _A100_80, 8, 2048, 4, _A100_V2, "A", _ALLREDUCE),
    Shape("BM.GPU.B4.8", _A100_40, 8, 2048, 4, _A100_V2, "A", _ALLREDUCE),
    Shape("BM.GPU.H100.8", "NVIDIA H100 80GB HBM3", 8, 2048, 16, _H100, "B", f"{_ALLREDUCE}; {_NHC}"),
    Shape("BM.GPU.H200.8", "NVIDIA H200", 8, 3072, 8, _H200, "B", _NHC),
    Shape("BM.GPU.B200.8", "NVIDIA B200", 8, 4096, 8, _H200, "B", _NHC),
    Shape("BM.GPU.B300.8", "NVIDIA B300", 8, 4096, 8, _B300, "B", _NHC),
    Shape("BM.GPU.GB200.4", "NVIDIA GB200", 4, 960, 4, _GB200_V1, "C", _GB200),
    Shape("BM.GPU.GB200-v2.4", "NVIDIA GB200", 4, 960, 4, _GB200_V1, "C", _GB200),
    Shape("BM.GPU.GB200-v3.4", "NVIDIA GB200", 4, 960, 4, _GB_WIDE, "D", _GB200),
    Shape("BM.GPU.GB300.4", "NVIDIA GB300", 4, 960, 4, _GB_WIDE, "D", f"{_GB200}; {_NHC}"),
    Shape("BM.GPU.MI300X.8", "AMD Instinct MI300X", 8, 2048, 8, _MI300X, "E", _RCCL),
    Shape("BM.GPU.MI355X.8", "AMD Instinct MI355X", 8, 3072, 8, _MI355X, "F", _RCCL),
    Shape("BM.GPU.MI355X-v1.8", "AMD Instinct MI355X", 8, 3072, 8, _MI355X_V1, "F", _RCCL),
    Shape("BM.GPU.L40S.4", "NVIDIA L40S", 4, 1024, 2, None, None, _SCHEMA),
    Shape("BM.HPC2.36", "", 0, 384, 1, Rdma(1, 100, _mlx5(0), "mlx5_0:1"), "G", _HPC),
    Shape("BM.Optimized3.36", "", 0, 512, 1, Rdma(1, 100, _mlx5(2), "mlx5_2:1"), "G", _HPC),
    Shape("BM.HPC.E5.144", "", 0, 768, 1, None, None, _SCHEMA),
)

#: Every RDMA shape by the vendor's name.
SHAPES: dict[str, Shape] = {row.name: row for row in _ROWS}


def nearest(name: str, *, count: int = 3, among: Iterable[str] = tuple(SHAPES)) -> tuple[str, ...]:
    """Return up to `count` of the known names that look most like `name`, best first."""
    by_folded = {known.lower(): known for known in among}
    close = difflib.get_close_matches(name.lower(), by_folded, n=count, cutoff=0.3)
    return tuple(by_folded[match] for match in close) or tuple(by_folded.values())[:count]
