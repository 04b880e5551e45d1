"""Published bus bandwidths of healthy machines.

The gate's fractions were chosen from these numbers, and tests compare the fractions with these numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from catalogue.aws.instances import INSTANCES
from catalogue.oci.shapes import SHAPES
from catalogue.servers import SERVERS
from catalogue.shape import Rdma, Shape

_GIB = 1024**3
_AR, _AG, _A2A, _RS = "all_reduce", "all_gather", "alltoall", "reduce_scatter"
#: The catalogue of NVIDIA's Cluster Readiness Engine, 16 GB messages.
_NVCRE = "NVIDIA/cluster-readiness-engine:docs/api-reference/validation-results.md"
_ML = "stas00/ml-engineering:network/README.md, todo.md"
_HPC, _OKE = "oracle-quickstart/oci-hpc:documentation", "oracle-quickstart/oci-hpc-oke:docs"
_AWSOME = "awslabs/awsome-distributed-ai:micro-benchmarks/nccl-tests"
_CW = "coreweave/nccl-tests:README"
_AZURE = "Azure/ai-infrastructure-on-azure"
_GUIDE = "Azure/AI-benchmarking-guide:Azure_Results"
#: Measured with PyTorch's collectives; the page states that nccl-tests agrees within 2 % at 16 GiB on the same node.
_TORCH = "stas00/ml-engineering:network/benchmarks/README.md"
#: For runs on two nodes, where NCCL itself selects Tree or NVLSTree: they count as runs in which NCCL_ALGO was set to Tree. The
#: rails then carry fewer bytes than with a ring.
_TREE = {"NCCL_ALGO": "Tree"}


@dataclass(frozen=True)
class Published:
    """One published number: its source, collective, shape, number of machines, and the variables that were set (`exports`)."""

    where: str
    shape: Shape
    nodes: int
    collective: str
    size_bytes: int
    busbw_gb_s: float
    source: str
    exports: Mapping[str, str] = field(default_factory=dict)


def _rails(shape: Shape) -> Shape:
    """Return the shape with invented names for its rails, because sources state only the number of rails."""
    count, rate = shape.unnamed or (0, 0)
    return replace(shape, rdma=Rdma(count, rate, tuple(f"rail{index}" for index in range(count)), ""), unnamed=None)


def _with_ports(shape: Shape, ports: int, port_gbit_s: int) -> Shape:
    return replace(shape, rdma=Rdma(ports, port_gbit_s, tuple(f"mlx5_{index}" for index in range(ports)), ""))


_B4, _OCI_H100 = SHAPES["BM.GPU.B4.8"], SHAPES["BM.GPU.H100.8"]
_MI300X, _GB200, _GB300 = SHAPES["BM.GPU.MI300X.8"], SHAPES["BM.GPU.GB200.4"], SHAPES["BM.GPU.GB300.4"]
_P4D, _P4DE, _P5, _P5EN = (
    INSTANCES[name].shape() for name in ("p4d.24xlarge", "p4de.24xlarge", "p5.48xlarge", "p5en.48xlarge")
)
_P6_B200, _P6_B300 = (_rails(INSTANCES[name].shape()) for name in ("p6-b200.48xlarge", "p6-b300.48xlarge"))
_H100, _H200 = SERVERS["DGX-H100"], SERVERS["DGX-H200"]
_B200 = _with_ports(SERVERS["HGX-B200.8"], 8, 400)
_A100, _A100_100 = _with_ports(SERVERS["HGX-A100-80GB.8"], 8, 200), _with_ports(SERVERS["HGX-A100-80GB.8"], 8, 100)
_TWO_H200 = replace(_H200, gpus=2)
_SHARP = {"NCCL_COLLNET_ENABLE": "1"}
#: Measured on a rented machine for busbar.
_OWN = "tests/golden/transcripts/h200x2.txt"
_RING = {"NCCL_ALGO": "Ring"}
_RACK, _NO_RACK = {"NCCL_MNNVL_ENABLE": "1"}, {"NCCL_MNNVL_ENABLE": "0"}

ROWS = (
    Published("OCI A100", _B4, 2, _AR, 8 * _GIB, 189.60, f"{_OKE}/running-nccl-rccl-tests-from-slurm-operator.md"),
    Published("OCI A100", _B4, 2, _AR, 10 * _GIB, 185.59, f"{_HPC}/Healthcheck-NCCL-Runbook.md"),
    Published("OCI A100", _B4, 64, _AR, 8 * _GIB, 200, "Oracle blog, GPU OCI AI and HPC jobs (read from a figure)"),
    Published("OCI MI300X", _MI300X, 2, _AR, 16 * _GIB, 358.37, _OKE),
    Published("MI300X", _MI300X, 2, _AR, 8 * _GIB, 339, "dstack blog (339 to 350; size not stated)"),
    Published("OCI H100", _OCI_H100, 2, _AR, 1 * _GIB, 449.5, f"{_HPC}/Troubleshooting.md", _TREE),
    Published("OCI H100", _OCI_H100, 2, _AR, 4 * _GIB, 467.4, f"{_HPC}/Troubleshooting.md", _TREE),
    Published("OCI H100", _OCI_H100, 2, _AR, 8 * _GIB, 469.8, f"{_HPC}/Troubleshooting.md", _TREE),
    Published("OCI H100", _OCI_H100, 2, _AR, 16 * _GIB, 471.2, f"{_HPC}/Troubleshooting.md", _TREE),
    Published("OCI H100, PyTorch", _OCI_H100, 2, _AR, 4 * 10**9, 338.96, "modal-labs/multinode-training-guide issue 7"),
    Published("OCI H100, any order", _OCI_H100, 4, _AR, 8 * _GIB, 370, "oracle-quickstart/oci-hpc issue 48, on some nodes"),
    Published("OCI H100, ring order", _OCI_H100, 4, _AR, 8 * _GIB, 390, "oracle-quickstart/oci-hpc issue 48, on some nodes"),
    Published("AWS p4d", _P4D, 2, _AR, 2 * _GIB, 77.9, "skypilot-org/skypilot:examples/aws_efa/README.md", _TREE),
    Published("AWS p4de", _P4DE, 2, _AR, 2 * _GIB, 78.33, f"{_AWSOME}/README.md", _TREE),
    Published("AWS p5, EKS", _P5, 2, _AR, 2 * _GIB, 437.8, f"{_AWSOME}/README.md", _TREE),
    Published("AWS p5", _P5, 2, _AR, 16 * 10**9, 487.87, _NVCRE, _TREE),
    Published("AWS p5", _P5, 2, _AR, _GIB // 8, 289, f"{_AWSOME}/README.md", _TREE),
    Published("AWS p5", _P5, 2, _AR, 16 * _GIB, 487.09, f"{_AWSOME}/README.md", _TREE),
    Published("AWS p5", _P5, 2, _AR, 16 * _GIB, 480, "awslabs/awsome-distributed-ai issue 1120", _TREE),
    Published("AWS p5", _P5, 2, _AG, 16 * 10**9, 338.57, _NVCRE),
    Published("AWS p5", _P5, 2, _A2A, 16 * 10**9, 79.11, _NVCRE),
    Published("AWS p5en", _P5EN, 2, _AR, 16 * _GIB, 486.80, _ML, _TREE),
    Published("AWS p5en", _P5EN, 4, _AR, 16 * _GIB, 369.06, _ML),
    Published("AWS p5en, ring forced", _P5EN, 4, _AR, 16 * _GIB, 364.65, _ML, _RING),
    Published("AWS p5en, NVLSTree forced", _P5EN, 4, _AR, 16 * _GIB, 310.07, _ML, {"NCCL_ALGO": "NVLSTree"}),
    Published("AWS p5en", _P5EN, 16, _AR, 16 * _GIB, 369.86, f"{_AWSOME}/slurm/topology-aware-nccl-tests/README.md"),
    Published("AWS p6-b200", _P6_B200, 4, _AR, 16 * _GIB, 381.80, _ML),
    Published("AWS p6-b200", _P6_B200, 4, _AR, _GIB, 362, _ML),
    Published("AWS p6-b200", _P6_B200, 4, _AR, _GIB // 2, 327, _ML),
    Published("AWS p6-b200", _P6_B200, 4, _AR, _GIB // 4, 229, _ML),
    Published("AWS p6-b200", _P6_B200, 2, _AR, 16 * _GIB, 654, "awslabs/awsome-distributed-ai issue 1120", _TREE),
    Published("AWS p6-b300", _P6_B300, 2, _AR, 16 * _GIB, 760, "awslabs/awsome-distributed-ai issue 1120"),
    Published("CoreWeave H100", _H100, 12, _AR, 8 * _GIB, 386.56, _CW),
    Published("CoreWeave GB200, one rack", _GB200, 18, _AR, 16 * _GIB, 834.6, _CW, _RACK),
    Published("CoreWeave GB200, two racks", _GB200, 36, _AR, 16 * _GIB, 810, _CW, _RACK),
    Published("CoreWeave GB200, 20 racks", _GB200, 360, _AR, 16 * _GIB, 405.7, _CW, _RACK),
    Published("Azure H100, SHARP", _H100, 8, _AR, 16 * _GIB, 450, _AZURE, _SHARP),
    Published("Azure GB300, one rack", _GB300, 18, _AR, 16 * _GIB, 937, _AZURE, _RACK),
    Published("Azure GB300, across racks", _GB300, 36, _AR, 16 * _GIB, 200, f"{_AZURE} (nodes not stated)", _RACK),
    Published("GCP A3 High, TCPX", SERVERS["HGX-H100.8"], 2, _AG, 8 * _GIB, 50.2, "dstackai/dstack:examples/clusters/gcp.md"),
    Published("GCP A3 High, TCPX", SERVERS["HGX-H100.8"], 2, _AG, _GIB // 2, 71, "cluster-toolkit:examples/gke-a3-highgpu"),
    Published("GCP A3 Mega, TCPXO", SERVERS["HGX-H100.8"], 2, _AG, 8 * _GIB, 188.7, "cluster-toolkit:examples/gke-a3-megagpu"),
    Published("GCP A3 Ultra", _H200, 2, _AG, 8 * _GIB, 328.9, "cluster-toolkit:examples/gke-consumption-options"),
    Published("GCP A4", _B200, 2, _AR, 8 * _GIB, 683.5, "dstackai/dstack:examples/clusters/gcp.md", _TREE),
    Published("Nebius H100", _H100, 2, _AR, 8 * _GIB, 467.5, "dstackai/dstack:examples/clusters/nebius.md", _TREE),
    Published("Lambda B200", _B200, 2, _AR, 2 * _GIB, 696, "dstackai/dstack:examples/clusters/lambda.md", _TREE),
    Published("Voltage Park H100", _H100, 4, _AR, 8 * _GIB, 330.9, "Voltage Park, NCCL page (excerpt)"),
    Published("DGX A100", _A100, 4, _AR, 8 * _GIB, 192, "NVIDIA/nccl issue 778 (nodes not stated)"),
    Published("H200", _H200, 248, _AR, 8 * _GIB, 350, "NVIDIA/nccl-tests issue 283"),
    Published("A100, 8 x 100G", _A100_100, 2, _AR, 8 * _GIB, 100, "NVIDIA/nccl-tests issue 169 (before its congestion)"),
    Published("GB200", _GB200, 4, _AR, 16 * 10**9, 882.5, _NVCRE, _RACK),
    Published("GB200", _GB200, 4, _AG, 16 * 10**9, 609.3, _NVCRE, _RACK),
    Published("GB200", _GB200, 4, _A2A, 16 * 10**9, 568.7, _NVCRE, _RACK),
    Published("GB200, rails", _GB200, 4, _AR, 16 * 10**9, 191.4, _NVCRE, _NO_RACK),
    Published("GB200, rails", _GB200, 4, _AG, 16 * 10**9, 191.26, _NVCRE, _NO_RACK),
    Published("GB200, rails", _GB200, 4, _A2A, 16 * 10**9, 58.15, _NVCRE, _NO_RACK),
    Published("GB300", _GB300, 8, _AR, 16 * 10**9, 923.3, _NVCRE, _RACK),
    Published("GB300", _GB300, 8, _AG, 16 * 10**9, 698.7, _NVCRE, _RACK),
    Published("GB300, rails", _GB300, 2, _AR, 16 * _GIB, 387, "NVIDIA/aicr issue 1413 (nodes and size not stated)", _NO_RACK),
    Published("GB300", _GB300, 16, _AR, 16 * 10**9, 932, _NVCRE, _RACK),
    Published("GB200, GCP", _GB200, 2, _AR, 16 * 10**9, 838.07, _NVCRE, _RACK),
    Published("GB200, GCP", _GB200, 2, _AG, 16 * 10**9, 680.18, _NVCRE, _RACK),
    Published("GB200, GCP", _GB200, 2, _A2A, 16 * 10**9, 683.82, _NVCRE, _RACK),
    Published("GB300", _GB300, 8, _A2A, 16 * 10**9, 678.57, _NVCRE, _RACK),
    Published("GB300, rails", _GB300, 8, _AR, 16 * 10**9, 376.01, _NVCRE, _NO_RACK),
    Published("GB300, rails", _GB300, 8, _AG, 16 * 10**9, 365.68, _NVCRE, _NO_RACK),
    Published("GB300, rails", _GB300, 8, _A2A, 16 * 10**9, 85.62, _NVCRE, _NO_RACK),
    Published("B200", _B200, 4, _AR, 16 * _GIB, 376.71, _TORCH),
    Published("B200", _B200, 4, _AR, _GIB, 365.99, _TORCH),
    Published("B200", _B200, 4, _AR, _GIB // 2, 309.91, _TORCH),
    # One machine, over its NVLink.
    Published("Azure A100, in place", _A100, 1, _AR, 8 * _GIB, 231.58, f"{_GUIDE}/ND_A100_v4_results.md"),
    Published("Azure A100, in place", _A100, 1, _AR, 4 * _GIB, 230.48, f"{_GUIDE}/ND_A100_v4_results.md"),
    Published("Azure A100, in place", _A100, 1, _AR, _GIB, 228.10, f"{_GUIDE}/ND_A100_v4_results.md"),
    Published("Azure A100, in place", _A100, 1, _AR, _GIB // 4, 213.87, f"{_GUIDE}/ND_A100_v4_results.md"),
    Published("A100", _A100, 1, _AR, 4 * _GIB, 232.54, "NVIDIA/nccl-tests issue 175"),
    Published("AWS p4d", _P4D, 1, _AR, _GIB, 230.77, "NVIDIA/nccl issue 527"),
    Published("A100", _A100, 1, "sendrecv", _GIB, 195.10, "li-plus/playground:cuda/nccl.md"),
    Published("H100, ring forced", _H100, 1, _AR, 4 * _GIB, 365, "NVIDIA/nccl issue 1455 (365 to 370, 2 to 8 GPUs)", _RING),
    Published("H100, without NVLS", _H100, 1, _AR, 16 * _GIB, 368.76, "NVIDIA/nccl-tests issue 309 (largest size)"),
    Published("H100", _H100, 1, _AG, 16 * _GIB, 360, "NVIDIA/nccl-tests issue 326 (about)"),
    Published("H100, ring forced", _H100, 1, _RS, 8 * _GIB, 362.16, "NVIDIA/nccl issue 1047", _RING),
    Published("H100, ring forced", _H100, 1, _RS, 4 * _GIB, 357.76, "NVIDIA/nccl issue 1047", _RING),
    Published("H100, ring forced", _H100, 1, _RS, _GIB, 349.36, "NVIDIA/nccl issue 1047", _RING),
    Published("H100, ring forced", _H100, 1, _RS, _GIB // 4, 330.94, "NVIDIA/nccl issue 1047", _RING),
    Published("two H200", _TWO_H200, 1, _AR, 8 * _GIB, 345.38, _OWN),
    Published("two H200", _TWO_H200, 1, _AR, _GIB, 330.30, _OWN),
    Published("two H200", _TWO_H200, 1, _AR, _GIB // 4, 298.40, _OWN),
    Published("Azure GB200, in place", _GB200, 1, _AR, 8 * _GIB, 679.61, f"{_GUIDE}/ND_GB200_v6_results.md"),
    Published("Azure GB200, in place", _GB200, 1, _AR, 4 * _GIB, 673.06, f"{_GUIDE}/ND_GB200_v6_results.md"),
    Published("Azure GB200, in place", _GB200, 1, _AR, _GIB, 646.87, f"{_GUIDE}/ND_GB200_v6_results.md"),
    Published("Azure GB200, in place", _GB200, 1, _AR, _GIB // 4, 593.53, f"{_GUIDE}/ND_GB200_v6_results.md"),
    Published("B200", _B200, 1, _AG, 16 * _GIB, 668.28, _TORCH),
    Published("B200", _B200, 1, _RS, 16 * _GIB, 692.63, _TORCH),
    Published("B200", _B200, 1, _A2A, 16 * _GIB, 659.71, _TORCH),
    Published("B200", _B200, 1, "broadcast", 16 * _GIB, 672.71, _TORCH),
    Published("B200", _B200, 1, "reduce", 16 * _GIB, 692.63, _TORCH),
    Published("B200", _B200, 1, "gather", 16 * _GIB, 718.33, _TORCH),
    Published("B200", _B200, 1, "scatter", 16 * _GIB, 717.11, _TORCH),
    Published("B200", _B200, 1, "sendrecv", 16 * _GIB, 658.84, _TORCH),
)
