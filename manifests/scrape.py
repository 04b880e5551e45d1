"""Prometheus's configuration to scrape a stack's pods. The cluster lists the pods, so that pods created later are scraped, too.

Sources: Prometheus, "Configuration" (kubernetes_sd_config, role `pod`: a container without ports is one target, whose address
comes from relabelling); GPU Operator 24.3 (its dcgm-exporter's pods have the label `app: nvidia-dcgm-exporter`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from manifests import ours

if TYPE_CHECKING:
    from config.kubernetes.model import Kubernetes
    from config.monitoring import Monitoring

#: The namespace in which GPU Operator's documentation installs the operator, and the label of the operator's dcgm-exporter.
_OPERATOR, _DCGM = "gpu-operator", "nvidia-dcgm-exporter"


def scrape(wanted: Kubernetes, asked: Monitoring, stack: str, pool: str) -> str:
    """Return a configuration of Prometheus for the pods of `stack`; the dashboard needs the labels `node` and `pool`."""
    jobs: list[dict[str, Any]] = []
    if asked.exporter:
        kept = [("__meta_kubernetes_pod_container_name", "ranks"), ("__meta_kubernetes_pod_phase", "Running")]
        kept += [(f"__meta_kubernetes_pod_label_{_plain(key)}", value) for key, value in sorted(ours.labels(stack).items())]
        jobs.append(_job("busbar-rdma", wanted.namespace, kept, asked.port, pool))
    if asked.dcgm_port is not None:
        # dcgm-exporter is scraped in its pods on the stack's nodes: its numbers belong to the node, not to the ranks' pod.
        nodes = "|".join(map(re.escape, wanted.nodes))
        kept = [("__meta_kubernetes_pod_label_app", _DCGM), ("__meta_kubernetes_pod_node_name", nodes)]
        jobs.append(_job("dcgm", _OPERATOR, kept, asked.dcgm_port, pool))
    if asked.switches:
        static = [{"targets": list(asked.switches), "labels": {"pool": pool}}]
        jobs.append({"job_name": "switches", "scrape_interval": "15s", "static_configs": static})
    return str(yaml.safe_dump({"scrape_configs": jobs}, sort_keys=False, width=10**6))


def _job(name: str, namespace: str, kept: list[tuple[str, str]], port: int, pool: str) -> dict[str, Any]:
    return {
        "job_name": name,
        "scrape_interval": "15s",
        "kubernetes_sd_configs": [{"role": "pod", "namespaces": {"names": [namespace]}}],
        "relabel_configs": [
            *({"source_labels": [label], "regex": value, "action": "keep"} for label, value in kept),
            {"source_labels": ["__meta_kubernetes_pod_ip"], "replacement": f"$1:{port}", "target_label": "__address__"},
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
            {"replacement": pool, "target_label": "pool"},
        ],
    }


def _plain(name: str) -> str:
    """Return a Kubernetes label's name as in Prometheus's labels: every character but a letter or digit becomes `_`."""
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)
