"""Instance types: GPUs, network cards, EFA devices, disks, purchase options and placement group strategies of each type.

Cards and interfaces: amazon-vpc-cni-k8s:pkg/vpc/vpc_ip_resource_limit.go. EFA devices, memory, disks and line rates:
karpenter-provider-aws's reference of instance types; B300: aws-parallelcluster PR 7210; GB200: EC2 user guide. Names of RDMA
devices are from published output (p4d: awsome-distributed-training's EFA cheat sheet; p5, p5en: logs of published runs); for
other types, the names are invented in the same form, by ascending PCI bus.
"""

from __future__ import annotations

from dataclasses import dataclass

GIGA = 10**9
#: PCI buses of the eight GPUs. AWS's documentation does not name the buses, so these are the buses of OCI's BM.GPU4.8.
GPU_BUSES = ("0f", "15", "51", "54", "8d", "92", "d6", "da")
#: Model name of the local disks (AWS, "SSD instance store volumes").
LOCAL_DISK = "Amazon EC2 NVMe Instance Storage"
_GB = 10**9
ON_DEMAND, SPOT, BLOCK = "on-demand", "spot", "capacity-block"
_BOUGHT = (ON_DEMAND, SPOT)
_RESERVED = (ON_DEMAND, SPOT, BLOCK)


@dataclass(frozen=True)
class Type:
    """One instance type.

    Attributes:
        cards: for each network card, the largest number of interfaces.
        efa: largest number of EFA interfaces; `efa_gbit_s` is the line rate of each EFA interface.
        hcas: names of the EFA devices in Linux.
        bystanders: RDMA devices that are not EFA devices: NVLink controllers, with driver mlx5 (aws/sagemaker-hyperpod-cli
            PR 282).
        front_gbit_s: line rate of IP traffic.
        nvme: size of each local disk, in bytes.
        usage: the type's purchase options.
        strategies: placement group strategies that accept the type.
        spread: number of a region's zones that offer the type, counted from the first zone; 0: all zones.
    """

    name: str
    vcpus: int
    memory_gib: int
    cards: tuple[int, ...] = (4,)
    gpu: str = ""
    gpus: int = 0
    efa: int = 0
    efa_gbit_s: int = 0
    hcas: tuple[str, ...] = ()
    bystanders: tuple[str, ...] = ()
    front_gbit_s: float = 10
    nvme: tuple[int, ...] = ()
    usage: tuple[str, ...] = _BOUGHT
    strategies: tuple[str, ...] = ("cluster", "partition", "spread")
    architecture: str = "x86_64"
    spread: int = 0
    gpu_gib: int = 0

    def offered(self, zones: tuple[str, ...]) -> tuple[str, ...]:
        """Return the zones of a region that offer the type."""
        return zones[: self.spread] if self.spread else zones


def _letters(name: str) -> str:
    return name[: next(at for at, letter in enumerate(name) if letter.isdigit())]


def _rdmap(slot: int, *buses: int) -> tuple[str, ...]:
    return tuple(f"rdmap{bus}s{slot}" for bus in buses)


def _made_up(count: int) -> tuple[str, ...]:
    return _rdmap(0, *(80 + 5 * at for at in range(count)))


_P5 = _rdmap(0, *(first + n for first in (79, 96, 113, 130, 147, 164, 181, 198) for n in range(4)))
_P5EN = _rdmap(0, *(first + n for first in (85, 110, 135, 160) for n in range(4)))
_P4 = _rdmap(27, 16, 32, 144, 160)
_H100, _H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
_RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
_8X3800 = (3_800 * _GB,) * 8
_HPC = (ON_DEMAND,)


def _gpu(  # noqa: PLR0913  a row of a table
    name: str, gpu: str, cards: tuple[int, ...], efa: int, gbit_s: int, *, memory: int = 2048, hcas: tuple[str, ...] = (),
    nvme: tuple[int, ...] = _8X3800, usage: tuple[str, ...] = _RESERVED, vcpus: int = 192, gib: int = 80,
) -> Type:  # fmt: skip
    return Type(
        name, vcpus, memory, cards, gpu, 8 if gpu else 0, efa, gbit_s, hcas or _made_up(efa), front_gbit_s=100, nvme=nvme,
        usage=usage, spread=2, gpu_gib=gib, bystanders=("ibp3s0", "ibp4s0") if name.startswith("p6-") else (),
    )  # fmt: skip


