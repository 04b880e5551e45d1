"""Rules about the container that ranks run in."""

from __future__ import annotations

from collections.abc import Iterator

from catalogue.containers import NERDCTL, NERDCTL_SUMS
from config import slurm_rules
from config.oci.facts import Facts
from config.oci.model import Oci
from config.rule import ERROR, WARNING, Breach, rule


@rule("container-single", ERROR, "benchmarks/launch/containerd.py: the image's mpirun reaches no other node", guard=True)
def container_single(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A container on static nodes of a cluster network, even while the pool has no nodes yet."""
    for path, pool in wanted.located:
        if wanted.container is not None and pool.cluster_network and not pool.dynamic:
            yield Breach(
                "oci.container",
                f"is set, but {path} has a cluster network; ranks in containerd start inside one node: set clusterNetwork to "
                "false and nodes to 1, or remove container",
            )


@rule("container-image", ERROR, "NVIDIA Container Toolkit, install guide: packages by dnf", guard=True)
def container_image(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """A container on static nodes whose machine image lacks dnf: first boot installs NVIDIA Container Toolkit with dnf."""
    for path, pool in wanted.located:
        if wanted.container and not pool.dynamic and pool.family.packages != "dnf":
            yield Breach(
                f"{path}.imageFamily",
                f"is {pool.family.key}, but oci.container is set; first boot can install the container runtime only on ol8 and "
                "ol9",
            )


@rule("container-sums", ERROR, "containerd/nerdctl: release notes, sha256 of SHA256SUMS", guard=True)
def container_sums(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Another version of nerdctl with the checksum of the default version."""
    own = wanted.container.containerd if wanted.container else None
    if own is not None and own.version != NERDCTL and own.sums == NERDCTL_SUMS:
        yield Breach(
            "oci.container.containerd.sums",
            f"is the checksum for version {NERDCTL}, but version is {own.version}; give the sha256 of SHA256SUMS from the "
            f"notes of https://github.com/containerd/nerdctl/releases/tag/v{own.version}",
        )


@rule("enroot-unchecked", WARNING, "enroot 4.1: doc/installation.md, which states no checksums")
def enroot_unchecked(wanted: Oci, _facts: Facts) -> Iterator[Breach]:
    """Packages of enroot that machines install unchecked, because the stack file gives no sha256."""
    yield from slurm_rules.enroot_unchecked("oci.slurm", wanted.slurm)
