"""Servers on premises: the hardware of the rehearsed cluster's nodes."""

from __future__ import annotations

from rehearsal.oci.shapes import Port, Shape

#: A virtual machine to which one A100 PCIe card and one 25 Gbit/s port of an Intel E810 are passed through.
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
