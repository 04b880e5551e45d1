"""Shapes: GPUs, rails with their names, disks, quotas, and the availability domains that offer each shape.

RDMA ports, rates, HCA numbers, memory and disk counts are from oracle-quickstart/oci-hpc 3.1.0
(playbooks/roles/nhc/templates/oci.nhc.conf.j2, samples/gpu/*.sbatch, roles/healthchecks); disk sizes, OCPUs, quota
names and flexible ranges are from the vendor's page "Compute Shapes"
(docs.oracle.com/iaas/Content/Compute/References/computeshapes.htm).
"""

from __future__ import annotations

from dataclasses import dataclass

from rehearsal.oci.places import AVAILABILITY_DOMAINS

GIGA = 10**9
#: PCI buses of eight GPUs, as on BM.GPU4.8 in a transcript of the tutorial oracle-japan/ocitutorials. All other shapes get the
#: same buses.
GPU_BUSES = ("0f", "15", "51", "54", "8d", "92", "d6", "da")
_TB = 10**12
_AD_1 = AVAILABILITY_DOMAINS[:1]


@dataclass(frozen=True)
class Flexible:
    """The OCPUs and memory that a user may choose for a flexible shape."""

    ocpus: tuple[int, int]
    memory_gib_per_ocpu: tuple[int, int]
    memory_gib_max: int


@dataclass(frozen=True)
class Port:
    """One RDMA port: its HCA, and its interface's name in Oracle Linux 7, which comes from the PCI slot (None: unknown)."""

    hca: str
    ol7_name: str | None = None


@dataclass(frozen=True)
class Shape:
    """One row of the vendor's list of shapes."""

    name: str
    ocpus: float
    memory_gib: float
    processor: str
    quota: str
    quota_per_host: int
    gpu: str = ""
    gpus: int = 0
    ports: tuple[Port, ...] = ()
    port_rate_bits_per_s: int = 0
    nvme_bytes: tuple[int, ...] = ()
    front_gbit_s: float = 0
    front_hca: str | None = None
    front_ol7_name: str | None = None
    platforms: tuple[str, ...] = ()
    architecture: str = "x86_64"
    flexible: Flexible | None = None
    offered_in: tuple[str, ...] = AVAILABILITY_DOMAINS

    @property
    def bare_metal(self) -> bool:
        """Whether an instance of the shape is a whole physical machine."""
        return self.name.startswith("BM.")

    @property
    def rdma(self) -> bool:
        """Whether a cluster network can consist of instances of the shape."""
        return bool(self.ports)


def _mlx(*numbers: int) -> tuple[Port, ...]:
    return tuple(Port(f"mlx5_{number}") for number in numbers)


def _pairs(hcas: tuple[int, ...], buses: tuple[int, ...]) -> tuple[Port, ...]:
    """Return the ports of dual-port adapters: two HCAs on each PCI bus, with systemd's predictable names."""
    names = [f"enp{bus}s0f{function}" for bus in buses for function in (0, 1)]
    return tuple(Port(f"mlx5_{hca}", name) for hca, name in zip(hcas, names, strict=True))


_EIGHT_OF_H200 = _mlx(0, 3, 4, 5, 6, 9, 10, 11)
_A100_V2_PORTS = _pairs((*range(1, 13), *range(14, 18)), (12, 22, 71, 75, 137, 147, 195, 209))
_GENERIC = ("GENERIC_BM",)

