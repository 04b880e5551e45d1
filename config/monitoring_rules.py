"""Refuses an exporter of RDMA counters if the cluster's own network would block the exporter's readers."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from config.monitoring import Monitoring, is_inside
from config.rule import ERROR, Breach, rule

if TYPE_CHECKING:
    from config.stack import Stack


@rule("monitoring", ERROR, "the security rules that the stack itself makes", guard=True)
def monitoring(stack: Stack, _facts: None) -> Iterator[Breach]:
    """An exporter of RDMA counters that its readers could not reach, because the cluster's own network would block them."""
    breaches = {"oci": _on_oci, "aws": _on_aws, "kubernetes": _on_kubernetes}.get(stack.target)
    if breaches is not None and stack.monitoring.exporter:
        yield from breaches(stack.wanted, stack.monitoring)


def _on_oci(wanted: Any, asked: Monitoring) -> Iterator[Breach]:
    """Yield what a new private subnet's security list blocks: the exporter's port, or networks that are to read the exporter.

    Existing subnets are not judged here.
    """
    network = wanted.network
    if network.existing is not None:
        return
    if network.ingress != "all":
        yield Breach(
            "monitoring.exporter",
            "is true, but oci.network.ingress is ssh, so nobody could read the exporter; set oci.network.ingress to all",
        )
    for index, cidr in enumerate(asked.read_from):
        if not is_inside(cidr, ipaddress.IPv4Network(network.vcn)):
            yield Breach(
                f"monitoring.readFrom[{index}]",
                f"is {cidr}, but nodes accept nothing from outside oci.network.vcn, {network.vcn}",
            )


def _on_aws(wanted: Any, asked: Monitoring) -> Iterator[Breach]:
    if asked.read_from and wanted.network.groups is None:
        yield Breach(
            "monitoring.readFrom",
            "is set, but the stack's own security groups let only the login node in; name your own groups in "
            "aws.network.existing.groups",
        )


def _on_kubernetes(_wanted: Any, asked: Monitoring) -> Iterator[Breach]:
    """Yield a refusal if no reader is named, because a cluster of pods has no login node that reads the exporter."""
    if not asked.read_from:
        yield Breach(
            "monitoring.readFrom",
            "is empty, but with target kubernetes no login node reads the exporter; name the network of Prometheus's pods",
        )
