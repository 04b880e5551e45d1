"""Installs a vendor's manifest: copies it to the machine that runs kubectl, where a Command applies or removes it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import pulumi

from components import remote_scripts
from components.kept_programs import kept
from components.kubernetes.kubectl_host import KubectlHost
from config.kubernetes.model import Kubernetes
from config.measure import Measure
from manifests import objects, ours, vendors


@dataclass(frozen=True)
class Part:
    """A vendor's manifest, such as GPU Operator's.

    Attributes:
        name: part of file names and labels.
        program: the program of `components/remote_scripts` that applies and removes the manifest.
    """

    name: str
    program: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the manifest's objects.

        The ranks' objects have other labels, so removing the ranks' objects keeps the manifest's objects.
        """
        mine = ours.labels(pulumi.get_stack())["app.kubernetes.io/instance"]
        return {"app.kubernetes.io/instance": mine, "app.kubernetes.io/part-of": f"busbar-{self.name}"}


def applied(  # noqa: PLR0913, PLR0917 - what to apply, and where
    name: str,
    part: Part,
    found: list[dict[str, Any]],
    ask: dict[str, Any],
    wanted: Kubernetes,
    host: KubectlHost,
    measure: Measure,
    parent: pulumi.Resource,
) -> pulumi.Resource:
    """Register the Command that applies a manifest's objects, `found`.

    `ask` has the arguments of the program that other parts' programs do not get.
    """
    text = objects.text(found)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    there = f"busbar-{part.name}-{digest}.yaml"
    mine = pulumi.ResourceOptions(parent=parent)
    copied = host.copy(f"{name}-manifest", file=kept(text.encode(), there), there=there, triggers=[digest], opts=mine)
    told = {
        "kubectl": {"kubeconfig": wanted.kubeconfig, "context": wanted.context, "host": host.named},
        "server": wanted.server,
        "file": there,
        "definitions": [one["metadata"]["name"] for one in found if one["kind"] == "CustomResourceDefinition"],
        "objects": [[vendors.kind(one), one["metadata"]["name"], one["metadata"].get("namespace", "")] for one in found],
        "labels": part.labels,
        "way": [ours.WAY, wanted.way],
        "nodes": list(wanted.nodes),
        "timeout_s": measure.ready_timeout_s,
    }
    return host.run(
        name,
        create=f"exec {remote_scripts.PYTHON}",
        delete=f"exec {remote_scripts.PYTHON} remove",
        stdin=remote_scripts.read(part.program).call(ask=told | ask),
        opts=pulumi.ResourceOptions(parent=parent, depends_on=[copied] if copied else []),
    )