_ROWS = (
    _gpu("p3dn.24xlarge", "Tesla V100-SXM2-32GB", (15,), 1, 100, memory=768, vcpus=96, nvme=(900 * _GB,) * 2,
         usage=_BOUGHT, gib=32),
    _gpu("p4d.24xlarge", "NVIDIA A100-SXM4-40GB", (15,) * 4, 4, 100, memory=1152, vcpus=96, hcas=_P4,
         nvme=(1_000 * _GB,) * 8, gib=40),
    _gpu("p4de.24xlarge", "NVIDIA A100-SXM4-80GB", (15,) * 4, 4, 100, memory=1152, vcpus=96, hcas=_P4, nvme=(1_000 * _GB,) * 8),
    _gpu("p5.48xlarge", _H100, (2,) * 32, 32, 100, hcas=_P5),
    _gpu("p5e.48xlarge", _H200, (2,) * 32, 32, 100, hcas=_P5, gib=141),
    _gpu("p5en.48xlarge", _H200, (4,) * 16, 16, 200, hcas=_P5EN, gib=141),
    _gpu("p6-b200.48xlarge", "NVIDIA B200", (4,) * 8, 8, 400, gib=179),
    _gpu("p6-b300.48xlarge", "NVIDIA B300", (4,) * 17, 16, 400, memory=4096, gib=269),
    Type(
        "p6e-gb200.36xlarge", 144, 960, tuple(2 - at % 2 for at in range(17)), "NVIDIA GB200", 4, 16, 100, _made_up(16),
        front_gbit_s=100, nvme=(7_500 * _GB,) * 3, usage=(BLOCK,), strategies=(), architecture="arm64", spread=1, gpu_gib=185,
    ),
    _gpu("g5.48xlarge", "NVIDIA A10G", (7,), 1, 100, memory=768, nvme=(3_800 * _GB,) * 2, usage=_BOUGHT, gib=24),
    _gpu("g6.48xlarge", "NVIDIA L4", (15,), 1, 100, memory=768, nvme=(940 * _GB,) * 8, usage=_BOUGHT, gib=24),
    _gpu("g6e.48xlarge", "NVIDIA L40S", (10,) * 4, 4, 100, memory=1536, nvme=(1_900 * _GB,) * 4, usage=_BOUGHT, gib=48),
    _gpu("g7e.48xlarge", _RTX, (10,) * 4, 4, 400, nvme=(3_800 * _GB,) * 4, usage=_BOUGHT, gib=96),
    _gpu("trn1.32xlarge", "", (5,) * 8, 8, 100, memory=512, vcpus=128, nvme=(1_900 * _GB,) * 4),
    _gpu("trn1n.32xlarge", "", (5,) * 16, 16, 100, memory=512, vcpus=128, nvme=(1_900 * _GB,) * 4, usage=_BOUGHT),
    _gpu("trn2.48xlarge", "", (2,) * 16, 16, 200, nvme=(1_900 * _GB,) * 4),
    _gpu("hpc6id.32xlarge", "", (1,) * 2, 2, 100, memory=1024, vcpus=64, nvme=(3_800 * _GB,) * 4, usage=_HPC),
    _gpu("hpc7a.96xlarge", "", (2,) * 2, 2, 150, memory=768, nvme=(), usage=_HPC),
    Type("t3.micro", 2, 1, (2,), front_gbit_s=5, strategies=("partition", "spread")),
    Type("t3.medium", 2, 4, (3,), front_gbit_s=5, strategies=("partition", "spread")),
    Type("m5.large", 2, 8, (3,)),
    Type("m5.xlarge", 4, 16, (4,)),
    Type("m5.2xlarge", 8, 32, (4,)),
    Type("m5.8xlarge", 32, 128, (8,)),
    Type("m7g.2xlarge", 8, 32, (4,), architecture="arm64"),
    Type("c5.xlarge", 4, 8, (4,)),
)  # fmt: skip

#: Every instance type by its name.
TYPES = {one.name: one for one in _ROWS}

#: First letters of a type's name -> quota for on-demand instances: name, code (Service Quotas, "Amazon EC2"), rehearsed value
#: in vCPUs.
QUOTAS = {
    "p": ("Running On-Demand P instances", "L-417A185B", 3072.0),
    "g": ("Running On-Demand G and VT instances", "L-DB2E81BA", 768.0),
    "trn": ("Running On-Demand Trn instances", "L-2C3B7624", 1024.0),
    "hpc": ("Running On-Demand HPC instances", "L-F7808C92", 768.0),
    "m": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "L-1216C47A", 1152.0),
}

#: Name -> code and rehearsed value of the account's quota for spot requests, in vCPUs.
SPOT_QUOTAS = {
    "All P4, P3 and P2 Spot Instance Requests": ("L-7212CCBC", 768.0),
    "All P5 Spot Instance Requests": ("L-C4BD4855", 1536.0),
    "All G and VT Spot Instance Requests": ("L-3819A6DF", 768.0),
    "All Trn Spot Instance Requests": ("L-6B0D517C", 1024.0),
    "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests": ("L-34B43A08", 1152.0),
}

#: Quota for Elastic IP addresses (VPC user guide, "Amazon VPC quotas": 5 per region): name and code in Service Quotas, value.
ADDRESS_QUOTA = ("EC2-VPC Elastic IPs", "L-0263D0A3", 5)


def letters(name: str) -> str:
    """Return the key of a type's quota in QUOTAS; the standard types share one quota."""
    found = _letters(name)
    return found if found in QUOTAS else "m"
