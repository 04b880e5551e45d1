"""Contact with running pods, and commands in pods: each fault and each lost pod is reported in a sentence with the reason."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from cluster_in_memory import ASK, Cluster, pod

from benchmarks.host import requests
from components.remote_scripts import kubectl, kubernetes_contact, kubernetes_run
from components.remote_scripts.kubectl import Answer, Kubectl

NODES = [{"name": "gpu0", "address": "10.244.0.7"}, {"name": "gpu1", "address": "10.244.1.7"}]
FACTS: dict[str, Any] = {
    "gpu": "NVIDIA A100 80GB PCIe",
    "gpus": 1,
    "hca": [["irdma0", 25, "net1", True, "ice"], ["irdma1", 25, "ens224", True, "ice"]],
    "tag": "",
    "mpi": "/usr/local/mpi",
    "front": "eth0",
    "network": "10.244.0.0/24",
}
CONTACT = ASK | {"host_key": "ssh-ed25519 AAAA", "facts": "print(1)", "mpi": ["/usr/local/mpi"]}


def said(**changes: Any) -> tuple[str, Answer]:
    return "python3", Answer(0, json.dumps(FACTS | changes) + "\n", "")


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    made = Cluster()
    made.pods = [pod(0), pod(1, rail="10.100.100.2")]
    made.inner = [("rdma system", Answer(0, "netns exclusive copy-on-fork on\n", "")), said()]
    for module in (kubernetes_contact, kubernetes_run):
        monkeypatch.setattr(module, "Kubectl", made.opened)
    return made


def refused(**changes: Any) -> str:
    with pytest.raises(SystemExit) as found:
        kubernetes_contact.main(NODES, CONTACT | changes)
    return str(found.value)


@pytest.mark.usefixtures("cluster")
def test_of_a_pods_rdma_devices_only_those_of_rails_are_reported(capsys):
    kubernetes_contact.main(NODES, CONTACT)
    line = json.loads(capsys.readouterr().out)
    assert (line["count"], line["host_key"], line["fronts"]) == (2, "ssh-ed25519 AAAA", ["eth0"])
    (group,) = line["groups"]
    assert group["nodes"] == ["gpu0", "gpu1"]
    assert [hca[0] for hca in group["facts"]["hca"]] == ["irdma0"]


def test_the_program_that_reaches_other_pods_is_written_to_every_pod_and_tried_in_the_first_pod(cluster):
    kubernetes_contact.main(NODES, CONTACT)
    inside = [words[-1] for words in cluster.calls if words[0] == "exec" and words[2] == "busbar-ranks-0-x"]
    written = {words[2] for words in cluster.calls if words[0] == "exec" and "/busbar/in-pod.part" in words[-1]}
    assert written == {"busbar-ranks-0-x", "busbar-ranks-1-x"}, (
        "Open MPI's daemon exits in a pod without in-pod, although only the first pod uses it"
    )
    assert not [text for text in inside if "/busbar/kubectl.part" in text], "the image already has a kubectl that runs"
    assert inside[-1] == "/busbar/in-pod 10.244.1.7 true || echo 10.244.1.7"


def test_only_the_first_pod_gets_the_list_of_all_pods_addresses_and_names(cluster, monkeypatch):
    written: list[tuple[str, str]] = []

    def run(words: tuple[str, ...], given: Any) -> Answer:
        if "/busbar/pods.part" in words[-1]:
            written.append((words[1], given.decode()))
        return Cluster.run(cluster, words, given)

    monkeypatch.setattr(cluster, "run", run)
    kubernetes_contact.main(NODES, CONTACT)
    assert written == [("busbar-ranks-0-x", "10.244.0.7 busbar-ranks-0-x\n10.244.1.7 busbar-ranks-1-x\n")]


def test_an_image_without_kubectl_gets_the_kubectl_of_the_control_planes_host(cluster):
    cluster.inner.insert(0, ("command -v kubectl", Answer(1, "", "")))
    kubernetes_contact.main(NODES, CONTACT)
    inside = [words[-1] for words in cluster.calls if words[0] == "exec" and words[2] == "busbar-ranks-0-x"]
    assert [text for text in inside if "/busbar/kubectl.part" in text]


def test_a_kubectl_that_the_image_cannot_run_is_named_and_the_sentence_says_what_to_do(cluster):
    cluster.inner.insert(0, ("kubectl version", Answer(126, "", "cannot execute binary file: Exec format error")))
    assert refused() == (
        "kubectl of the control plane's host (/bin/true) does not run in the image: cannot execute binary file: Exec format "
        "error; use an image that contains kubectl"
    )


def test_a_missing_kubectl_is_refused_while_an_existing_one_gets_the_given_kubeconfig_and_context(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "kubectl").write_text("#!/bin/sh\n")
    (tmp_path / "kubectl").chmod(0o755)
    its = {"kubeconfig": "~/.kube/site", "context": "admin@site", "host": "this machine"}
    assert Kubectl(its, "busbar").words[1:] == [
        *("--kubeconfig", f"{tmp_path}/.kube/site", "--context", "admin@site", "--namespace", "busbar")
    ]
    (tmp_path / "kubectl").unlink()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SystemExit, match="this machine has no kubectl; install it there"):
        Kubectl(its, "busbar")


def test_the_program_that_replaces_ssh_calls_kubectl_for_the_pod_with_the_given_address(tmp_path):
    home = str(tmp_path)
    (tmp_path / "pods").write_text("10.244.0.7 first\n10.244.1.7 second\n")
    (tmp_path / "kubectl").write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    script = tmp_path / "in-pod"
    script.write_text(kubernetes_contact.IN_POD.format(home=home, namespace="busbar"))
    words = ["sh", str(script), "10.244.1.7", "PATH=/mpi/bin orted", "-mca x 'a b'"]
    found = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert found == "--namespace|busbar|exec|--stdin|second|--container|ranks|--|sh|-c|PATH=/mpi/bin orted -mca x 'a b'|"
    unknown = subprocess.run([*words[:2], "10.9.9.9", "true"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 255
    assert "no pod of this stack has the address 10.9.9.9" in unknown.stderr


@pytest.mark.usefixtures("cluster")
def test_without_rdma_devices_nccl_uses_sockets_over_the_rails(capsys):
    kubernetes_contact.main(NODES, CONTACT | {"devices": [], "rails": ["net1", "net2"]})
    line = json.loads(capsys.readouterr().out)
    assert line["fronts"] == ["net1,net2"]
    assert line["groups"][0]["facts"]["hca"] == []


#: Fault -> the pod's answers to commands, and a part of the refusal.
WRONG: dict[str, tuple[list[tuple[str, Answer]], str]] = {
    "RDMA mode shared": (
        [("rdma system", Answer(0, "netns shared copy-on-fork on\n", "")), said()],
        "kubernetes.rdma is exclusive, but the node shares its RDMA devices (`rdma system` says netns shared)",
    ),
    "the device stayed on the node": (
        [("rdma system", Answer(0, "netns exclusive\n", "")), said(hca=[])],
        "the pod does not see the RDMA device irdma0 (it sees none): the device stayed in the node's network",
    ),
    "a port that is down": (
        [("rdma system", Answer(0, "netns exclusive\n", "")), said(hca=[["irdma0", 25, "net1", False, "ice"]])],
        "the RDMA device irdma0 has no active port",
    ),
    "no GPU": ([said(gpus=0)], "nvidia-smi shows 0 GPUs, but kubernetes.gpus is 1"),
    "no MPI": ([said(mpi=None)], "its image has no Open MPI: no folder like /usr/local/mpi has bin/mpirun"),
    "no Python": (
        [("python3", Answer(127, "", "sh: 1: python3: not found"))],
        "its image has no python3, which the runner needs",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_pod_in_which_ranks_cannot_run_is_named_with_the_reason(cluster, name):
    cluster.inner, sentence = WRONG[name]
    found = refused()
    assert found.startswith("2 of 2 pods are not ready: busbar-ranks-0-x (gpu0): ")
    assert sentence in found


@pytest.mark.usefixtures("cluster")
def test_a_node_whose_rdma_mode_differs_from_the_stack_file_is_refused():
    assert "set kubernetes.rdma to exclusive" in refused(rdma="shared")


def test_pods_that_are_not_alike_are_refused(cluster, monkeypatch):
    answers = iter([FACTS, FACTS | {"gpu": "NVIDIA A30"}])
    monkeypatch.setattr(kubernetes_contact, "_WINDOW", 1)
    cluster.inner = cluster.inner[:1]
    genuine = cluster.run

    def exec_(words: tuple[str, ...], stdin: Any) -> Answer:
        return Answer(0, json.dumps(next(answers)), "") if "python3" in words[-1] else genuine(words, stdin)

    cluster.run = exec_
    assert refused() == "the pods are not alike: gpu1 has 1 x NVIDIA A30, and gpu0 has 1 x NVIDIA A100 80GB PCIe"


def test_a_pod_that_was_replaced_during_the_update_is_named_and_the_sentence_says_what_to_do(cluster):
    cluster.pods[1]["status"]["podIP"] = "10.244.1.9"
    assert refused().startswith("the pod on gpu1 is not the pod that was found before: that pod is gone; raise ")


def test_a_pod_that_cannot_start_a_command_in_another_pod_is_named(cluster):
    cluster.inner.insert(0, ("in-pod 10.244.1.7", Answer(0, "10.244.1.7\n", 'pods "x" is forbidden\n')))
    assert refused().startswith('the pod on gpu0 cannot start a command in the pods on gpu1: pods "x" is forbidden')


ASK_RUN: dict[str, Any] = {
    "kubectl": ASK["kubectl"],
    "cluster": "busbar",
    "namespace": "busbar",
    "pods": "x",
    "node": "gpu0",
    "files": [],
    "command": "work",
}


def run(monkeypatch, request: dict[str, Any], status: int, after: Any = None) -> list[list[str]]:
    """Run the program with `request` on its stdin. The pod's command calls the function `after` and exits with `status`."""
    started: list[list[str]] = []

    def ran(words: list[str], **_: Any) -> SimpleNamespace:
        started.append(words)
        if after:
            after()
        return SimpleNamespace(returncode=status)

    monkeypatch.setattr(kubernetes_run.subprocess, "run", ran)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(json.dumps(request).encode())))
    kubernetes_run.main(ASK_RUN)
    return started


