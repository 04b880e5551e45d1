"""GPU Operator from a chart: helm's output is labelled and ordered, foreign objects stay unchanged, faults are named."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulumi
import pytest
import yaml
from cluster_in_memory import Cluster, node

from components.kubernetes import operator as brings
from components.remote_scripts import kubernetes_manifest, kubernetes_operator
from components.remote_scripts.kubectl import Answer
from config.kubernetes.model import GpuOperator
from manifests import objects, operator, ours, vendors

LABELS = {"app.kubernetes.io/instance": "k8s", "app.kubernetes.io/part-of": "busbar-gpu-operator"}
#: Some objects like those of chart 24.3.0, not in the order in which they must be applied.
RENDERED = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy, labels: {app.kubernetes.io/instance: gpu-operator, helm.sh/chart: gpu-operator-v24.3.0}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: gpu-operator, namespace: gpu-operator}
spec: {template: {metadata: {labels: {app.kubernetes.io/instance: gpu-operator}}}}
---
# a template that rendered to nothing
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterpolicies.nvidia.com}
---
apiVersion: batch/v1
kind: Job
metadata: {name: cleanup, annotations: {helm.sh/hook: pre-delete}}
"""


def found() -> list[dict[str, Any]]:
    return operator.documents(RENDERED, "gpu-operator", LABELS, "this-machine")


def test_hooks_of_helm_are_left_out_and_the_order_is_namespace_then_definitions_then_others_then_custom_objects():
    assert [one["kind"] for one in found()] == ["Namespace", "CustomResourceDefinition", "Deployment", "ClusterPolicy"]
    assert vendors.summary(found()) == "4 objects: 1 Namespace, 1 CustomResourceDefinition, 1 Deployment, 1 ClusterPolicy"


def test_every_object_gets_the_stacks_labels_while_its_pods_keep_the_labels_of_the_chart():
    for one in found():
        assert LABELS.items() <= one["metadata"]["labels"].items()
    policy = found()[-1]
    assert policy["metadata"]["labels"]["helm.sh/chart"] == "gpu-operator-v24.3.0"
    pods = found()[2]["spec"]["template"]["metadata"]["labels"]
    assert pods == {"app.kubernetes.io/instance": "gpu-operator"}, "the operator finds its pods by these labels"


@pytest.mark.parametrize("text", ["- a list", "kind: Pod", "just text"])
def test_a_document_of_the_chart_that_is_no_object_is_refused_with_its_number(text):
    with pytest.raises(ValueError, match="document 2 of the rendered chart is no object of Kubernetes"):
        operator.documents(f"{RENDERED.split('---', maxsplit=1)[0]}---\n{text}\n", "gpu-operator", LABELS, "this-machine")


# helm


@pytest.fixture
def asked(tmp_path) -> GpuOperator:
    chart = tmp_path / "gpu-operator-v24.3.0.tgz"
    chart.write_bytes(b"chart")
    return GpuOperator(chart=str(chart), sha256="0" * 64, values={"toolkit": {"version": "v1.15.0-ubi8"}})


