"""Installs GPU Operator: this machine renders a pinned chart, so that a preview shows the objects, and kubectl applies them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pulumi

from components.kubernetes.kubectl_host import KubectlHost
from components.kubernetes.vendors_manifest import Part, applied
from config.kubernetes.model import GpuOperator, Kubernetes
from config.measure import Measure
from manifests import operator, vendors

#: Name of the Helm release in the chart's objects.
_RELEASE = "gpu-operator"
_RENDER_S = 120
_PART = Part("gpu-operator", "kubernetes_operator")


def brought(  # noqa: PLR0913, PLR0917 - what to apply, and where
    name: str, wanted: Kubernetes, asked: GpuOperator, host: KubectlHost, measure: Measure, parent: pulumi.Resource
) -> pulumi.Resource:
    """Register the Command that applies the operator's objects."""
    try:
        found = operator.documents(rendered(asked), asked.namespace, _PART.labels, wanted.way)
    except ValueError as error:
        raise pulumi.RunError(f"kubernetes.gpuOperator.chart is {asked.chart}, and {error}") from None
    pulumi.log.info(f"GPU Operator comes with {vendors.summary(found)}", parent)
    ask = {"namespace": asked.namespace, "gpus": wanted.gpus, "gpu_resource": wanted.gpu_resource}
    return applied(name, _PART, found, ask, wanted, host, measure, parent)


def rendered(asked: GpuOperator) -> str:
    """Return the output of `helm template` for the chart; helm contacts no cluster.

    Raises:
        pulumi.RunError: helm is not installed, or helm refuses the chart or the values.
    """
    helm = shutil.which("helm")
    if helm is None:
        raise pulumi.RunError(
            "kubernetes.gpuOperator is set, but this machine has no helm, which renders the chart for the preview; install "
            "Helm 3, or install the operator yourself and leave the key out."
        )
    chart = str(Path(asked.chart).expanduser())
    words = [helm, "template", _RELEASE, chart, "--namespace", asked.namespace, "--include-crds", "--no-hooks", "--values", "-"]
    try:
        # No repository, plugin or registry of the user's own Helm configuration may change the objects.
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
        done = subprocess.run(
            words, input=json.dumps(asked.values), capture_output=True, text=True, timeout=_RENDER_S, check=False, env=kept
        )
    except subprocess.TimeoutExpired:
        raise pulumi.RunError(f"kubernetes.gpuOperator.chart: helm template did not end within {_RENDER_S} s.") from None
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["helm printed no message"])[-1]
        raise pulumi.RunError(f"kubernetes.gpuOperator.chart is {asked.chart}, which helm cannot render: {why}.")
    return done.stdout
