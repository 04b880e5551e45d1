"""Multus and whereabouts from their vendors' manifests: downloads are checked, and a network in use is not removed."""

from __future__ import annotations

import hashlib
import http.server
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_in_memory import Cluster

from catalogue.secondary_networks import RELEASES
from components import downloads
from components.remote_scripts import kubernetes_secondary_network
from components.remote_scripts.kubectl import Answer
from config.kubernetes.model import SecondaryNetworks
from manifests import objects, ours, secondary_networks, vendors

LABELS = {"app.kubernetes.io/instance": "k8s", "app.kubernetes.io/part-of": "busbar-multus"}
#: A manifest with the kinds of objects of Multus's manifest, in the same order, and with the fields that the program changes.
TEXT = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: multus}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: multus, namespace: kube-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-multus-ds, namespace: kube-system, labels: {app: multus}}
spec:
  selector: {matchLabels: {name: multus}}
  template:
    metadata: {labels: {name: multus}}
    spec:
      containers: [{name: kube-multus, image: "example/multus-cni:snapshot", args: [--multus-conf-file=auto]}]
      initContainers: [{name: install, image: "example/multus-cni:snapshot"}]
"""


def found(image: str = "registry.example/multus-cni:v4.1.4", secret: str | None = None) -> list[dict[str, Any]]:
    pods = secondary_networks.Pods(image, RELEASES["multus"].arguments, secret)
    return secondary_networks.documents({"https://example/multus.yml": TEXT}, pods, LABELS, "this-machine")


def on_nodes(made: list[dict[str, Any]]) -> dict[str, Any]:
    (one,) = [each for each in made if each["kind"] == "DaemonSet"]
    return one


def test_custom_resource_definitions_come_first_and_every_object_has_the_stacks_labels():
    assert [one["kind"] for one in found()] == ["CustomResourceDefinition", "ServiceAccount", "ClusterRole", "DaemonSet"]
    assert all(LABELS.items() <= one["metadata"]["labels"].items() for one in found())
    assert on_nodes(found())["metadata"]["labels"]["app"] == "multus"
    assert on_nodes(found())["metadata"]["annotations"] == {ours.WAY: "this-machine"}
    assert on_nodes(found())["spec"]["template"]["metadata"]["labels"] == {"name": "multus"}


def test_images_are_pinned_to_the_release():
    pod = on_nodes(found(SecondaryNetworks().image("multus")))["spec"]["template"]["spec"]
    assert {one["image"] for key in ("containers", "initContainers") for one in pod[key]} == {
        "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.4"
    }
    assert "imagePullSecrets" not in pod


def test_an_image_from_the_users_own_registry_is_used_with_its_secret():
    pod = on_nodes(found("registry.example/multus-cni:v4.1.4", "regcred"))["spec"]["template"]["spec"]
    assert {one["image"] for key in ("containers", "initContainers") for one in pod[key]} == {
        "registry.example/multus-cni:v4.1.4"
    }
    assert pod["imagePullSecrets"] == [{"name": "regcred"}]


def test_multus_removes_its_configuration_from_a_node_when_multus_exits():
    (first,) = on_nodes(found())["spec"]["template"]["spec"]["containers"]
    assert first["args"] == ["--multus-conf-file=auto", "--cleanup-config-on-exit=true"]


# Downloaded on the machine that runs Pulumi


@pytest.fixture
def served(tmp_path, monkeypatch) -> Iterator[tuple[str, dict[str, bytes], list[str]]]:
    """A server's address, its files, and the requests to it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    files, asked = dict[str, bytes](), list[str]()

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            data = files.get(self.path)
            self.send_response(200 if data is not None else 404)
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", files, asked
    server.shutdown()
    server.server_close()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_file_is_fetched_once_and_kept(served):
    address, files, asked = served
    files["/a.yml"] = b"kind: A"
    assert [downloads.fetched(f"{address}/a.yml", digest(b"kind: A")) for _ in range(2)] == ["kind: A"] * 2
    assert asked == ["/a.yml"]


