"""Refuses readers of the exporter that the cluster's own network would block."""

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
    """Readers of the exporter that the cluster's own network would block."""
    breaches = {"oci": _on_oci, "aws": _on_aws, "kubernetes": _on_kubernetes}.get(stack.target)
    if breaches is not None and stack.monitoring.exporter:
        yield from breaches(stack.wanted, stack.monitoring)


def _on_oci(wanted: Any, asked: Monitoring) -> Iterator[Breach]:
    """Yield readers that the private subnet's security list blocks; the rules of existing subnets are not known here."""
    network = wanted.network
    if network.existing is not None:
        return
    if network.ingress != "all":
        yield Breach("monitoring.exporter", "is true, but oci.network.ingress is ssh, so nobody could read it; set that to all")
    for index, cidr in enumerate(asked.read_from):
        if not is_inside(cidr, ipaddress.IPv4Network(network.vcn)):
            yield Breach(
                f"monitoring.readFrom[{index}]",
                f"is {cidr}, and nodes take in nothing from outside oci.network.vcn, {network.vcn}",
            )


def _on_aws(wanted: Any, asked: Monitoring) -> Iterator[Breach]:
    if asked.read_from and wanted.network.groups is None:
        yield Breach(
            "monitoring.readFrom",
            "is set, but the stack's own security groups let only the login node in; name yours in aws.network.groups",
        )


def _on_kubernetes(_wanted: Any, asked: Monitoring) -> Iterator[Breach]:
    """Yield that there can be no readers: a cluster of pods has no login node."""
    if not asked.read_from:
        yield Breach(
            "monitoring.readFrom",
            "is empty, and target is kubernetes, where no login node reads; name the network of the pods that Prometheus is in",
        )
