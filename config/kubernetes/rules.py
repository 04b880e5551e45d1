"""Rules about an existing Kubernetes cluster: nodes, rails and their addresses."""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

from config.kubernetes.model import Kubernetes
from config.rule import ERROR, Breach, Finding, Rule, check, rule


@rule("nodes-named", ERROR, "one pod on each node", guard=True)
def nodes_named(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """No nodes, or a node that is listed twice."""
    if not wanted.nodes:
        yield Breach("kubernetes.nodes", "is empty; name at least one node that has GPUs")
    for name in sorted({name for name in wanted.nodes if wanted.nodes.count(name) > 1}):
        yield Breach("kubernetes.nodes", f"has {name} twice; list every node once")


@rule("host-keys", ERROR, "sshd(8), SSH_KNOWN_HOSTS FILE FORMAT; nothing is trusted on first use", guard=True)
def host_keys(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """A control plane's host or a jump host without a pinned key."""
    for address in dict.fromkeys(wanted.addresses):
        try:
            wanted.host_key(address)
        except ValueError as error:
            yield Breach("kubernetes.knownHosts", str(error))


@rule("kubectl-here", ERROR, "a kubeconfig's current context is whatever its owner last worked with", guard=True)
def kubectl_here(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """If kubectl runs on this machine: a missing `server`, a jump host, or a kubeconfig that does not exist."""
    if wanted.control_plane is not None:
        return
    if wanted.server is None:
        yield Breach(
            "kubernetes.server",
            "is not set, and neither is kubernetes.controlPlane, so kubectl here would change any cluster that its "
            "kubeconfig happens to name now; name the API server, as `kubectl cluster-info` shows it",
        )
    if wanted.jump is not None:
        yield Breach(
            "kubernetes.jump",
            f"is {wanted.jump}, but kubernetes.controlPlane is not set, so nothing is reached over SSH; leave jump out",
        )
    if wanted.kubeconfig is not None and not Path(wanted.kubeconfig).expanduser().is_file():
        yield Breach(
            "kubernetes.kubeconfig",
            f"is {wanted.kubeconfig}, but this machine has no such file; without kubernetes.controlPlane, kubectl runs here "
            "and needs the file",
        )


@rule("rails-between", ERROR, "a measurement between nodes is judged by the rate of its rails", guard=True)
def rails_between(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """Several nodes, but no rails, or rails with keys that contradict each other."""
    if len(wanted.nodes) > 1 and not wanted.rails:
        yield Breach(
            "kubernetes.rails", f"is empty, but {len(wanted.nodes)} nodes are measured; name the interfaces of the fabric"
        )
    for key in ("interface", "device", "pci"):
        values = [value for rail in wanted.rails if (value := getattr(rail, key))]
        for value in sorted({value for value in values if values.count(value) > 1}):
            yield Breach("kubernetes.rails", f"has {key} {value} twice; name each {key} once")
    for index, rail in enumerate(wanted.rails):
        path = f"kubernetes.rails[{index}]"
        if wanted.devices and not rail.device:
            yield Breach(
                f"{path}.device", "is not set, but other rails have a device; NCCL uses RDMA devices or sockets, not both"
            )
        if rail.pci and not rail.device:
            yield Breach(f"{path}.pci", "is set, but device is not; rdma-cni moves an RDMA device, so name the device")
        if rail.pci and wanted.rdma == "shared":
            yield Breach(
                f"{path}.pci", "is set, but kubernetes.rdma is shared; rdma-cni moves devices only if rdma is exclusive"
            )
    if wanted.rdma_resource and not wanted.devices:
        yield Breach("kubernetes.rdmaResource", "is set, but no rail has a device; name the devices, or leave this key out")


@rule("rail-addresses", ERROR, "whereabouts: each pod gets one address of the range, never the first or last", guard=True)
def rail_addresses(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """Ranges with too few addresses, or ranges that overlap."""
    networks = [ipaddress.IPv4Network(rail.range) for rail in wanted.rails]
    for index, network in enumerate(networks):
        usable = max(network.num_addresses - 2, 0)
        if usable < len(wanted.nodes):
            yield Breach(
                f"kubernetes.rails[{index}].range",
                f"is {network}, which has addresses for {usable} pods, but there are {len(wanted.nodes)} nodes with one pod "
                "each; take a wider range",
            )
    for (first, one), (second, other) in combinations(enumerate(networks), 2):
        if one.overlaps(other):
            yield Breach(
                f"kubernetes.rails[{second}].range",
                f"is {other}, which overlaps kubernetes.rails[{first}].range, {one}; every rail needs a network of its own",
            )


@rule("gpu-operator", ERROR, "a chart is code that runs with every right on the nodes", guard=True)
def gpu_operator(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """A chart that differs from the pinned chart, or an operator in the namespace of the pods."""
    operator = wanted.gpu_operator
    if operator is None:
        return
    found = hashlib.sha256(Path(operator.chart).expanduser().read_bytes()).hexdigest()
    if found != operator.sha256:
        yield Breach(
            "kubernetes.gpuOperator.sha256",
            f"is {operator.sha256}, but {operator.chart} has {found}; the archive was changed, or is of another version",
        )
    if operator.namespace == wanted.namespace:
        yield Breach(
            "kubernetes.gpuOperator.namespace",
            f"is {operator.namespace}, which is kubernetes.namespace too; give the operator a namespace of its own",
        )


@rule("secondary-networks", ERROR, "Multus changes how every pod of every node gets its network", guard=True)
def secondary_networks(wanted: Kubernetes, _facts: None) -> Iterator[Breach]:
    """`secondaryNetworks` although pods have no rail, or the same software twice in `install`."""
    asked = wanted.secondary_networks
    if asked is None:
        return
    if not wanted.rails:
        yield Breach(
            "kubernetes.secondaryNetworks",
            "is set, but kubernetes.rails is empty, so no pod would use the installed software; leave the key out",
        )
    for name in sorted({name for name in asked.install if asked.install.count(name) > 1}):
        yield Breach("kubernetes.secondaryNetworks.install", f"has {name} twice; name it once")


RULES: dict[str, Rule[Kubernetes, None]] = {
    one.id: one
    for one in (nodes_named, host_keys, kubectl_here, rails_between, rail_addresses, gpu_operator, secondary_networks)
}


def findings(wanted: Kubernetes, _region: str | None) -> tuple[Finding, ...]:
    """Return what is wrong with the cluster."""
    return check(RULES, wanted, None)


#: Rules that need other groups of the stack file besides `kubernetes`: there are none.
STACK_RULES: dict[str, Rule[Any, None]] = {}
