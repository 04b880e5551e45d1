"""Versions of the software that carries NCCL over EFA, pinned as a set that was tested together.

Sources:
awsome-distributed-training:1.architectures/efa-cheatsheet.md (minimums), its Dockerfiles and AWS's container images (sets that
were tested); known breakages: aws-ofi-nccl 584 (NCCL 2.19 with an installer below 1.29), deep-learning-containers 6668 (plugin
1.18.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from catalogue.containers import told

#: Versions of aws-ofi-nccl that Deep Learning images had from April to September 2026, and why these must not be used.
HANGING = ("1.18.0",)
HANGS = "hangs in broadcasts between nodes; use another version, such as 1.20.0 or later"

#: AWS's archive of scripts that configure the Lustre client to use EFA. The archive has neither a version nor a published
#: checksum (FSx for Lustre user guide, "Configuring EFA clients").
LUSTRE_EFA = "https://docs.aws.amazon.com/fsx/latest/LustreGuide/samples/configure-efa-fsx-lustre-client.zip"


def parts(version: str) -> tuple[int, ...]:
    """Return a version as comparable numbers: `2.30.4-1` is (2, 30, 4, 1).

    Raises:
        ValueError: the text is not a version of this form.
    """
    return tuple(int(part) for part in version.removeprefix("v").replace("-", ".").split("."))


@dataclass(frozen=True)
class Stack:
    """Versions of the EFA installer, of the plugin aws-ofi-nccl (which installer 1.39 and later contain) and of NCCL.

    `container` is an image with these versions. A version that no source states is empty and is not checked. `efa_sha256` is
    the sha256 of the installer's archive.
    """

    efa: str
    plugin: str
    nccl: str
    container: str
    efa_sha256: str = ""

    @classmethod
    def of(cls, reference: str, tag: str) -> Self:
        """Return the versions that an image's tag states."""
        stated = told(tag)
        return cls(stated.get("efa", ""), stated.get("plugin", ""), stated.get("nccl", ""), reference)

    def refusal(self, instance_type: str) -> str:
        """Return in one sentence why this set of versions cannot carry NCCL on `instance_type`; empty if it can."""
        needs = (("EFA installer", self.efa, "1.29"), ("NCCL", self.nccl, "2.18.5"), ("plugin", self.plugin, "1.7.3"))
        for name, given, least in needs:
            if given and instance_type.startswith(_NEED_MINIMUMS) and parts(given) < parts(least):
                return f"the {name} is {given}, but {instance_type} needs {least} or later: older versions do not support it"
        if self.nccl and self.efa and parts(self.nccl) >= (2, 19) and parts(self.efa) < (1, 29):
            return (
                f"NCCL {self.nccl} with EFA installer {self.efa} fails to register memory; NCCL 2.19 or later needs installer "
                "1.29 or later"
            )
        if self.plugin and self.plugin.removeprefix("v") in HANGING:
            return f"plugin {self.plugin} {HANGS}"
        return ""


_NEED_MINIMUMS = ("p5", "p6")
#: The versions in AWS's own nccl-tests image, which was tested with AWS ParallelCluster 3.13. `container` is the image's name
#: in enroot's form.
STACK = Stack(
    efa="1.43.2",
    plugin="1.16.3",
    nccl="2.27.7-1",
    container="docker://public.ecr.aws#hpc-cloud/nccl-tests:cuda12.8.1-efa1.43.2-ofiv1.16.3-ncclv2.27.7-1-testsv2.16.9",
    # EC2 user guide, "Verify the EFA installer using a checksum": EFA 1.43.2.
    efa_sha256="de15c5bdbc83b952afbde876110830c604ad0796680e5157c05f7c1979a41069",
)