def test_a_file_with_a_wrong_checksum_is_refused_and_not_kept(served, tmp_path):
    address, files, _ = served
    files["/a.yml"] = b"kind: Other"
    with pytest.raises(ValueError, match=rf"has sha256 {digest(b'kind: Other')} and not {digest(b'kind: A')}, so somebody"):
        downloads.fetched(f"{address}/a.yml", digest(b"kind: A"))
    assert not list(tmp_path.rglob("*a.yml"))


def test_without_internet_the_error_names_the_file_and_the_path_at_which_a_person_can_put_the_file(served, tmp_path):
    address, _, _ = served
    with pytest.raises(ValueError, match=r"this machine cannot fetch .*/a\.yml \(HTTP Error 404.*put the file") as refused:
        downloads.fetched(f"{address}/a.yml", digest(b"kind: A"))
    place = Path(str(refused.value).rpartition(" as ")[2])
    place.parent.mkdir()
    place.write_bytes(b"kind: A")
    assert downloads.fetched("http://127.0.0.1:1/a.yml", digest(b"kind: A")) == "kind: A"
    place.write_bytes(b"kind: Changed")
    with pytest.raises(ValueError, match="cannot fetch"):
        downloads.fetched("http://127.0.0.1:1/a.yml", digest(b"kind: A"))
    assert tmp_path in place.parents


# Applied on the machine that runs kubectl

ASK: dict[str, Any] = {
    "kubectl": {"kubeconfig": None, "context": None, "host": "this machine"},
    "server": None,
    "title": "Multus",
    "name": "multus",
    "namespace": "kube-system",
    "daemon_set": "kube-multus-ds",
    "file": "busbar-multus-1.yaml",
    "definitions": ["network-attachment-definitions.k8s.cni.cncf.io"],
    "objects": [[vendors.kind(one), one["metadata"]["name"], one["metadata"].get("namespace", "")] for one in found()],
    "labels": LABELS,
    "way": [ours.WAY, "this-machine"],
    "nodes": ["gpu0", "gpu1"],
    "timeout_s": 0.05,
}


