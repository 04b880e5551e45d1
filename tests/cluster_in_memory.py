"""A Kubernetes cluster in memory, as kubectl shows it, for tests of programs that call kubectl; no process is started."""

from __future__ import annotations

import json
from typing import Any

import yaml

from components.remote_scripts.kubectl import Answer, Kubectl
from config.kubernetes.model import Kubernetes
from manifests import objects, ours, vendors

RAIL = {"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/30"}
WANTED = Kubernetes(
    control_plane="root@10.138.61.49", nodes=("gpu0", "gpu1"), gpus=1, rails=(RAIL,), image="registry.example/pytorch:23.09"
)
OBJECTS = objects.objects(WANTED, "k8s")
LABELS = ours.labels("k8s")
ASK: dict[str, Any] = {
    "kubectl": {"kubeconfig": None, "context": None, "host": "the control plane's host"},
    "server": "https://10.138.61.49:6443",
    "namespace": "busbar",
    "nodes": ["gpu0", "gpu1"],
    "gpus": 1,
    "gpu_resource": "nvidia.com/gpu",
    "rails": ["net1"],
    "devices": ["irdma0"],
    "rdma": "exclusive",
    "image": WANTED.image,
    "labels": LABELS,
    "way": [ours.WAY, WANTED.way],
    "pods": ours.selector("k8s"),
    "job": "job.batch",
    "former": [["mpijob.kubeflow.org", "busbar-ranks"]],
    "template": [ours.TEMPLATE, OBJECTS[-1]["metadata"]["annotations"][ours.TEMPLATE]],
    "objects": [[vendors.kind(one), one["metadata"]["name"]] for one in OBJECTS],
    "space": objects.text(OBJECTS[:1]),
    "manifest": objects.text(OBJECTS[1:]),
    "timeout_s": 0.05,
}


