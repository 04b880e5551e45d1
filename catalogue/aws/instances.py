"""One typed row for each AWS instance type: GPUs, memory, network cards, EFA devices, purchase options and placement.

The layout of interfaces is in `catalogue.aws.nics`. With an account, `components.aws.preflight` asks AWS about an instance type
and refuses a row that is out of date.
Sources:
- cards and interfaces: amazon-vpc-cni-k8s:pkg/vpc/vpc_ip_resource_limit.go
- EFA devices, memory, NVMe and line rates: karpenter-provider-aws:website reference/instance-types.md
- types that are in neither of these two files: aws-parallelcluster PR 7210 (B300), the EC2 user guide (GB200)
- purchase options: EC2 user guide, "Capacity Blocks for ML" and the pages of each family
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from catalogue import gpus as gpu_models
from catalogue.environments import EFA
from catalogue.shape import Rdma, Shape

ON_DEMAND, SPOT, BLOCK = "on-demand", "spot", "capacity-block"
X86, ARM = "x86_64", "arm64"

_CNI = "amazon-vpc-cni-k8s:pkg/vpc/vpc_ip_resource_limit.go; karpenter-provider-aws:instance-types.md"
_B300 = "aws-parallelcluster PR 7210; amazon-vpc-cni-k8s; card 0 is ENA only"
_GB200 = (
    "EC2 user guide and aws-parallelcluster (EFA = cards - 1); rates: an UltraServer's 28.8 Tb/s, divided by its 18 instances"
)
_HPC = "amazon-vpc-cni-k8s; EC2 user guide, HPC instances (line rate of hpc7a from there)"
_PLAIN = "EC2 user guide, general purpose; AWS ParallelCluster tutorial (head and test nodes)"

_BOUGHT = frozenset({ON_DEMAND, SPOT})
_RESERVED = frozenset({ON_DEMAND, SPOT, BLOCK})


@dataclass(frozen=True)
class Instance:
    """One instance type.

    Attributes:
        name: the vendor's name.
        gpu: the driver's name of the type's GPUs; empty if the type has no NVIDIA GPUs.
        gpus: number of GPUs.
        accelerator: `nvidia`, `neuron` or empty.
        vcpus: virtual CPUs.
        memory_gib: main memory.
        cards: maximum number of interfaces on each network card, by card index.
        efa: maximum number of EFA interfaces.
        efa_gbit_s: line rate of one EFA interface, Gb/s, one direction.
        usage: purchase options: `on-demand`, `spot`, `capacity-block`.
        source: where the row was read.
        architecture: `x86_64` or `arm64`.
        cluster_placement: whether the type can be launched into a placement group of strategy `cluster`.
        hca: Linux's name of the RDMA device of each EFA interface; all machines of a type have the same names. Empty if no
            source lists the names.
    """

    name: str
    gpu: str
    gpus: int
    accelerator: str
    vcpus: int
    memory_gib: int
    cards: tuple[int, ...]
    efa: int
    efa_gbit_s: int
    usage: frozenset[str]
    source: str
    architecture: str = X86
    cluster_placement: bool = True
    hca: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a row that contradicts itself."""
        if self.efa > len(self.cards) or bool(self.efa) != bool(self.efa_gbit_s) or bool(self.gpu) != bool(self.gpus):
            msg = f"{self.name}: {self.efa} EFA devices need a line rate and {self.efa} cards, and a GPU name needs a GPU count"
            raise ValueError(msg)
        if self.hca and len(set(self.hca)) != self.efa:
            msg = f"{self.name}: {self.efa} EFA devices need {self.efa} names, got {self.hca}"
            raise ValueError(msg)

    @property
    def nvlink_gbytes_per_s(self) -> float | None:
        """Return one GPU's NVLink rate, GB/s in one direction; None for a GPU without NVLink."""
        return gpu_models.nvlink_gbytes_per_s(self.gpu)

    @property
    def front_card_is_plain(self) -> bool:
        """Tell whether card 0 has no EFA device although the type has EFA; such a type has fewer EFA devices than cards."""
        return 0 < self.efa < len(self.cards)

    def shape(self, *, efa: bool = True) -> Shape:
        """Return the type as a shape, for the code that all clouds share.

        The shape's rails are the EFA devices. If no source names the devices, the shape has only their number and line rate.
        """
        rails = Rdma(self.efa, self.efa_gbit_s, self.hca, "") if efa and self.hca else None
        unnamed = (self.efa, self.efa_gbit_s) if efa and self.efa and not self.hca else None
        return Shape(self.name, self.gpu, self.gpus, self.memory_gib, 0, rails, EFA, self.source, unnamed=unnamed)


def _rdmap(slot: int, *buses: int) -> tuple[str, ...]:
    return tuple(f"rdmap{bus}s{slot}" for bus in buses)


# awsome-distributed-training:1.architectures/efa-cheatsheet.md lists the devices of p4de and states that they are the same on
# all nodes. The devices of p5 and p5en are in the logs of published two-node runs, by ascending PCI bus; each GPU has four
# devices on p5 and two on p5en.
_P4 = _rdmap(27, 16, 32, 144, 160)
_P5 = _rdmap(0, *(first + n for first in (79, 96, 113, 130, 147, 164, 181, 198) for n in range(4)))
_P5EN = _rdmap(0, *(first + n for first in (85, 110, 135, 160) for n in range(4)))

