"""GPU Operator by a pinned chart: rendered on this machine, so that a preview shows what comes, and applied by kubectl."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pulumi

from components import remote_scripts
from components.kept_programs import kept
from components.kubernetes.kubectl_host import KubectlHost
from config.kubernetes.model import GpuOperator, Kubernetes
from config.measure import Measure
from manifests import objects, operator, ours

#: The release's name in the objects of the chart.
_RELEASE = "gpu-operator"
_RENDER_S = 120
#: Label of an operator's objects beside the stack's: destroying the pods' objects must not find them, nor the other way round.
_PART = {"app.kubernetes.io/part-of": "busbar-gpu-operator"}


def brought(  # noqa: PLR0913, PLR0917 - what it is made of, and where it goes
    name: str, wanted: Kubernetes, asked: GpuOperator, host: KubectlHost, measure: Measure, parent: pulumi.Resource
) -> pulumi.Resource:
    """Register the operator: a copy of its manifest on the machine of kubectl, and the Command that applies or removes it."""
    mine = pulumi.ResourceOptions(parent=parent)
    labels = {"app.kubernetes.io/instance": ours.labels(pulumi.get_stack())["app.kubernetes.io/instance"], **_PART}
    try:
        found = operator.documents(rendered(asked), asked.namespace, labels, wanted.way)
    except ValueError as error:
        raise pulumi.RunError(f"kubernetes.gpuOperator.chart is {asked.chart}, and {error}") from None
    pulumi.log.info(f"GPU Operator comes with {len(found)} objects: {operator.summary(found)}", parent)
    text = objects.text(found)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    there = f"busbar-gpu-operator-{digest}.yaml"
    copied = host.copy(f"{name}-manifest", file=kept(text.encode(), there), there=there, triggers=[digest], opts=mine)
    ask = {
        "kubectl": {"kubeconfig": wanted.kubeconfig, "context": wanted.context, "host": host.named},
        "namespace": asked.namespace,
        "file": there,
        "definitions": [one["metadata"]["name"] for one in found if one["kind"] == "CustomResourceDefinition"],
        "objects": [[_kind(one), one["metadata"]["name"], one["metadata"].get("namespace", "")] for one in found],
        "labels": labels,
        "way": [ours.WAY, wanted.way],
        "nodes": list(wanted.nodes),
        "gpus": wanted.gpus,
        "gpu_resource": wanted.gpu_resource,
        "timeout_s": measure.ready_timeout_s,
    }
    return host.run(
        name,
        create=f"exec {remote_scripts.PYTHON}",
        delete=f"exec {remote_scripts.PYTHON} remove",
        stdin=remote_scripts.read("kubernetes_operator").call(ask=ask),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[copied] if copied else []),
    )


def rendered(asked: GpuOperator) -> str:
    """Return what `helm template` makes of the chart, without a cluster.

    Raises:
        pulumi.RunError: there is no helm, or it refuses chart or values.
    """
    helm = shutil.which("helm")
    if helm is None:
        raise pulumi.RunError(
            "kubernetes.gpuOperator is set, and this machine has no helm, which renders the chart for the preview; install "
            "Helm 3, or install the operator yourself and leave the key out."
        )
    chart = str(Path(asked.chart).expanduser())
    words = [helm, "template", _RELEASE, chart, "--namespace", asked.namespace, "--include-crds", "--no-hooks", "--values", "-"]
    try:
        # Nothing of the user's own: no repository, plugin or registry of theirs may change what comes.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        done = subprocess.run(
            words, input=json.dumps(asked.values), capture_output=True, text=True, timeout=_RENDER_S, check=False, env=kept
        )
    except subprocess.TimeoutExpired:
        raise pulumi.RunError(f"kubernetes.gpuOperator.chart: helm template did not end within {_RENDER_S} s.") from None
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise pulumi.RunError(f"kubernetes.gpuOperator.chart is {asked.chart}, which helm does not render: {why}.")
    return done.stdout


def _kind(one: dict[str, Any]) -> str:
    group, slash, _ = one["apiVersion"].partition("/")
    kind = one["kind"].lower()
    return f"{kind}.{group}" if slash else kind