def helm(tmp_path: Path, patch: pytest.MonkeyPatch, script: str) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "helm").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "helm").chmod(0o755)
    patch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_chart_is_rendered_with_the_stack_files_values_and_without_the_users_helm_settings(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("HELM_PLUGINS", "/theirs")
    helm(
        tmp_path,
        monkeypatch,
        'echo "words: [$*]" | tr -d ","; printf "values: "; cat; echo; echo "plugins: \\"$HELM_PLUGINS\\""',
    )
    said = yaml.safe_load(brings.rendered(asked).replace("words: [", "words: '[").replace("-]", "-]'"))
    assert said["words"] == (
        f"[template gpu-operator {asked.chart} --namespace gpu-operator --include-crds --no-hooks --values -]"
    )
    assert (said["values"], said["plugins"]) == (asked.values, "")


def test_a_chart_is_refused_on_a_machine_without_helm(asked, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pulumi.RunError, match=r"^kubernetes\.gpuOperator is set, but this machine has no helm, which renders"):
        brings.rendered(asked)


def test_a_chart_that_helm_cannot_render_is_refused_with_helms_reason(asked, tmp_path, monkeypatch):
    helm(tmp_path, monkeypatch, "echo 'WARNING: x' >&2; echo 'Error: file does not appear to be a gzipped archive' >&2; exit 1")
    with pytest.raises(pulumi.RunError, match="which helm cannot render: Error: file does not appear to be a gzipped archive"):
        brings.rendered(asked)


# On the control plane's host

TEXT = objects.text(found())
ASK: dict[str, Any] = {
    "kubectl": {"kubeconfig": None, "context": None, "host": "this machine"},
    "server": None,
    "way": [ours.WAY, "this-machine"],
    "namespace": "gpu-operator",
    "file": "busbar-gpu-operator-1.yaml",
    "definitions": ["clusterpolicies.nvidia.com"],
    "objects": [
        ["namespace", "gpu-operator", ""],
        ["customresourcedefinition.apiextensions.k8s.io", "clusterpolicies.nvidia.com", ""],
        ["deployment.apps", "gpu-operator", "gpu-operator"],
        ["clusterpolicy.nvidia.com", "cluster-policy", ""],
    ],
    "labels": LABELS,
    "nodes": ["gpu0", "gpu1"],
    "gpus": 1,
    "gpu_resource": "nvidia.com/gpu",
    "timeout_s": 0.05,
}


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Cluster:
    made = Cluster()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ASK["file"]).write_text(TEXT)
    monkeypatch.setattr(kubernetes_operator, "Kubectl", made.opened)
    monkeypatch.setattr(kubernetes_operator, "_PAUSE_S", 0)
    monkeypatch.setattr(sys, "argv", ["-"])
    return made


def test_custom_resource_definitions_are_established_before_other_objects_are_applied(cluster, capsys):
    cluster.unused = 2
    kubernetes_operator.main(ASK)
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "kind": "gpu-operator", "gpus": {"gpu0": 1, "gpu1": 1}}
    told = [words[0] for words in cluster.calls if words[0] == "apply" or "clusterpolicies.nvidia.com" in words]
    assert told == ["get", "apply", "get", "get", "get", "apply"], (
        "one get looks for a foreign definition; three wait for the new one"
    )
    assert {kind for kind, _ in cluster.objects} == {kind for kind, _, _ in ASK["objects"]}
    assert not [words for words in cluster.calls if "--force-conflicts" in words]


def test_only_namespaces_and_definitions_are_applied_before_the_whole_manifest(cluster, monkeypatch):
    applied, usual = [], cluster._apply  # noqa: SLF001
    monkeypatch.setattr(cluster, "_apply", lambda words, stdin: applied.append(stdin) or usual(words, stdin))
    kubernetes_operator.main(ASK)
    kinds = [[one["kind"] for one in yaml.safe_load_all(text)] for text in applied]
    assert kinds == [["Namespace", "CustomResourceDefinition"], [one["kind"] for one in found()]]


def test_a_definition_that_the_cluster_never_establishes_is_named(cluster, monkeypatch):
    monkeypatch.setattr("components.remote_scripts.kubernetes_manifest._ESTABLISHED_S", 0.05)
    cluster.unused = 10**6
    with pytest.raises(
        SystemExit,
        match=r"^the cluster did not establish GPU Operator's custom resource definition clusterpolicies\.nvidia\.com within",
    ):
        kubernetes_operator.main(ASK)


def test_nothing_is_applied_to_a_cluster_other_than_the_cluster_in_the_stack_file(cluster):
    with pytest.raises(SystemExit, match=r"^kubernetes\.server is https://10\.9\.9\.9:6443, but the kubeconfig on"):
        kubernetes_operator.main(ASK | {"server": "https://10.9.9.9:6443"})
    assert not cluster.objects


def test_an_operator_that_the_stack_did_not_install_is_refused_and_left_unchanged(cluster):
    theirs = {"kind": "Deployment", "metadata": {"name": "gpu-operator", "labels": {"app": "gpu-operator"}}}
    cluster.objects["deployment.apps", "gpu-operator"] = theirs
    with pytest.raises(
        SystemExit, match=r"the cluster already has a GPU Operator, which was not changed \(deployment\.apps gpu-operator\)"
    ):
        kubernetes_operator.main(ASK)
    assert "apply" not in cluster.verbs()


