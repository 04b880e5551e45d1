"""Objects on a cluster: a fault of the cluster is refused before any change, and foreign objects are never touched."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_in_memory import ASK, LABELS, Cluster, node, pod

from components.remote_scripts import kubectl, kubernetes_objects, kubernetes_pending
from components.remote_scripts.kubectl import Answer


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    made = Cluster()
    monkeypatch.setattr(kubernetes_objects, "Kubectl", made.opened)
    monkeypatch.setattr(kubernetes_objects, "_PAUSE_S", 0.01)
    monkeypatch.setattr(sys, "argv", ["-"])
    return made


def refused(**changes: Any) -> str:
    with pytest.raises(SystemExit) as found:
        kubernetes_objects.main(ASK | changes)
    return str(found.value)


def test_the_line_lists_the_pods_after_the_objects_were_applied_server_side_without_force(cluster, capsys):
    kubernetes_objects.main(ASK)
    (applied,) = [words for words in cluster.calls if words[0] == "apply"]
    assert applied == ("apply", "--server-side", "--field-manager=busbar", "--filename=-")
    line = json.loads(capsys.readouterr().out)
    assert [(one["node"], one["address"], one["uid"], one["rails"]) for one in line["pods"]] == [
        ("gpu0", "10.244.0.7", "u0", ["10.100.100.1"]),
        ("gpu1", "10.244.1.7", "u1", ["10.100.100.2"]),
    ]


FOREIGN = "kubernetes.namespace is busbar, where objects of other owners have the names of this stack's objects, and were not "
FOREIGN += "changed: "
#: Fault -> the function that plants it in the cluster, and the beginning of the refusal.
FAULTS: dict[str, tuple[Any, str]] = {
    "another cluster": (
        lambda its: setattr(its, "server", "https://10.0.0.1:6443"),
        "kubernetes.server is https://10.138.61.49:6443, but the kubeconfig on the control plane's host leads to https://10.0",
    ),
    "no cluster": (
        lambda its: its.wrong.update(config=Answer(1, "", "error: current-context must exist in order to minify")),
        "kubernetes.kubeconfig is not set, and kubectl on the control plane's host finds no cluster (error:",
    ),
    "an API server that is not ready": (
        lambda its: setattr(its, "readiness", Answer(1, "", "Error from server (InternalError): etcd failed")),
        "the API server https://10.138.61.49:6443 is not ready: ",
    ),
    "a node that does not exist": (
        lambda its: its.nodes.pop(),
        "kubernetes.nodes has gpu1, but the cluster has no such node; it has gpu0, master0",
    ),
    "a node that is not ready": (
        lambda its: its.nodes.__setitem__(2, node("gpu1", ready="Unknown")),
        "kubernetes.nodes has gpu1, which is NotReady (container runtime network not ready)",
    ),
    "a cordoned node": (
        lambda its: its.nodes.__setitem__(2, node("gpu1", cordoned=True)),
        "kubernetes.nodes has gpu1, which is cordoned",
    ),
    "no GPU": (
        lambda its: its.nodes.__setitem__(2, node("gpu1", gpus="0")),
        "kubernetes.nodes has gpu1, which offers 0 of nvidia.com/gpu to pods, but kubernetes.gpus is 1",
    ),
    "no Multus": (
        lambda its: its.groups.discard("k8s.cni.cncf.io"),
        "kubernetes.rails is set, but the cluster does not know k8s.cni.cncf.io: Multus is not installed there",
    ),
    "no whereabouts": (
        lambda its: its.groups.discard("whereabouts.cni.cncf.io"),
        "kubernetes.rails is set, but the cluster does not know whereabouts.cni.cncf.io: whereabouts is not",
    ),
    "no permission": (
        lambda its: its.denied.update({"patch jobs.batch", "create pods/exec"}),
        "the kubeconfig's user may not create pods/exec, patch jobs.batch in namespace busbar (RBAC); nothing was changed",
    ),
    "no permission for network definitions": (
        lambda its: its.denied.add("patch network-attachment-definitions.k8s.cni.cncf.io"),
        "the kubeconfig's user may not patch network-attachment-definitions.k8s.cni.cncf.io in namespace busbar (RBAC)",
    ),
    "an object of somebody else": (
        lambda its: its.objects.update({("service", "busbar-ranks"): {"metadata": {"name": "busbar-ranks"}}}),
        f"{FOREIGN}service busbar-ranks is not labelled as this stack's",
    ),
    "an object of another stack": (
        lambda its: its.objects.update(
            {("namespace", "busbar"): {"metadata": {"labels": LABELS | {"app.kubernetes.io/instance": "other"}}}}
        ),
        f"{FOREIGN}namespace busbar is labelled as other's",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_cluster_is_refused_in_a_sentence_before_anything_is_changed(cluster, name):
    plant, sentence = FAULTS[name]
    plant(cluster)
    before = dict(cluster.objects)
    assert refused().startswith(sentence)
    assert not {"apply", "delete"} & set(cluster.verbs())
    assert cluster.objects == before


def test_a_user_without_read_permission_gets_the_clusters_message(cluster):
    forbidden = 'Error from server (Forbidden): nodes is forbidden: User "poor" cannot list resource "nodes"'
    cluster.wrong["get"] = Answer(1, "", forbidden)
    cluster.server = ASK["server"]
    with pytest.raises(
        SystemExit, match=r"^the kubeconfig's user may not list nodes \(RBAC\): \(Forbidden\): nodes is forbidden"
    ):
        cluster.get("nodes")


def failed_sandbox(message: str, version: int = 1) -> dict[str, Any]:
    return {"reason": "FailedCreatePodSandBox", "message": message, "metadata": {"resourceVersion": str(version)}}


def waiting(reason: str, message: str) -> list[dict[str, Any]]:
    return [{"state": {"waiting": {"reason": reason, "message": message}}}]


_SCHEDULED = {"type": "PodScheduled", "status": "False", "message": "no room"}
_ENDED = {"exitCode": 137, "message": "killed"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"conditions": [_SCHEDULED]}, ("no node accepts this pod: no room", 45)),
        *(
            ({"containerStatuses": waiting(reason, "bad")}, (f"which the node cannot pull ({reason}: bad)", 20))
            for reason in ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
        ),
        *(
            ({"containerStatuses": waiting(reason, "bad")}, (f"its container does not start ({reason}: bad)", 10))
            for reason in ("CreateContainerError", "CreateContainerConfigError", "RunContainerError", "CrashLoopBackOff")
        ),
        ({"containerStatuses": [{"state": {"terminated": _ENDED}}]}, ("its container ended with 137: killed", None)),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}, ("its container ended with 1: no message", None)),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, ("it failed (Evicted: disk)", None)),
        ({"containerStatuses": waiting("ContainerCreating", "")}, ("waiting for the node", None)),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, ("waiting for the node", None)),
    ],
)
def test_a_pod_that_does_not_run_is_reported_with_its_cause_and_how_long_the_cause_may_last(cluster, status, expected):
    its = pod(1, **({"phase": "Pending", "conditions": []} | status))
    said, useless_after_s = kubernetes_pending.why_pending(cluster, its, ASK, set())
    assert (said.endswith(expected[0]), useless_after_s) == (True, expected[1]), said
    assert kubernetes_pending.why_pending(cluster, its | {"spec": {}}, ASK, set())[0] in {said, "waiting for the scheduler"}


def test_an_image_that_a_node_cannot_pull_is_named(cluster, monkeypatch):
    monkeypatch.setattr("components.remote_scripts.kubernetes_pending._PULLED_S", 0)
    cluster.coming[1] = pod(1, phase="Pending", containerStatuses=waiting("ErrImagePull", "not found"), conditions=[])
    assert refused().startswith(
        "busbar-ranks-1-x cannot start: kubernetes.image is registry.example/pytorch:23.09, which the node cannot pull"
    )


def test_of_a_long_event_the_80_characters_before_the_cause_and_160_characters_from_the_cause_on_are_reported(cluster):
    cluster.events = [failed_sandbox("x" * 300 + "b" * 80 + "Link not found" + "a" * 146 + "y" * 300)]
    said, _ = kubernetes_pending.why_pending(cluster, pod(1, phase="Pending", conditions=[]), ASK, set())
    assert said.endswith(f"names ({'b' * 80}Link not found{'a' * 146})")


@pytest.mark.parametrize(
    ("event", "sentence", "useless_after_s"),
    [
        (
            "error at storage engine: Could not allocate IP in range: ip: 10.100.100.1 / - 10.100.100.2",
            "the addresses of the rail's range are used up: give kubernetes.rails a wider range",
            20,
        ),
        (
            'cannot find a network-attachment-definition (busbar-rail0) in namespace (busbar): "busbar-rail0" not found',
            "the rail's NetworkAttachmentDefinition is gone",
            10,
        ),
        ("cannot find network busbar-rail0", "the rail's NetworkAttachmentDefinition is gone", 10),
        ("failed to find host device: ens192", "the node lacks an interface that kubernetes.rails names", 45),
        ("no such network interface", "the node lacks an interface that kubernetes.rails names", 45),
        ("failed to find host device: Link not found", "the node lacks an interface that kubernetes.rails names", 45),
        (
            'Multus: error getting k8s client: host must be a URL or a host:port pair: "https://[10.96.0.1]:443"',
            "Multus cannot parse an address that it wrote: its image was built with a newer Go than the vendor's",
            20,
        ),
        ('failed to find plugin "host-device" in path', "a CNI plugin that the rail needs is not in /opt/cni/bin", 20),
    ],
)
def test_a_pod_that_gets_no_rail_in_time_is_named_with_the_reason(cluster, event, sentence, useless_after_s):
    cluster.events = [failed_sandbox("some trouble", 1), failed_sandbox(event, 2), {"reason": "Scheduled"}]
    cluster.coming[1] = pod(1, phase="Pending", conditions=[])
    for old, limit_s in ((set(), useless_after_s), ({"1"}, useless_after_s), ({"2"}, None)):
        assert kubernetes_pending.why_pending(cluster, cluster.coming[1], ASK, old)[1] == limit_s
    cluster.events = [failed_sandbox(event)]
    said = refused()
    assert said.startswith("no pod runs on gpu1 within 0 s: busbar-ranks-1-x: ")
    assert sentence in said


@pytest.mark.parametrize("again", [False, True])
def test_a_fault_that_happened_before_the_update_stops_the_wait_only_if_the_fault_happens_again(cluster, monkeypatch, again):
    gone = 'cannot find a network-attachment-definition (busbar-rail0) in namespace (busbar): "busbar-rail0" not found'
    monkeypatch.setattr("components.remote_scripts.kubernetes_pending._NETWORK", ((gone[:20], "the rail is gone", 0),))
    cluster.coming[1] = pod(1, phase="Pending", conditions=[])
    cluster.events = [failed_sandbox(gone)]

    def passes(_: float) -> None:
        cluster.events = [failed_sandbox(gone, 1 + again)]

    monkeypatch.setattr(kubernetes_objects.time, "sleep", passes)
    start = "busbar-ranks-1-x cannot start: " if again else "no pod runs on gpu1 within 0 s: busbar-ranks-1-x: "
    assert refused().startswith(f"{start}the rail is gone")


def test_a_pod_that_cannot_be_scheduled_is_reported_with_the_schedulers_message(cluster):
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "message": "0/3 nodes are available: 2 Insufficient nvidia.com/gpu.",
    }
    cluster.coming[1] = pod(1, phase="Pending", conditions=[condition])
    cluster.coming[1]["spec"] = {}
    assert "no node accepts this pod: 0/3 nodes are available: 2 Insufficient nvidia.com/gpu." in refused()


def test_pods_that_were_deleted_during_the_wait_are_not_reported_as_faulty(cluster, monkeypatch):
    cluster.coming[1] = pod(1, phase="Pending", conditions=[])
    cluster.events = [failed_sandbox("some trouble")]

    clock = SimpleNamespace(now=0.0)

    def deleted(_: float) -> None:
        cluster.pods = []
        clock.now += 60

    monkeypatch.setattr(kubernetes_objects, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=deleted))
    assert refused() == "no pod runs on gpu0, gpu1 within 0 s: the cluster created no pod there"


def test_a_running_pod_without_its_rail_is_refused(cluster):
    cluster.coming[1] = pod(1, rail="")
    assert refused().startswith("busbar-ranks-1-x on gpu1 runs without net1, which Multus did not attach")


def test_a_job_with_a_changed_template_is_recreated_and_an_unchanged_job_is_kept(cluster, capsys):
    kubernetes_objects.main(ASK)
    kubernetes_objects.main(ASK)
    assert "delete" not in cluster.verbs()
    assert "created again" not in capsys.readouterr().err
    kubernetes_objects.main(ASK | {"template": [ASK["template"][0], "another"]})
    (deleted,) = [words for words in cluster.calls if words[0] == "delete"]
    assert deleted[:3] == ("delete", "job.batch", "busbar-ranks")
    assert "the Job has ended or needs other pods; it is deleted with its pods and created again" in capsys.readouterr().err


def test_a_field_that_another_manager_changed_is_reported_and_not_changed_back(cluster):
    cluster.wrong["apply"] = Answer(1, "", 'error: Apply failed with 1 conflict: conflict with "kubectl-edit": .spec.selector')
    assert refused().startswith("somebody else changed an object of the stack; the update did not change it back: error: Apply")


def test_removal_deletes_the_objects_with_the_stacks_labels_and_then_the_namespace(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_objects.main(ASK)
    deleted = [words for words in cluster.calls if words[0] == "delete"]
    assert deleted[0][1] == "job.batch"
    assert all("--selector" in words and ASK["pods"].split(",")[0] in words[3] for words in deleted[:-1])
    assert deleted[-1][1:3] == ("namespace", "busbar")


def removed(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether a removal deletes the namespace."""
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_objects.main(ASK)
    return ("namespace", "busbar") not in cluster.objects