_A100_40, _A100_80 = "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"
_H100, _H200 = "NVIDIA H100 80GB HBM3", "NVIDIA H200"
_RTX = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
_NV, _NEURON = "nvidia", "neuron"
#: Network cards of GB200: cards with an odd index take one interface, cards with an even index take two.
_GB200_CARDS = tuple(2 - index % 2 for index in range(17))

_ROWS = (
    Instance("p3dn.24xlarge", "Tesla V100-SXM2-32GB", 8, _NV, 96, 768, (15,), 1, 100, _BOUGHT, _CNI),
    Instance("p4d.24xlarge", _A100_40, 8, _NV, 96, 1152, (15,) * 4, 4, 100, _RESERVED, _CNI, hca=_P4),
    Instance("p4de.24xlarge", _A100_80, 8, _NV, 96, 1152, (15,) * 4, 4, 100, _RESERVED, _CNI, hca=_P4),
    Instance("p5.48xlarge", _H100, 8, _NV, 192, 2048, (2,) * 32, 32, 100, _RESERVED, _CNI, hca=_P5),
    Instance("p5e.48xlarge", _H200, 8, _NV, 192, 2048, (2,) * 32, 32, 100, _RESERVED, _CNI),
    Instance("p5en.48xlarge", _H200, 8, _NV, 192, 2048, (4,) * 16, 16, 200, _RESERVED, _CNI, hca=_P5EN),
    Instance("p6-b200.48xlarge", "NVIDIA B200", 8, _NV, 192, 2048, (4,) * 8, 8, 400, _RESERVED, _CNI),
    Instance("p6-b300.48xlarge", "NVIDIA B300", 8, _NV, 192, 4096, (4,) * 17, 16, 400, _RESERVED, _B300),
    Instance(
        "p6e-gb200.36xlarge",
        "NVIDIA GB200",
        4,
        _NV,
        144,
        960,
        _GB200_CARDS,
        16,
        100,
        frozenset({BLOCK}),
        _GB200,
        ARM,
        cluster_placement=False,  # an UltraServer is sold only as a Capacity Block, and its machines are together anyway
    ),
    Instance("g5.48xlarge", "NVIDIA A10G", 8, _NV, 192, 768, (7,), 1, 100, _BOUGHT, _CNI),
    Instance("g6.48xlarge", "NVIDIA L4", 8, _NV, 192, 768, (15,), 1, 100, _BOUGHT, _CNI),
    Instance("g6e.48xlarge", "NVIDIA L40S", 8, _NV, 192, 1536, (10,) * 4, 4, 100, _BOUGHT, _CNI),
    Instance("g7e.48xlarge", _RTX, 8, _NV, 192, 2048, (10,) * 4, 4, 400, _BOUGHT, _CNI),
    Instance("trn1.32xlarge", "", 0, _NEURON, 128, 512, (5,) * 8, 8, 100, _RESERVED, _CNI),
    Instance("trn1n.32xlarge", "", 0, _NEURON, 128, 512, (5,) * 16, 16, 100, _BOUGHT, _CNI),
    Instance("trn2.48xlarge", "", 0, _NEURON, 192, 2048, (2,) * 16, 16, 200, _RESERVED, _CNI),
    Instance("hpc6id.32xlarge", "", 0, "", 64, 1024, (1,) * 2, 2, 100, frozenset({ON_DEMAND}), _HPC),
    Instance("hpc7a.96xlarge", "", 0, "", 192, 768, (2,) * 2, 2, 150, frozenset({ON_DEMAND}), _HPC),
    Instance("m5.xlarge", "", 0, "", 4, 16, (4,), 0, 0, _BOUGHT, _PLAIN),
    Instance("m5.2xlarge", "", 0, "", 8, 32, (4,), 0, 0, _BOUGHT, _PLAIN),
    Instance("m5.8xlarge", "", 0, "", 32, 128, (8,), 0, 0, _BOUGHT, _PLAIN),
)

#: Every instance type by the vendor's name.
INSTANCES: dict[str, Instance] = {row.name: row for row in _ROWS}

_FAMILY = re.compile(r"([a-z]+)(\d+)([a-z]*)(-[a-z0-9]+)?\.")


def architecture(name: str) -> str:
    """Return the CPU architecture of any instance type.

    If the catalogue lacks the type, the name decides: a `g` after the number means arm64.
    Source: EC2 user guide, "Instance type naming conventions".
    """
    if name in INSTANCES:
        return INSTANCES[name].architecture
    found = _FAMILY.match(name)
    return ARM if found and ("g" in found.group(3) or (found.group(4) or "").startswith("-g")) else X86


def family(name: str) -> str:
    """Return the leading letters of an instance type, by which AWS counts quotas: `p`, `g`, `trn`, `hpc`, `m`."""
    found = _FAMILY.match(name)
    return found.group(1) if found else ""
