"""One row for each of OCI's RDMA shapes: what is in the machine and how its rails are named.

Sources are files of oracle-quickstart/oci-hpc 3.1.0 unless the row names another source.
"""

from __future__ import annotations

from catalogue.shape import Rdma, Shape

_NHC = "oci-hpc:playbooks/roles/nhc/templates/oci.nhc.conf.j2"
_ALLREDUCE = "oci-hpc:samples/gpu/nccl_run_allreduce.sbatch"
_GB200 = "oci-hpc:samples/gpu/nccl_run_allreduce_GB200.sbatch"
_RCCL = "oci-hpc:samples/gpu/rccl_run_allreduce.sbatch"
_HPC = "oci-hpc:playbooks/roles/rdma-interface/vars/main.yml"
_SCHEMA = "oci-hpc:schema.yaml (RDMA shape list; no rail data published there)"


def _mlx5(*numbers: int) -> tuple[str, ...]:
    return tuple(f"mlx5_{number}" for number in numbers)


def _el7(*buses: int) -> tuple[str, ...]:
    return tuple(f"enp{bus}s0f{port}" for bus in buses for port in (0, 1))


# The interfaces are in the order of oci-hpc:samples/gpu/ifup.sh: bus by bus, which is also the order of the HCAs' numbers. The
# HCAs are in NCCL's order, which groups them by NUMA node. So the two lists differ in order, and this is intended.
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
    Shape("BM.GPU4.8", _A100_40, 8, 2048, 4, _GPU4, "oci-a100", _ALLREDUCE),
    Shape("BM.GPU.A100-v2.8", _A100_80, 8, 2048, 4, _A100_V2, "oci-a100", _ALLREDUCE),
    Shape("BM.GPU.B4.8", _A100_40, 8, 2048, 4, _A100_V2, "oci-a100", _ALLREDUCE),
    Shape("BM.GPU.H100.8", "NVIDIA H100 80GB HBM3", 8, 2048, 16, _H100, "oci-hopper", f"{_ALLREDUCE}; {_NHC}"),
    Shape("BM.GPU.H200.8", "NVIDIA H200", 8, 3072, 8, _H200, "oci-hopper", _NHC),
    Shape("BM.GPU.B200.8", "NVIDIA B200", 8, 4096, 8, _H200, "oci-hopper", _NHC),
    Shape("BM.GPU.B300.8", "NVIDIA B300", 8, 4096, 8, _B300, "oci-hopper", _NHC),
    Shape("BM.GPU.GB200.4", "NVIDIA GB200", 4, 960, 4, _GB200_V1, "oci-gb200", _GB200),
    Shape("BM.GPU.GB200-v2.4", "NVIDIA GB200", 4, 960, 4, _GB200_V1, "oci-gb200", _GB200),
    Shape("BM.GPU.GB200-v3.4", "NVIDIA GB200", 4, 960, 4, _GB_WIDE, "oci-gb300", _GB200),
    Shape("BM.GPU.GB300.4", "NVIDIA GB300", 4, 960, 4, _GB_WIDE, "oci-gb300", f"{_GB200}; {_NHC}"),
    Shape("BM.GPU.MI300X.8", "AMD Instinct MI300X", 8, 2048, 8, _MI300X, "oci-mi300x", _RCCL),
    Shape("BM.GPU.MI355X.8", "AMD Instinct MI355X", 8, 3072, 8, _MI355X, "oci-mi355x", _RCCL),
    Shape("BM.GPU.MI355X-v1.8", "AMD Instinct MI355X", 8, 3072, 8, _MI355X_V1, "oci-mi355x", _RCCL),
    Shape("BM.GPU.L40S.4", "NVIDIA L40S", 4, 1024, 2, None, None, _SCHEMA),
    Shape("BM.HPC2.36", "", 0, 384, 1, Rdma(1, 100, _mlx5(0), "mlx5_0:1"), "oci-hpc", _HPC),
    Shape("BM.Optimized3.36", "", 0, 512, 1, Rdma(1, 100, _mlx5(2), "mlx5_2:1"), "oci-hpc", _HPC),
    Shape("BM.HPC.E5.144", "", 0, 768, 1, None, None, _SCHEMA),
)

#: Every RDMA shape by the vendor's name.
SHAPES: dict[str, Shape] = {row.name: row for row in _ROWS}
