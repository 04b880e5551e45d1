"""Servers on premises: what the rehearsed cluster's nodes are made of."""

from __future__ import annotations

from rehearsal.oci.shapes import Port, Shape

#: One A100 in a PCIe slot, and one port of an Intel E810 with 25 Gbit/s: a virtual machine with both passed through.
MACHINES = {
    "A100-PCIE.1": Shape(
        name="A100-PCIE.1",
        ocpus=8,
        memory_gib=64,
        processor="x86_64",
        quota="",
        quota_per_host=0,
        gpu="NVIDIA A100 80GB PCIe",
        gpus=1,
        ports=(Port("irdma0"),),
        port_rate_bits_per_s=25 * 10**9,
        front_gbit_s=10,
    )
}
