"""An existing Kubernetes cluster: one Command applies the stack's objects and waits for pods; destroy removes the objects."""

from __future__ import annotations

import hashlib
from typing import Any

import pulumi

from components import remote_scripts
from components.inventory import Inventory, Launcher, Node, NodeSet, PlannedSet
from components.kubernetes import kubectl_host, operator, secondary_networks
from components.kubernetes.pods import Pods
from components.reach import Reach, last_line
from config.kubernetes.model import SET, Kubernetes
from config.measure import Measure
from manifests import ours, rails, ranks, vendors
from manifests.objects import objects, text


class KubernetesCluster(pulumi.ComponentResource):
    """Pods with GPUs and rails on an existing cluster.

    Creates: one Command on the machine that runs kubectl. In the cluster, the Command creates a namespace, a network definition
    for each rail, a service account with a role, and either an Indexed Job with a headless service or an MPIJob. If the stack
    installs GPU Operator, Multus or whereabouts, a separate Command installs each of these first.
    Outputs: `inventory` (see `components.inventory.Cluster`): one node for each pod, with the name of the Kubernetes node that
    the pod runs on, and the address of the pod. If a pod is replaced, the identity of the set of nodes changes. If
    `measure.run` is raised, the Command looks for the pods again, and recreates missing pods.
    """

    planned: tuple[PlannedSet, ...]
    inventory: pulumi.Output[Inventory]
    reach: Reach

    def __init__(self, name: str, wanted: Kubernetes, measure: Measure, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("busbar:kubernetes:Cluster", name, None, opts)
        host = kubectl_host.of(wanted)
        stack = pulumi.get_stack()
        labels = ours.labels(stack)
        ask = {
            "kubectl": {"kubeconfig": wanted.kubeconfig, "context": wanted.context, "host": host.named},
            "cluster": wanted.folder,
            "namespace": wanted.namespace,
            "pods": ours.selector(stack),
            "rails": [rails.inside(index) for index in range(len(wanted.rails))],
            "gpus": wanted.gpus,
            "devices": list(wanted.devices),
            "rdma": wanted.rdma,
        }
        # These resources provide GPUs and rails, so the objects that use GPUs and rails are applied after them.
        before: list[pulumi.Resource] = []
        if wanted.gpu_operator is not None:
            before = [operator.brought(f"{name}-gpu-operator", wanted, wanted.gpu_operator, host, measure, self)]
        if wanted.secondary_networks is not None:
            before += secondary_networks.brought(name, wanted, wanted.secondary_networks, host, measure, self)
        documents = objects(wanted, stack)
        program = remote_scripts.read("kubernetes_objects").call(ask=ask | _asked(wanted, documents, labels, measure))
        applied = host.run(
            f"{name}-objects",
            create=f"exec {remote_scripts.PYTHON}",
            delete=f"exec {remote_scripts.PYTHON} remove",
            stdin=f"# measurement {measure.run}\n{program}",
            # If the namespace changes, the old objects must be deleted first: new pods find no GPU while the old pods hold all.
            triggers=[wanted.namespace],
            opts=pulumi.ResourceOptions(parent=self, depends_on=before, delete_before_replace=True),
        )
        self.reach = Pods(host, ask, wanted.nodes[0])
        shell = ranks.REMOTE_SHELL if len(wanted.nodes) > 1 else ""
        self.planned = (
            PlannedSet(
                name=SET,
                nodes=len(wanted.nodes),
                shape=None,
                launcher=Launcher(wanted.homes, remote_shell=shell),
                first_boot=False,
                ask=True,
                rails=wanted.devices,
            ),
        )
        self.inventory = applied.stdout.apply(lambda stdout: _inventory(last_line(stdout), wanted.image))
        self.register_outputs({})


def _asked(wanted: Kubernetes, documents: list[dict[str, Any]], labels: dict[str, str], measure: Measure) -> dict[str, Any]:
    """Return the arguments that the program `kubernetes_objects` gets in addition to those in `Pods.ask`."""
    return {
        "server": wanted.server,
        "nodes": list(wanted.nodes),
        "gpu_resource": wanted.gpu_resource,
        "image": wanted.image,
        "labels": labels,
        "way": [ours.WAY, wanted.way],
        "job": ours.JOBS[wanted.job],
        "former": [[kind, ours.RANKS] for kind in ours.FORMER[wanted.job]],
        "template": [ours.TEMPLATE, documents[-1]["metadata"]["annotations"][ours.TEMPLATE]],
        "objects": [[vendors.kind(one), one["metadata"]["name"]] for one in documents],
        "space": text(documents[:1]),
        "manifest": text(documents[1:]),
        "timeout_s": measure.ready_timeout_s,
    }


def _inventory(line: dict[str, Any], image: str) -> Inventory:
    pods = line["pods"]
    nodes = tuple(Node(pod["node"], pod["address"]) for pod in pods)
    known = "\n".join([image, *(f"{pod['node']} {pod['uid']}" for pod in pods)])
    return Inventory((NodeSet(SET, nodes, hashlib.sha256(known.encode()).hexdigest()),))
