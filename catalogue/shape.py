"""Describes one kind of machine: GPUs, memory, disks, rails."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from catalogue import gpus


@dataclass(frozen=True)
class Rdma:
    """The rails of one machine.

    Attributes:
        ports: number of RDMA ports (rails).
        port_gbit_s: line rate of one port, Gb/s, one direction.
        hca: RDMA device of each rail, in NCCL's order; there are as many as `ports`.
        ucx_net_devices: devices that UCX may use for MPI's own traffic; empty if MPI does not use UCX.
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
        """Value of NCCL_IB_HCA: `=` matches exact names; without it mlx5_1 would also match mlx5_10 to mlx5_17."""
        return "=" + ",".join(self.hca)

    @property
    def node_gbytes_per_s(self) -> float:
        """Sum of the line rates of one machine's rails, GB/s (decimal), one direction."""
        return self.ports * self.port_gbit_s / 8


@dataclass(frozen=True)
class Shape:
    """One kind of machine.

    Attributes:
        name: the vendor's name.
        gpu: GPU model, empty for CPU shapes.
        gpus: GPUs in one machine.
        memory_gib: main memory, 0 if it varies.
        nvme: local NVMe disks, 0 if their number varies.
        rdma: the machine's rails; None if no source states the rails, or if there are none.
        environment: key of `catalogue.ENVIRONMENTS`; None if no source states an environment.
        source: where the row was read.
        front: interface of the front-end network, or several interfaces, separated by commas; empty if the environment sets
            the interface, or if NCCL finds it.
        unnamed: number and line rate (Gbit/s) of rails that sources count but do not name. The names are read from the
            machine. The rate is not read there, because older EFA drivers report 100 Gbit/s for every device.
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
        """Return one GPU's NVLink rate, GB/s in one direction; None for PCIe GPUs, other makers' GPUs and unknown models."""
        return gpus.nvlink_gbytes_per_s(self.gpu)

    @property
    def nvlink_generation(self) -> int | None:
        """Return the NVLink generation of the GPUs; None for PCIe GPUs, other makers' GPUs and unknown models."""
        return gpus.nvlink_generation(self.gpu)

    @property
    def pcie_gbytes_per_s(self) -> float | None:
        """Return one GPU's PCIe rate, GB/s in one direction, if its machine has no NVLink; None if the rate is not known."""
        return gpus.pcie_gbytes_per_s(self.gpu)

    def __post_init__(self) -> None:
        """Refuse a row that contradicts itself."""
        if bool(self.gpu) != bool(self.gpus):
            msg = f"{self.name}: give both a GPU name and a GPU count, or neither"
            raise ValueError(msg)


def nearest(name: str, among: Iterable[str], *, count: int = 3) -> tuple[str, ...]:
    """Return up to `count` names of `among` that look most like `name`, the best match first."""
    by_folded = {known.lower(): known for known in among}
    close = difflib.get_close_matches(name.lower(), by_folded, n=count, cutoff=0.3)
    return tuple(by_folded[match] for match in close) or tuple(by_folded.values())[:count]
