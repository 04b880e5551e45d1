"""Processors of OCI's GPU shapes as `slurmd -C` counts them: sockets, cores per socket, hardware threads per core.

The numbers of some shapes are from oci-hpc 3.1.0, mgmt/lib/database.py (get_node_configuration). The numbers of all other
shapes are the OCPUs of the vendor's page "Compute Shapes", divided over two sockets. An A100-v2 machine counts as eight
sockets, because each of its two sockets is divided into four NUMA nodes (NPS4). Older kernels cannot bind this machine's 256
processors, so only one thread of each core is listed; Slurm accepts a node that has more processors than slurm.conf lists.
"""

from __future__ import annotations

_TWO_XEONS = (2, 56, 2)
_TWO_OF_64 = (2, 64, 2)
_GRACE = (2, 72, 1)

#: Sockets, cores per socket, threads per core, by shape.
PROCESSORS: dict[str, tuple[int, int, int]] = {
    "BM.GPU4.8": (2, 32, 2),
    "BM.GPU.A100-v2.8": (8, 16, 1),
    "BM.GPU.B4.8": (8, 16, 1),
    "BM.GPU.H100.8": _TWO_XEONS,
    "BM.GPU.H200.8": _TWO_XEONS,
    "BM.GPU.B200.8": _TWO_OF_64,
    "BM.GPU.B300.8": _TWO_OF_64,
    "BM.GPU.GB200.4": _GRACE,
    "BM.GPU.GB200-v2.4": _GRACE,
    "BM.GPU.GB200-v3.4": _GRACE,
    "BM.GPU.GB300.4": _GRACE,
    "BM.GPU.MI300X.8": _TWO_XEONS,
    "BM.GPU.MI355X.8": _TWO_OF_64,
    "BM.GPU.MI355X-v1.8": _TWO_OF_64,
    "BM.GPU.L40S.4": _TWO_XEONS,
}