@pytest.mark.parametrize(("number", "more"), [(4, ""), (5, " and 1 more"), (6, " and 2 more")])
def test_four_foreign_objects_are_named_and_the_others_are_counted(number, more):
    known = SimpleNamespace(known=lambda *_: {"metadata": {}})
    asked = {"objects": [["pod", f"p{one}", ""] for one in range(number)], "labels": LABELS}
    assert kubernetes_manifest.foreign_objects(known, asked) == f"pod p0, pod p1, pod p2, pod p3{more}"


def test_objects_are_looked_up_in_their_namespaces_and_without_a_namespace_in_the_whole_cluster():
    asked = []
    known = SimpleNamespace(known=lambda *words: asked.append(words))
    assert kubernetes_manifest.foreign_objects(known, ASK) == ""
    assert asked[1:3] == [
        ("customresourcedefinition.apiextensions.k8s.io", "clusterpolicies.nvidia.com"),
        ("deployment.apps", "gpu-operator", "--namespace", "gpu-operator"),
    ]


def test_nodes_that_never_offer_gpus_are_named_with_the_reason_why_the_operators_pods_wait(cluster):
    cluster.nodes = [node("gpu0"), node("gpu1", gpus="0")]
    waiting = {"reason": "ImagePullBackOff", "message": "Back-off pulling image nvcr.io/nvidia/driver:550.54.15"}
    cluster.coming = [
        {
            "kind": "Pod",
            "metadata": {"name": "nvidia-driver-daemonset-x"},
            "status": {"phase": "Pending", "initContainerStatuses": [{"state": {"waiting": waiting}}]},
        }
    ]
    with pytest.raises(SystemExit) as ended:
        kubernetes_operator.main(ASK)
    assert str(ended.value) == (
        "GPU Operator is applied, but gpu1 did not offer 1 x nvidia.com/gpu to pods within 0 s: nvidia-driver-daemonset-x: "
        "ImagePullBackOff (Back-off pulling image nvcr.io/nvidia/driver:550.54.15)"
    )


def test_a_node_that_the_cluster_does_not_have_offers_no_gpu(cluster):
    cluster.nodes = [node("gpu0")]
    with pytest.raises(SystemExit, match=r"is applied, but gpu1 did not offer 1 x nvidia\.com/gpu to pods"):
        kubernetes_operator.main(ASK)


def test_of_waiting_pods_four_different_reasons_are_reported_and_each_with_the_first_pod_that_has_it():
    def pending(number: int, reason: str) -> dict[str, Any]:
        waiting = {"state": {"waiting": {"reason": reason, "message": "why"}}}
        return {"metadata": {"name": f"pod{number}"}, "status": {"phase": "Pending", "containerStatuses": [waiting]}}

    reasons = ["A", "A", "B", "C", "D", "E"]
    assert kubernetes_manifest.pods_wait_for([pending(number, reason) for number, reason in enumerate(reasons)]) == (
        "pod0: A (why); pod2: B (why); pod3: C (why); pod4: D (why)"
    )


def test_an_object_that_the_cluster_refuses_is_reported(cluster):
    cluster.wrong["apply"] = Answer(1, "", 'customresourcedefinitions is forbidden: User "x" cannot patch\n')
    with pytest.raises(SystemExit, match="did not accept an object of GPU Operator: customresourcedefinitions is forbidden"):
        kubernetes_operator.main(ASK)


def test_destroy_deletes_the_stacks_labelled_objects_in_reverse_order(cluster, monkeypatch):
    kubernetes_operator.main(ASK)
    cluster.calls.clear()
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_operator.main(ASK)
    deletes = [words for words in cluster.calls if words[0] == "delete"]
    assert [words[1] for words in deletes] == [kind for kind, _, _ in reversed(ASK["objects"])]
    assert all("app.kubernetes.io/part-of=busbar-gpu-operator" in " ".join(words) for words in deletes)
    assert not cluster.objects


def test_destroy_keeps_objects_that_another_machine_applied_last(cluster, monkeypatch, capsys):
    kubernetes_operator.main(ASK)
    there = dict(cluster.objects)
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_operator.main(ASK | {"way": [ours.WAY, "root@10.138.61.49"]})
    assert cluster.objects == there
    assert (
        "namespace gpu-operator is kept with its objects, because the stack is now applied from this-machine"
        in capsys.readouterr().err
    )
