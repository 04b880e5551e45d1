"""Fills in the parts of a HostSpec that depend on the shape, or on the family of the host's image."""

from __future__ import annotations

from dataclasses import replace

from rehearsal.host.spec import HostSpec, Rail
from rehearsal.oci.shapes import GIGA, GPU_BUSES, Shape, front_name, rail_names

#: Plugins of the Oracle Cloud Agent that give the rails their names and addresses.
RDMA_PLUGINS = ("Compute HPC RDMA Auto-Configuration", "Compute HPC RDMA Authentication")


def equipped(spec: HostSpec, shape: Shape, ocpus: float = 1) -> HostSpec:
    """Return the host with the hardware of a shape; `ocpus` counts for flexible shapes. Only a host in a fabric has rails."""
    family = spec.image.name.partition("-")[0]
    names = rail_names(shape, family) if spec.fabric_id else []
    ports = zip(names, shape.ports, strict=bool(names))
    return replace(
        spec,
        shape=shape.name,
        front_name=front_name(shape, family),
        front_hca=shape.front_hca,
        rails=tuple(Rail(name, port.hca, shape.port_rate_bits_per_s, _driver(port.hca)) for name, port in ports),
        gpus=(shape.gpu,) * shape.gpus,
        gpu_buses=GPU_BUSES[: shape.gpus],
        nvme=shape.nvme_bytes,
        processors=topology(shape, ocpus),
        memory_mib=int((shape.memory_gib if not shape.flexible else ocpus * shape.memory_gib / shape.ocpus) * 1024),
        front_rate_bits_per_s=int(shape.front_gbit_s * (ocpus if shape.flexible else 1) * GIGA),
    )


def topology(shape: Shape, ocpus: float = 1) -> tuple[int, int, int]:
    """Return sockets, cores per socket, and threads per core, as Linux shows them.

    Source: oci-hpc 3.1.0, mgmt/lib/database.py (get_node_configuration). BM.GPU.A100-v2.8 and BM.GPU.B4.8 have four
    NUMA nodes per socket, and each NUMA node is counted as a socket.
    """
    threads = 1 if shape.architecture != "x86_64" else 2
    if not shape.bare_metal:
        return 1, int(ocpus if shape.flexible else shape.ocpus), threads
    sockets = 8 if shape.name in {"BM.GPU.A100-v2.8", "BM.GPU.B4.8"} else 2
    return sockets, int(shape.ocpus) // sockets, threads


def _driver(hca: str) -> str:
    """Return the driver of a device from the device's name."""
    return "irdma" if hca.startswith("irdma") else "mlx5"
