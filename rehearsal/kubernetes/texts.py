"""Texts of files on a rehearsed cluster's machines: for containerd, kubelet, CNI, custom resources and kubeconfigs."""

from __future__ import annotations

import json
from typing import Any

#: The network of all pods; each node gives its pods addresses from a range of its own in this network.
PODS = "10.244.0.0/16"
PAUSE, IMAGE = "registry.rehearsed/pause:3.9", "registry.rehearsed/busbar/pytorch:23.09-py3"
#: Images under the vendors' own names, for clusters in which a stack installs Multus and whereabouts.
MULTUS = "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.4"
WHEREABOUTS_IMAGE = "ghcr.io/k8snetworkplumbingwg/whereabouts:v0.8.0"
CONTAINERD = f"""version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "/etc/kubernetes/runc"
      SystemdCgroup = false
"""
KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: false}, x509: {clientCAFile: /etc/kubernetes/ca.crt}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
failSwapOn: false
resolvConf: ""
clusterDomain: cluster.local
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
nodeStatusUpdateFrequency: 3s
systemReserved: {cpu: 500m, memory: 1Gi}
"""


def kubeconfig(server: str) -> str:
    """Return the kubeconfig of the cluster's administrator, whose certificate and key are in /etc/kubernetes."""
    return f"""apiVersion: v1
kind: Config
clusters: [{{name: rehearsed, cluster: {{server: "{server}", certificate-authority: /etc/kubernetes/ca.crt}}}}]
users: [{{name: admin, user: {{client-certificate: /etc/kubernetes/admin.crt, client-key: /etc/kubernetes/admin.key}}}}]
contexts: [{{name: rehearsed, context: {{cluster: rehearsed, user: admin}}}}]
current-context: rehearsed
"""


def network(number: int) -> dict[str, Any]:
    """Return the configuration of the default network on node `number`."""
    part = {
        "subnet": PODS,
        "rangeStart": f"10.244.{number}.10",
        "rangeEnd": f"10.244.{number}.250",
        "gateway": f"10.244.{number}.1",
    }
    ipam = {"type": "host-local", "ranges": [[part]], "routes": [{"dst": "0.0.0.0/0"}]}
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "hairpinMode": True, "ipam": ipam}
    return {
        "cniVersion": "0.3.1",
        "name": "pods",
        "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
    }


def multus(number: int) -> str:
    """Return Multus's configuration on node `number`, with the default network in it."""
    config = {
        "cniVersion": "0.3.1",
        "name": "multus-cni-network",
        "type": "multus",
        "kubeconfig": "/etc/kubernetes/admin.conf",
        "capabilities": {"portMappings": True},
        "delegates": [network(number)],
    }
    return json.dumps(config)


WHEREABOUTS = json.dumps({"datastore": "kubernetes", "kubernetes": {"kubeconfig": "/etc/kubernetes/admin.conf"}})


def _resource(group: str, version: str, kind: str, plural: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


#: Resource kinds that Multus and whereabouts add to a cluster (in a real cluster, their deployments define these kinds).
RESOURCES = json.dumps(
    {
        "apiVersion": "v1",
        "kind": "List",
        "items": [
            _resource("k8s.cni.cncf.io", "v1", "NetworkAttachmentDefinition", "network-attachment-definitions"),
            _resource("whereabouts.cni.cncf.io", "v1alpha1", "IPPool", "ippools"),
            _resource("whereabouts.cni.cncf.io", "v1alpha1", "OverlappingRangeIPReservation", "overlappingrangeipreservations"),
        ],
    }
)