def node(name: str, *, ready: str = "True", gpus: str = "1", cordoned: bool = False) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "message": "container runtime network not ready"}]
    status = {"conditions": conditions, "allocatable": {"nvidia.com/gpu": gpus}}
    return {"kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True} if cordoned else {}, "status": status}


def pod(at: int, *, uid: str = "", phase: str = "Running", rail: str = "10.100.100.1", **status: Any) -> dict[str, Any]:
    held = [{"name": "cbr0", "interface": "eth0", "ips": [f"10.244.{at}.7"]}]
    held += [{"name": "busbar/busbar-rail0", "interface": "net1", "ips": [rail]}] if rail else []
    annotations = {"k8s.v1.cni.cncf.io/network-status": json.dumps(held)}
    found = {"phase": phase, "podIP": f"10.244.{at}.7", "conditions": [{"type": "Ready", "status": "True"}]}
    metadata = {"name": f"busbar-ranks-{at}-x", "uid": uid or f"u{at}", "labels": LABELS, "annotations": annotations}
    return {
        "kind": "Pod",
        "metadata": metadata | {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": f"gpu{at}"},
        "status": found | status,
    }


class Cluster(Kubectl):
    """kubectl over objects in memory; pods appear when the Job is applied.

    Attributes:
        calls: the words of every call, in order.
        denied: the permissions that `auth can-i` denies.
        readiness: the API server's report on itself.
        groups: API groups that the cluster knows.
        kinds: the kinds of objects that a namespace can contain, as `api-resources` names them.
        warnings: events of the object that creates the pods.
        unused: in this many look-ups, custom resource definitions have no status, as if they were not in use yet.
        wrong: answers that replace the usual answers, by the first word or the first two words of a call.
        inner: (part, answer): `answer` is for shell commands in a pod that contain `part`; the first match counts.
    """

    def __init__(self) -> None:
        self.program, self.words, self.host = "/bin/true", ["kubectl"], "the control plane's host"
        self.calls: list[tuple[str, ...]] = []
        self.server, self.readiness = "https://10.138.61.49:6443", Answer(0, "ok", "")
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.nodes = [node("master0", gpus="0"), node("gpu0"), node("gpu1")]
        self.pods: list[dict[str, Any]] = []
        self.coming = [pod(0), pod(1, rail="10.100.100.2")]
        self.events: list[dict[str, Any]] = []
        self.warnings: list[dict[str, Any]] = []
        self.denied: set[str] = set()
        self.unused = 0
        self.groups = {"k8s.cni.cncf.io", "whereabouts.cni.cncf.io"}
        self.kinds = {
            "configmaps",
            "cronjobs.batch",
            "events",
            "jobs.batch",
            "pods",
            "secrets",
            "serviceaccounts",
            "widgets.example",
        }
        self.inner: list[tuple[str, Answer]] = []
        self.wrong: dict[str, Answer] = {}

    def __call__(self, *words: str, stdin: Any = b"", timeout_s: float = 0) -> Answer:  # noqa: ARG002 - as in Kubectl
        """Answer as kubectl would."""
        self.calls.append(words)
        for said in (words[0], " ".join(words[:2])):
            if said in self.wrong:
                return self.wrong[said]
        if words[0] == "exec":
            return self.run(words[1:], stdin)
        return getattr(self, "_" + words[0].replace("-", "_"))(words[1:], stdin)

    def opened(self, found_by: dict[str, Any], namespace: str) -> Cluster:
        """Stand in for the function that opens a cluster: check its arguments and return this cluster."""
        assert {"kubeconfig", "context", "host"} <= found_by.keys()
        assert isinstance(namespace, str)
        return self

    def verbs(self) -> list[str]:
        """Return the first word of every call."""
        return [words[0] for words in self.calls]

    def _config(self, _words: tuple[str, ...], _stdin: Any) -> Answer:
        return Answer(0, self.server, "")

    def _api_resources(self, words: tuple[str, ...], _stdin: Any) -> Answer:
        if "--output=name" in words:
            return Answer(0, "\n".join(sorted(self.kinds)) + "\n", "")
        group = words[0].partition("=")[2]
        lines = {"kubeflow.org": "mpijobs  mj  kubeflow.org/v2beta1  true  MPIJob\n"}
        return Answer(0, lines.get(group, "some things\n") if group in self.groups else "", "")

    def _auth(self, words: tuple[str, ...], _stdin: Any) -> Answer:
        denied = " ".join(words[1:]) in self.denied
        return Answer(int(denied), "no" if denied else "yes", "")

    def _get(self, words: tuple[str, ...], _stdin: Any) -> Answer:
        if words[0] == "--raw":
            return self.readiness
        of_job = words[-1] == "--ignore-not-found" and any(
            word.startswith("involvedObject.name=busbar-ranks") for word in words
        )
        lists = {"nodes": self.nodes, "pods": self.pods, "events": self.warnings if of_job else self.events}
        if words[0] in lists:
            return Answer(0, json.dumps({"items": lists[words[0]]}), "")
        if "," in words[0]:
            asked = words[0].split(",")
            found = [
                one for (kind, _), one in self.objects.items() if kind.replace(".", "s.", 1) in asked or f"{kind}s" in asked
            ]
            return Answer(0, json.dumps({"items": found}), "")
        found = self.objects.get((words[0], words[1]))
        if found and words[0].startswith("customresourcedefinition"):
            conditions = [{"type": "Established", "status": "True"}] if self.unused <= 0 else None
            self.unused, found = self.unused - 1, found | {"status": {"conditions": conditions}}
        return Answer(0, json.dumps(found) if found else "", "")

    def _apply(self, _words: tuple[str, ...], stdin: Any) -> Answer:
        for each in yaml.safe_load_all(stdin):
            group, slash, _ = each["apiVersion"].partition("/")
            kind = each["kind"].lower() + (f".{group}" if slash else "")
            self.objects[kind, each["metadata"]["name"]] = each
        self.pods = self.coming
        return Answer(0, "", "")

    def _delete(self, words: tuple[str, ...], _stdin: Any) -> Answer:
        for kind, name in list(self.objects):
            if kind == words[0] and (words[1] in {name, "--selector"}):
                del self.objects[kind, name]
        self.pods = [one for one in self.pods if words[:2] != ("pod", one["metadata"]["name"])]
        return Answer(0, "", "")

    def run(self, words: tuple[str, ...], _stdin: Any) -> Answer:
        """Answer a shell command in a pod."""
        return next((answer for part, answer in self.inner if part in words[-1]), Answer(0, "", ""))