_SHAPES = (
    Shape(
        "BM.GPU4.8", 64, 2048, "2.9 GHz AMD EPYC 7542 (Rome)", "gpu4-count", 8,
        "NVIDIA A100-SXM4-40GB", 8, _pairs((0, 1, 2, 3, *range(6, 18)), (12, 22, 72, 76, 138, 148, 195, 209)),
        100 * GIGA, (68 * _TB // 10,) * 4, 50, "mlx5_4", "enp45s0f0", ("AMD_ROME_BM_GPU",), offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.A100-v2.8", 128, 2048, "2.55 GHz AMD EPYC 7J13 (Milan)", "gpu-a100-v2-count", 8,
        "NVIDIA A100-SXM4-80GB", 8, _A100_V2_PORTS, 100 * GIGA, (68 * _TB // 10,) * 4, 100, "mlx5_0",
        platforms=("AMD_MILAN_BM_GPU",), offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.B4.8", 128, 2048, "2.55 GHz AMD EPYC 7J13 (Milan)", "gpu-b4-count", 8,
        "NVIDIA A100-SXM4-40GB", 8, _A100_V2_PORTS, 100 * GIGA, (68 * _TB // 10,) * 4, 100, "mlx5_0",
        platforms=("AMD_MILAN_BM_GPU",), offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.H100.8", 112, 2048, "2.0 GHz Intel Xeon Platinum 8480+ (Sapphire Rapids)", "gpu-h100-count", 8,
        "NVIDIA H100 80GB HBM3", 8, _mlx(0, 1, *range(3, 11), *range(12, 18)), 200 * GIGA, (384 * _TB // 100,) * 16,
        100, platforms=_GENERIC, offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.H200.8", 112, 3072, "2.0 GHz Intel Xeon Platinum 8480+ (Sapphire Rapids)", "gpu-h200-count", 8,
        "NVIDIA H200", 8, _EIGHT_OF_H200, 400 * GIGA, (384 * _TB // 100,) * 8, 200, platforms=_GENERIC,
        offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.B200.8", 128, 4096, "Intel Xeon Platinum 8592+ (Emerald Rapids)", "gpu-b200-count", 8,
        "NVIDIA B200", 8, _EIGHT_OF_H200, 400 * GIGA, (384 * _TB // 100,) * 8, 200, platforms=_GENERIC,
        offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.B300.8", 128, 4096, "Intel Xeon 6 (Granite Rapids)", "gpu-b300-count", 8,
        "NVIDIA B300 SXM6 AC", 8, _mlx(0, 1, *range(7, 15), *range(16, 22)), 400 * GIGA, (384 * _TB // 100,) * 8, 200,
        platforms=_GENERIC, offered_in=_AD_1,
    ),
    *(
        Shape(
            name, 144, 960, "NVIDIA Grace (Neoverse V2)", quota, 4, gpu, 4, ports, 400 * GIGA,
            (384 * _TB // 100,) * 4, 200, platforms=_GENERIC, architecture="aarch64", offered_in=_AD_1,
        )
        for name, quota, gpu, ports in (
            ("BM.GPU.GB200.4", "gpu-gb200-count", "NVIDIA GB200", _mlx(0, 1, 3, 4)),
            ("BM.GPU.GB200-v2.4", "gpu-gb200-v2-count", "NVIDIA GB200", _mlx(0, 1, 3, 4)),
            ("BM.GPU.GB200-v3.4", "gpu-gb200-v3-count", "NVIDIA GB200", _mlx(0, 1, 2, 3, 5, 6, 7, 8)),
            ("BM.GPU.GB300.4", "gpu-gb300-count", "NVIDIA GB300", _mlx(0, 1, 2, 3, 5, 6, 7, 8)),
        )
    ),
    Shape(
        "BM.GPU.MI300X.8", 112, 2048, "2.0 GHz Intel Xeon Platinum 8480+ (Sapphire Rapids)", "gpu-mi300x-count", 8,
        "AMD Instinct MI300X", 8, _mlx(0, 2, 3, 4, 5, 7, 8, 9), 400 * GIGA, (384 * _TB // 100,) * 8, 100,
        platforms=_GENERIC, offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.MI355X-v1.8", 128, 3072, "AMD EPYC 9005 (Turin)", "gpu-mi355x-v1-count", 8,
        "AMD Instinct MI355X", 8, _mlx(*range(8)), 400 * GIGA, (384 * _TB // 100,) * 8, 200, "mlx5_8",
        platforms=_GENERIC, offered_in=_AD_1,
    ),
    Shape(
        "BM.GPU.A10.4", 64, 1024, "2.6 GHz Intel Xeon Platinum 8358 (Ice Lake)", "gpu-a10-count", 4,
        "NVIDIA A10", 4, nvme_bytes=(385 * _TB // 100,) * 2, front_gbit_s=100, platforms=_GENERIC, offered_in=_AD_1,
    ),
    Shape(
        "BM.HPC2.36", 36, 384, "3.0 GHz Intel Xeon Gold 6154 (Skylake)", "bm-hpc2-36-count", 1,
        ports=_mlx(0), port_rate_bits_per_s=100 * GIGA, nvme_bytes=(67 * _TB // 10,), front_gbit_s=25,
        platforms=("INTEL_SKYLAKE_BM",), offered_in=_AD_1,
    ),
    Shape(
        "BM.Optimized3.36", 36, 512, "3.0 GHz Intel Xeon Gold 6354 (Ice Lake)", "optimized3-core-count", 36,
        ports=_mlx(2), port_rate_bits_per_s=100 * GIGA, nvme_bytes=(384 * _TB // 100,), front_gbit_s=50,
        platforms=("INTEL_ICELAKE_BM", "GENERIC_BM"), offered_in=_AD_1,
    ),
    Shape(
        "VM.Optimized3.Flex", 1, 14, "3.0 GHz Intel Xeon Gold 6354 (Ice Lake)", "optimized3-core-count", 0,
        front_gbit_s=4, platforms=("INTEL_VM",), flexible=Flexible((1, 18), (1, 64), 256),
    ),
    Shape(
        "VM.Standard.E4.Flex", 1, 16, "2.55 GHz AMD EPYC 7J13 (Milan)", "standard-e4-core-count", 0,
        front_gbit_s=1, platforms=("AMD_VM",), flexible=Flexible((1, 114), (1, 64), 1760),
    ),
    Shape(
        "VM.Standard.E5.Flex", 1, 12, "2.4 GHz AMD EPYC 9J14 (Genoa)", "standard-e5-core-count", 0,
        front_gbit_s=1, platforms=("AMD_VM",), flexible=Flexible((1, 126), (1, 64), 1049),
    ),
)  # fmt: skip

SHAPES = {shape.name: shape for shape in _SHAPES}

#: Limit on hosts of one bare-metal shape in an availability domain of the tenancy.
HOSTS_LIMIT = 64
#: Limit on cores of one flexible family in an availability domain of the tenancy.
CORES_LIMIT = 500


def limit(quota: str) -> int:
    """Return the service limit of a quota name, in the quota's unit (GPUs, hosts or cores)."""
    units = [shape.quota_per_host for shape in _SHAPES if shape.quota == quota and shape.quota_per_host]
    return max((HOSTS_LIMIT * one for one in units), default=CORES_LIMIT)


def quota_use(shape: Shape, ocpus: float | None) -> float:
    """Return one instance's use of its shape's quota, in the quota's unit; `ocpus` is for flexible shapes."""
    return shape.quota_per_host or ocpus or shape.ocpus


def rail_names(shape: Shape, family: str) -> list[str]:
    """Return the rails' network devices, in rail order, as an operating system names them."""
    if family == "ol7":
        return [port.ol7_name or f"rdma{index}" for index, port in enumerate(shape.ports)]
    return [f"rdma{index}" for index in range(len(shape.ports))]


def front_name(shape: Shape, family: str) -> str:
    """Return the front end's network device, as an operating system names it."""
    if not shape.bare_metal:
        return "ens3"
    return shape.front_ol7_name or "eth0" if family == "ol7" else "eth0"