REQUEST = {"run_id": "abc", "kind": "measure"}


def one_pod(cluster: Cluster, words: tuple[str, ...], given: Any) -> Answer:
    """Answer `get pods NAME` with the pod of that name, and every other request as the cluster does."""
    found = cluster.objects.get((words[0], words[1])) if len(words) > 1 else None
    return Answer(0, json.dumps(found), "") if found else Cluster._get(cluster, words, given)  # noqa: SLF001


@pytest.mark.usefixtures("cluster")
def test_a_command_runs_in_the_home_folder_of_the_pod_on_the_first_node(monkeypatch, capsys):
    (words,) = run(monkeypatch, REQUEST, 0)
    assert words[-6:] == ["--container", "ranks", "--", "sh", "-c", "cd /busbar && work"]
    assert "busbar-ranks-0-x" in words
    assert not capsys.readouterr().out


def test_the_eviction_of_a_pod_during_a_run_is_a_result_with_the_clusters_reason(cluster, monkeypatch, capsys):
    def evict() -> None:
        cluster.pods[0] = pod(0, phase="Failed", reason="Evicted", message="The node was low on resource: memory.")

    run(monkeypatch, REQUEST, 137, evict)
    why = requests.refused(capsys.readouterr().out)
    assert why.startswith("the pod on gpu0 is gone: busbar-ranks-0-x ended (Evicted: The node was low on resource: ")