def runs(at: int, *, restarts: int = 0, ready: str = "True", template: str = "1", **status: Any) -> dict[str, Any]:
    """Return a pod of Multus on a node."""
    known = {"conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [{"restartCount": restarts, **status}]}
    metadata = {"name": f"kube-multus-ds-{at}", "labels": {"name": "multus", "pod-template-generation": template}}
    return {"metadata": metadata, "spec": {"nodeName": f"gpu{at}"}, "status": known}


class Applied(Cluster):
    """A cluster that has already processed each applied DaemonSet.

    `definitions` are the network definitions of all namespaces, or None if the cluster does not know this kind of object.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coming = [runs(0), runs(1)]
        self.definitions: list[dict[str, Any]] | None = []

    def _get(self, words: tuple[str, ...], stdin: Any) -> Answer:
        if "--all-namespaces" in words and words[0] != "pods":
            unknown = Answer(1, "", 'error: the server doesn\'t have a resource type "network-attachment-definitions"\n')
            return Answer(0, json.dumps({"items": self.definitions}), "") if self.definitions is not None else unknown
        answer = super()._get(words, stdin)
        if words[0] == "daemonset.apps" and answer.out:
            one = json.loads(answer.out)
            one["metadata"].setdefault("generation", 1)
            one["metadata"].setdefault("annotations", {})["deprecated.daemonset.template.generation"] = "1"
            return Answer(0, json.dumps(one | {"status": {"observedGeneration": 1}}), "")
        return answer

    def _logs(self, words: tuple[str, ...], _stdin: Any) -> Answer:
        return Answer(0, f"failed to create multus config ({words[0]})\n", "")


@pytest.fixture
def cluster(tmp_path, monkeypatch) -> Applied:
    made = Applied()
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ASK["file"]).write_text(objects.text(found()))
    monkeypatch.setattr(kubernetes_secondary_network, "Kubectl", made.opened)
    monkeypatch.setattr(kubernetes_secondary_network, "_STEADY_S", 0.01)
    # This clock advances each time the program reads the time. On a busy machine, a real clock reaches the timeout too early.
    times_s = itertools.count(0, 0.004)
    clock = SimpleNamespace(monotonic=lambda: next(times_s), sleep=lambda _: None)
    monkeypatch.setattr(kubernetes_secondary_network, "time", clock)
    monkeypatch.setattr(sys, "argv", ["-"])
    return made


def test_the_program_applies_a_secondary_network_without_force_and_waits_for_its_pods_on_the_stacks_nodes(cluster, capsys):
    kubernetes_secondary_network.main(ASK)
    assert json.loads(capsys.readouterr().out) == {"schema": 1, "kind": "multus", "nodes": ["gpu0", "gpu1"]}
    assert cluster.verbs().count("apply") == 2
    assert not [words for words in cluster.calls if "--force-conflicts" in words]


def test_an_installation_that_the_stack_did_not_make_is_left_unchanged(cluster):
    cluster.objects["clusterrole.rbac.authorization.k8s.io", "multus"] = {"kind": "ClusterRole", "metadata": {"name": "multus"}}
    with pytest.raises(SystemExit, match=r"^kubernetes\.secondaryNetworks\.install has multus, but the cluster already has M"):
        kubernetes_secondary_network.main(ASK)
    assert "apply" not in cluster.verbs()


def test_nothing_is_applied_to_another_cluster_than_the_cluster_in_the_stack_file(cluster):
    with pytest.raises(SystemExit, match=r"^kubernetes\.server is https://10\.9\.9\.9:6443"):
        kubernetes_secondary_network.main(ASK | {"server": "https://10.9.9.9:6443"})
    assert not cluster.objects


@pytest.mark.parametrize(
    ("coming", "sentence"),
    [
        (
            [runs(0), runs(1, ready="False", state={"waiting": {"reason": "ImagePullBackOff", "message": "not found"}})],
            "on gpu1 after 0 s: kube-multus-ds-1: ImagePullBackOff (not found)",
        ),
        ([runs(0)], "on gpu1 after 0 s: the pods report no reason"),
        ([runs(0), runs(1, template="0")], "on gpu1 after 0 s: the pods report no reason"),
        (
            [runs(0), runs(1, ready="False")],
            "the pods report no reason (its last log line: failed to create multus config (kube-multus-ds-1))",
        ),
    ],
)
def test_a_node_on_which_multus_does_not_run_is_named_with_the_reason(cluster, coming, sentence):
    cluster.coming = coming
    with pytest.raises(SystemExit) as ended:
        kubernetes_secondary_network.main(ASK)
    assert str(ended.value).startswith("Multus is applied, but does not run steadily on gpu1")
    assert sentence in str(ended.value)


def test_a_pod_that_restarts_repeatedly_does_not_count_as_running(cluster, monkeypatch):
    usual, restarts = cluster.get, itertools.count()

    def get(*words: str) -> Any:
        got = usual(*words)
        for one in got["items"] if words[0] == "pods" else []:
            one["status"]["containerStatuses"][0]["restartCount"] = next(restarts)
        return got

    monkeypatch.setattr(cluster, "get", get)
    with pytest.raises(SystemExit, match="does not run steadily on gpu0, gpu1 after 0 s: its pods restart"):
        kubernetes_secondary_network.main(ASK)


@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1}])
def test_pods_of_an_earlier_daemon_set_do_not_count_before_the_cluster_has_processed_the_new_one(cluster, monkeypatch, status):
    usual = cluster.get

    def get(*words: str) -> Any:
        got = usual(*words)
        if words[0] == "daemonset.apps":
            got["metadata"]["generation"], got["status"] = 2, status
        return got

    monkeypatch.setattr(cluster, "get", get)
    with pytest.raises(SystemExit, match="does not run steadily on gpu0, gpu1 after 0 s: the pods report no reason"):
        kubernetes_secondary_network.main(ASK)


def removed(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_secondary_network.main(ASK | changes)


def test_destroy_deletes_first_the_objects_that_were_applied_last(cluster, monkeypatch):
    kubernetes_secondary_network.main(ASK)
    cluster.calls.clear()
    cluster.pods = []
    removed(monkeypatch)
    deletes = [words for words in cluster.calls if words[0] == "delete"]
    assert [words[1] for words in deletes] == [kind for kind, _, _ in reversed(ASK["objects"])]
    assert all("--cascade=foreground" in words for words in deletes)
    assert not cluster.objects


#: A network definition and an attached pod in another user's namespace.
NETWORK = {"metadata": {"namespace": "theirs", "name": "fast"}, "spec": {"config": '{"ipam": {"type": "whereabouts"}}'}}
ATTACHED = {
    "metadata": {"namespace": "theirs", "name": "x", "annotations": {"k8s.v1.cni.cncf.io/networks": "fast"}},
    "spec": {},
    "status": {"phase": "Running"},
}


#: Existing network definitions and pods, and the object that the message names.
USED: list[tuple[list[dict[str, Any]] | None, list[dict[str, Any]], str]] = [
    ([NETWORK], [], "networkattachmentdefinition theirs/fast"),
    ([NETWORK | {"spec": {}}], [], "networkattachmentdefinition theirs/fast"),
    ([], [ATTACHED], "pod theirs/x"),
    (None, [ATTACHED], "pod theirs/x"),
]


@pytest.mark.parametrize("name", ["multus", "whereabouts"])
@pytest.mark.parametrize("used", USED, ids=["a network", "a network on the nodes", "a pod", "a pod without definitions"])
def test_a_secondary_network_that_other_pods_use_is_kept_and_reported(cluster, monkeypatch, capsys, name, used):
    kubernetes_secondary_network.main(ASK)
    there = dict(cluster.objects)
    cluster.definitions, cluster.pods, named = used
    removed(monkeypatch, name=name)
    assert cluster.objects == there
    assert f"Multus is left in the cluster, because it is in use and pods would lose their network: {named}." in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(("number", "more"), [(4, ""), (5, " and 1 more"), (6, " and 2 more")])
def test_four_users_of_a_network_are_named_and_the_others_are_counted(cluster, monkeypatch, capsys, number, more):
    kubernetes_secondary_network.main(ASK)
    cluster.pods = [ATTACHED | {"metadata": ATTACHED["metadata"] | {"name": f"p{at}"}} for at in range(number)]
    removed(monkeypatch)
    assert (
        f"lose their network: pod theirs/p0, pod theirs/p1, pod theirs/p2, pod theirs/p3{more}. To" in capsys.readouterr().err
    )


def test_destroy_keeps_a_network_if_it_cannot_find_out_who_uses_it(cluster, monkeypatch):
    kubernetes_secondary_network.main(ASK)
    there = dict(cluster.objects)
    cluster.wrong["get network-attachment-definitions.k8s.cni.cncf.io"] = Answer(
        1, "", "Unable to connect to the server: EOF\n"
    )
    with pytest.raises(SystemExit, match=r"^destroy could not find out who uses the network: Unable to connect to the server"):
        removed(monkeypatch)
    assert cluster.objects == there


def test_whereabouts_is_removed_although_finished_pods_and_networks_without_whereabouts_exist(cluster, monkeypatch):
    kubernetes_secondary_network.main(ASK)
    cluster.definitions = [NETWORK | {"spec": {"config": '{"ipam": {"type": "host-local"}}'}}]
    cluster.pods = [ATTACHED | {"status": {"phase": "Succeeded"}}]
    removed(monkeypatch, name="whereabouts")
    assert not cluster.objects


def test_destroy_keeps_objects_that_another_machine_applied_last(cluster, monkeypatch, capsys):
    kubernetes_secondary_network.main(ASK)
    there = dict(cluster.objects)
    removed(monkeypatch, way=[ours.WAY, "root@10.138.61.49"])
    assert cluster.objects == there
    assert "daemonset.apps kube-multus-ds is kept with its objects, because the stack is now applied" in capsys.readouterr().err


def test_destroy_removes_nothing_from_another_cluster_than_the_cluster_in_the_stack_file(cluster, monkeypatch):
    kubernetes_secondary_network.main(ASK)
    there = dict(cluster.objects)
    cluster.pods = []
    with pytest.raises(SystemExit, match=r"^kubernetes\.server is https://10\.9\.9\.9:6443"):
        removed(monkeypatch, server="https://10.9.9.9:6443")
    assert cluster.objects == there


def test_the_reason_why_a_node_waits_is_printed_once_until_the_reason_changes(cluster, capsys):
    cluster.coming = [runs(0)]
    with pytest.raises(SystemExit):
        kubernetes_secondary_network.main(ASK | {"timeout_s": 0.1})
    assert capsys.readouterr().err == "Multus does not run yet on gpu1: the pods report no reason\n"
