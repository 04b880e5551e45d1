"""Settings of NCCL and Open MPI for each kind of machine, as in the vendors' own samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_ALLREDUCE = "oci-hpc:samples/gpu/nccl_run_allreduce.sbatch"
_GB200 = "oci-hpc:samples/gpu/nccl_run_allreduce_GB200.sbatch"
_RCCL = "oci-hpc:samples/gpu/rccl_run_allreduce.sbatch"


@dataclass(frozen=True)
class Environment:
    """Settings that start a collective on one family of shapes.

    Attributes:
        exports: variables set for every rank (`mpirun -x`).
        mca: Open MPI parameters (`--mca name value`).
        bind_to: how Open MPI binds ranks.
        source: where these settings come from.
        provider: libfabric provider that carries NCCL's bytes through NCCL's network plugin; empty if NCCL drives the HCAs
            itself. A plugin with a provider gives each GPU the nearest rails, and accepts no list of rails.
    """

    exports: Mapping[str, str]
    mca: Mapping[str, str]
    bind_to: str
    source: str
    provider: str = ""


_UCX = {"pml": "ucx", "coll": "^hcoll"}
_HOPPER = {
    "UCX_TLS": "tcp",
    "NCCL_CUMEM_ENABLE": "0",
    "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
    "NCCL_IB_QPS_PER_CONNECTION": "1",
    "NCCL_IB_GID_INDEX": "3",
    "NCCL_IB_TC": "41",
    "NCCL_IB_SL": "0",
    "NCCL_IB_TIMEOUT": "22",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_SOCKET_IFNAME": "eth0",
    "NCCL_IGNORE_CPU_AFFINITY": "1",
    "RX_QUEUE_LEN": "8192",
    "IB_RX_QUEUE_LEN": "8192",
}
_GB200_EXPORTS = {
    "NCCL_MNNVL_ENABLE": "1",
    "NCCL_CUMEM_ENABLE": "1",
    "NCCL_NVLS_ENABLE": "1",
    "NCCL_NET_GDR_C2C": "1",
    "NCCL_SOCKET_IFNAME": "eth0",
}

#: Environment of machines outside the supported clouds, and of single nodes on OCI: NCCL finds GID, queues and affinity itself
#: (2.21 or later), and MPI's own few messages use TCP, which every build of Open MPI supports. NCCL binds ranks, because NCCL
#: knows where each GPU is.
GENERIC = "generic"
#: Environment of AWS machines with EFA.
EFA = "efa"

#: Environments by the names that shapes refer to.
ENVIRONMENTS: dict[str, Environment] = {
    "oci-a100": Environment(
        {
            "UCX_TLS": "ud,self,sm",
            "HCOLL_ENABLE_MCAST_ALL": "0",
            "coll_hcoll_enable": "0",
            "NCCL_IB_SL": "0",
            "NCCL_IB_TC": "41",
            "NCCL_IB_QPS_PER_CONNECTION": "4",
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_ALGO": "Ring",
        },
        _UCX,
        "numa",
        _ALLREDUCE,
    ),
    "oci-hopper": Environment(_HOPPER, _UCX, "numa", _ALLREDUCE),
    "oci-gb200": Environment(_GB200_EXPORTS, _UCX, "none", _GB200),
    "oci-gb300": Environment(
        _GB200_EXPORTS
        | {
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_IB_TC": "41",
            "NCCL_IB_SL": "0",
            "NCCL_IB_TIMEOUT": "22",
            "NCCL_IB_QPS_PER_CONNECTION": "4",
            "NCCL_IB_SPLIT_DATA_ON_QPS": "0",
            "NCCL_BUFFSIZE": "16777216",
            "NCCL_DMABUF_ENABLE": "1",
            "NCCL_NET_PLUGIN": "none",
        },
        _UCX,
        "none",
        _GB200,
    ),
    "oci-mi300x": Environment(
        {
            "NCCL_IB_QPS_PER_CONNECTION": "4",
            "NCCL_IB_SL": "0",
            "NCCL_IGNORE_CPU_AFFINITY": "1",
            "NCCL_SOCKET_IFNAME": "eth0",
            "RX_QUEUE_LEN": "8192",
            "IB_RX_QUEUE_LEN": "8192",
        },
        _UCX,
        "numa",
        _RCCL,
    ),
    "oci-mi355x": Environment(
        {
            "NCCL_IB_QPS_PER_CONNECTION": "1",
            "NCCL_IB_GID_INDEX": "3",
            "NCCL_IB_TC": "41",
            "NCCL_IB_TIMEOUT": "22",
        },
        _UCX,
        "numa",
        _RCCL,
    ),
    "oci-hpc": Environment(
        {"UCX_IB_TRAFFIC_CLASS": "105", "UCX_IB_GID_INDEX": "3"},
        _UCX,
        "numa",
        "oci-hpc:playbooks/roles/latency_check",
    ),
    # EFA: the plugin sets protocol, buffers and topology for each instance type, and libfabric 1.18 or later sets everything
    # else. With these settings NCCL's bootstrap uses no bridge, and MPI's own few messages use TCP.
    EFA: Environment(
        {"NCCL_SOCKET_IFNAME": "^docker,lo,veth"},
        {"pml": "ob1", "btl": "tcp,self"},
        "none",
        "aws-ofi-nccl:src/platform-aws.cpp; awsome-distributed-training:1.architectures/efa-cheatsheet.md",
        provider="efa",
    ),
    GENERIC: Environment({}, {"pml": "ob1", "btl": "^openib"}, "none", "NCCL's and Open MPI's own defaults"),
}