def test_removal_keeps_a_namespace_that_does_not_belong_to_the_stack(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    cluster.objects["namespace", "busbar"]["metadata"]["labels"] = {}
    assert not removed(cluster, monkeypatch)


@pytest.mark.parametrize("kind", ["secret", "cronjob.batch", "widget.example"])
def test_removal_keeps_a_namespace_that_contains_an_object_of_another_owner_whatever_the_objects_kind(
    cluster, monkeypatch, capsys, kind
):
    kubernetes_objects.main(ASK)
    its = kind.partition(".")[0]
    cluster.objects[kind, "theirs"] = {"kind": its.capitalize(), "metadata": {"name": "theirs"}}
    assert not removed(cluster, monkeypatch)
    assert f"namespace busbar is kept, because it has {its} theirs\n" in capsys.readouterr().err


def test_removal_deletes_a_namespace_that_contains_only_what_the_cluster_itself_creates(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    for kind, name in (("event", "seen"), ("configmap", "kube-root-ca.crt"), ("serviceaccount", "default")):
        title = {"configmap": "ConfigMap", "serviceaccount": "ServiceAccount"}.get(kind, "Event")
        cluster.objects[kind, name] = {"kind": title, "metadata": {"name": name}}
    assert removed(cluster, monkeypatch)


def test_removal_keeps_a_namespace_whose_objects_cannot_all_be_listed(cluster, monkeypatch, capsys):
    kubernetes_objects.main(ASK)
    cluster.wrong["get configmaps,cronjobs.batch,jobs.batch,pods,secrets,serviceaccounts,widgets.example"] = Answer(
        1, '{"items": []}', "Error from server (Forbidden): widgets.example is forbidden: User dev cannot list resource"
    )
    assert not removed(cluster, monkeypatch)
    assert "objects that cannot be listed ((Forbidden): widgets.example is forbidden" in capsys.readouterr().err


def test_a_namespace_that_a_user_created_is_used_but_neither_changed_nor_removed(cluster, monkeypatch):
    theirs = {"kind": "Namespace", "metadata": {"name": "busbar", "labels": {"app.kubernetes.io/instance": "team"}}}
    cluster.objects["namespace", "busbar"] = theirs
    before = json.loads(json.dumps(theirs))
    kubernetes_objects.main(ASK)
    assert ("job.batch", "busbar-ranks") in cluster.objects
    assert not removed(cluster, monkeypatch)
    assert cluster.objects["namespace", "busbar"] == before
    assert ("job.batch", "busbar-ranks") not in cluster.objects


def test_removal_keeps_objects_that_kubectl_on_another_machine_applied_last(cluster, monkeypatch, capsys):
    kubernetes_objects.main(ASK)
    there = dict(cluster.objects)
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_objects.main(ASK | {"way": [ASK["way"][0], "this-machine"]})
    assert cluster.objects == there
    assert "the stack is now applied from root@10.138.61.49" in capsys.readouterr().err


def test_removing_objects_that_are_gone_is_no_error(cluster, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_objects.main(ASK)
    assert "delete" not in cluster.verbs()


def test_a_removal_that_the_cluster_refuses_is_reported_and_leaves_the_namespace(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    cluster.wrong["delete"] = Answer(1, "", "error: timed out waiting for the condition on jobs/busbar-ranks")
    sentence = refused()
    assert sentence.startswith("destroy could not remove job.batch with the labels ")
    assert sentence.endswith("timed out waiting for the condition on jobs/busbar-ranks")
    assert cluster.verbs().count("delete") == 1, "deleting the namespace would also delete what could not be removed"


def test_objects_of_a_kind_that_the_cluster_no_longer_knows_count_as_removed(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kind = "networkattachmentdefinition.k8s.cni.cncf.io"
    cluster.wrong[f"delete {kind}"] = Answer(1, "", f'error: the server doesn\'t have a resource type "{kind}"')
    kubernetes_objects.main(ASK)
    assert ("namespace", "busbar") not in cluster.objects


def test_pods_that_are_being_deleted_do_not_count_and_the_newest_pod_comes_first(cluster):
    cluster.pods = [pod(at) for at in range(3)]
    for at, second in enumerate(("01", "03", "02")):
        cluster.pods[at]["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{second}Z"
    cluster.pods[2]["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
    assert [one["spec"]["nodeName"] for one in kubectl.pods_of(cluster, "app=x")] == ["gpu1", "gpu0"]
    cluster.pods[0]["status"]["phase"] = "Pending"
    assert [bool(kubectl.on_node(cluster.pods, name)) for name in ("gpu0", "gpu1", "gpu7")] == [False, True, False]


# MPI Operator

MPI: dict[str, Any] = {
    "job": "mpijob.kubeflow.org",
    "former": [["job.batch", "busbar-ranks"], ["service", "busbar-ranks"]],
    "objects": [*ASK["objects"][:2], ["mpijob.kubeflow.org", "busbar-ranks"]],
}


def test_a_cluster_without_mpi_operator_or_with_an_older_one_is_refused_before_anything_is_changed(cluster):
    said = "kubernetes.job is MPIJob, but the cluster does not know MPIJob of kubeflow.org/v2beta1: MPI Operator is not "
    assert refused(**MPI).startswith(said)
    older = "mpijobs  mj  kubeflow.org/v1  true  MPIJob\nothers  kubeflow.org/v2beta1  true  Other\n"
    cluster.wrong["api-resources"] = Answer(0, older, "")
    assert refused(**MPI).startswith(said)
    assert not {"apply", "delete"} & set(cluster.verbs())


_ALWAYS = "list pods,create pods/exec,list events,patch serviceaccounts,patch roles.rbac.authorization.k8s.io,"
_ALWAYS += "patch rolebindings.rbac.authorization.k8s.io"
_NETWORK = "patch network-attachment-definitions.k8s.cni.cncf.io"
_OF_JOB = "patch jobs.batch,delete jobs.batch,patch services"
_OF_MPI = "patch mpijobs.kubeflow.org,delete mpijobs.kubeflow.org,delete pods"


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, f"{_ALWAYS},{_OF_JOB},{_NETWORK}"),
        ({"rails": False}, f"{_ALWAYS},{_OF_JOB}"),
        (MPI, f"{_ALWAYS},{_OF_MPI},{_NETWORK}"),
    ],
    ids=["a Job", "no rails", "an MPIJob"],
)
def test_a_user_is_refused_who_lacks_any_permission_that_the_stack_needs(cluster, changes, needed):
    cluster.groups.add("kubeflow.org")
    for permission in needed.split(","):
        cluster.denied = {permission}
        assert refused(**changes).startswith(f"the kubeconfig's user may not {permission} in namespace busbar (RBAC)")
    asked = [" ".join(words[2:]) for words in cluster.calls if words[:2] == ("auth", "can-i")]
    assert set(asked) == set(needed.split(","))


def test_a_stack_that_changes_to_an_mpi_job_deletes_its_former_job_and_service(cluster):
    kubernetes_objects.main(ASK)
    cluster.groups.add("kubeflow.org")
    kubernetes_objects.main(ASK | MPI)
    ended = [words[1:3] for words in cluster.calls if words[0] == "delete"]
    assert ended == [("job.batch", "busbar-ranks"), ("service", "busbar-ranks")]


def test_a_foreign_object_with_the_name_of_the_former_job_is_kept(cluster):
    cluster.objects["mpijob.kubeflow.org", "busbar-ranks"] = {"kind": "MPIJob", "metadata": {"name": "busbar-ranks"}}
    kubernetes_objects.main(ASK)
    assert "delete" not in cluster.verbs()


def test_a_worker_pod_that_has_ended_is_deleted_because_mpi_operator_does_not_replace_ended_pods(cluster):
    cluster.groups.add("kubeflow.org")
    cluster.pods = [pod(0), pod(1, phase="Failed", uid="old", reason="Evicted")]
    kubernetes_objects.main(ASK | MPI)
    assert [words[1:3] for words in cluster.calls if words[0] == "delete"] == [("pod", "busbar-ranks-1-x")]


def test_a_running_mpi_job_is_kept_and_an_mpi_job_that_succeeded_or_failed_is_recreated(cluster):
    cluster.groups.add("kubeflow.org")
    mark = {"labels": LABELS, "annotations": {ASK["template"][0]: ASK["template"][1]}, "name": "busbar-ranks"}
    for kind, made_again in (("Created", False), ("Running", False), ("Succeeded", True), ("Failed", True)):
        cluster.calls.clear()
        cluster.objects.clear()
        status = {"conditions": [{"type": kind, "status": "True"}]}
        cluster.objects["mpijob.kubeflow.org", "busbar-ranks"] = {"kind": "MPIJob", "metadata": mark, "status": status}
        kubernetes_objects.main(ASK | MPI)
        assert ("delete" in cluster.verbs()) is made_again, kind


def test_the_operators_message_about_the_job_is_shown_if_mpi_operator_creates_no_pods(cluster):
    cluster.groups.add("kubeflow.org")
    cluster.coming = []
    assert refused(**MPI) == "no pod runs on gpu0, gpu1 within 0 s: MPI Operator created no pod there"
    cluster.warnings = [{"message": "Found validation errors: x", "metadata": {"resourceVersion": "1"}}]
    assert refused(**MPI).endswith("MPI Operator created no pod there: Found validation errors: x")


def test_removal_deletes_a_job_even_if_the_namespace_has_the_same_name_as_the_job(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    cluster.objects["namespace", "busbar-ranks"] = cluster.objects.pop(("namespace", "busbar"))
    objects = [["namespace", "busbar-ranks"], *ASK["objects"][1:]]
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    kubernetes_objects.main(ASK | {"namespace": "busbar-ranks", "objects": objects})
    assert ("job.batch", "busbar-ranks") not in cluster.objects


def test_nothing_is_removed_from_another_cluster_than_the_one_that_the_stack_file_names(cluster, monkeypatch):
    kubernetes_objects.main(ASK)
    there = dict(cluster.objects)
    monkeypatch.setattr(sys, "argv", ["-", "remove"])
    assert "which is another cluster; nothing was changed there" in refused(server="https://10.0.0.1:6443")
    assert cluster.objects == there
