"""The Kubernetes objects that one stack's ranks need, in the order in which kubectl applies them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from manifests import ours, rails, ranks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from config.kubernetes.model import Kubernetes


def objects(wanted: Kubernetes, stack: str) -> list[dict[str, Any]]:
    """Return every object that the ranks of `stack` need in the cluster, first the namespace; each has the stack's labels."""
    labels = ours.labels(stack)
    chosen = labels | {"app.kubernetes.io/component": "ranks"}
    metadata = {"namespace": wanted.namespace, "labels": labels}
    return [
        _namespace(wanted, labels),
        *(rails.definition(index, rail, metadata) for index, rail in enumerate(wanted.rails)),
        *ranks.rights(metadata, wanted.way),
        *ranks.jobs(wanted, metadata, chosen),
    ]


def _namespace(wanted: Kubernetes, labels: dict[str, str]) -> dict[str, Any]:
    # If the cluster enforces Pod Security Standards, pods with RDMA need `privileged`: `baseline` forbids them to lock memory.
    level = "privileged" if wanted.devices else "baseline"
    allowed = {"pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": wanted.namespace, "labels": labels | allowed}}


class _Whole(yaml.SafeDumper):
    """Writes repeated values in full, because anchors are hard to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - pyyaml's own
        return True


def text(documents: Sequence[dict[str, Any]]) -> str:
    """Return objects as one YAML text for kubectl."""
    return str(yaml.dump_all(documents, Dumper=_Whole, sort_keys=False, width=10**6))