def test_a_pod_that_an_eviction_deleted_is_reported_although_its_replacement_runs(cluster, monkeypatch, capsys):
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }

    def evict() -> None:
        cluster.objects["pods", "busbar-ranks-0-x"] = pod(0, conditions=[target])
        cluster.pods[0] = pod(0, uid="successor")

    ignored = {"type": "DisruptionTarget", "status": "False", "reason": "Other"}
    assert not kubectl.disrupted(pod(0, conditions=[ignored]))
    monkeypatch.setattr(cluster, "_get", lambda words, given: one_pod(cluster, words, given))
    run(monkeypatch, REQUEST, 143, evict)
    why = requests.refused(capsys.readouterr().out)
    assert why.startswith(
        "the pod on gpu0 is gone: busbar-ranks-0-x ended (EvictionByEvictionAPI: Eviction API: evicting); raise measure.run "
    )


def test_a_pod_that_is_gone_before_a_run_is_reported_in_the_result(cluster, monkeypatch, capsys):
    cluster.pods = []
    assert not run(monkeypatch, REQUEST, 0)
    assert "the pod on gpu0 is gone" in requests.refused(capsys.readouterr().out)


@pytest.mark.usefixtures("cluster")
def test_a_command_that_fails_in_a_running_pod_ends_the_program_with_the_exit_status_of_the_command(monkeypatch):
    with pytest.raises(SystemExit) as found:
        run(monkeypatch, REQUEST, 3)
    assert found.value.code == 3


def test_a_python_program_on_standard_input_fails_with_the_reason_if_the_pod_that_should_run_it_is_gone(cluster, monkeypatch):
    cluster.pods = []
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"print(1)\n")))
    with pytest.raises(SystemExit, match="the pod on gpu0 is gone"):
        kubernetes_run.main(ASK_RUN)


def test_without_ssh_a_file_is_copied_into_the_pod_from_the_users_cache(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache/busbar").mkdir(parents=True)
    (tmp_path / "cache/busbar/runner.pyz").write_bytes(b"kept")
    cluster.inner.insert(0, ("test -s", Answer(1, "", "")))
    given: list[bytes] = []
    monkeypatch.setattr(
        cluster, "inside", lambda _pod, command, data=b"", *_: given.append(data) or Answer(int("test" in command), "", "")
    )
    kubernetes_run.bring(cluster, "p", ["runner.pyz"])
    assert given[-1] == b"kept"


def test_a_file_is_copied_into_the_pod_only_if_the_pod_lacks_the_file(cluster, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "runner.pyz").write_bytes(b"x")
    cluster.inner.insert(0, ("test -s /busbar/runner.pyz", Answer(1, "", "")))
    kubernetes_run.bring(cluster, "p", ["runner.pyz"])
    assert [words[-1] for words in cluster.calls][
        -1
    ] == "cat > /busbar/runner.pyz.part && mv /busbar/runner.pyz.part /busbar/runner.pyz"
    cluster.inner.insert(0, ("test -s", Answer(0, "", "")))
    before = len(cluster.calls)
    kubernetes_run.bring(cluster, "p", ["runner.pyz"])
    assert len(cluster.calls) == before + 1
