"""A whole stack on an existing Kubernetes cluster: real Kubernetes 1.28 on rehearsed hosts, the real engine and program.

The tests build on each other: each continues where the previous one ended. `make kubernetes` runs them.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rehearsed_cluster import ALLOWED, SITE, again, inside, kubectl, ours, pods
from wait_until import wait_until

from rehearsal.host import hosts
from rehearsal.kubernetes import cluster
from rehearsal.world.world import World
from tools.stack_changes import DEFAULT, merged
from tools.stage import Finished, Stage

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes")]
#: The rate of a rail of 25 Gbit/s at scale 1/100, in GB/s. The busbw of two ranks is the rate at which each rank sends.
WIRE_GB_S = 25 / 8 / 100


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[tuple[Stage, Finished]]:
    """The stack with its own stack file and a short plan of measurements, after `up`; and the update's output."""
    stage = Stage(tmp_path_factory.mktemp("kubernetes"), "kubernetes", SITE)
    yield stage, stage.pass_by(**ALLOWED)
    stage.close()


def carried(stage: Stage) -> dict[str, int]:
    """Return the bytes that each interface of the first pod has sent."""
    links = json.loads(inside(stage, "gpu0", "ip -s -json link"))
    return {one["ifname"]: int(one["stats64"]["tx"]["bytes"]) for one in links}


def test_two_pods_that_are_measured_over_their_rail_get_the_verdict_pass(built):
    stage, found = built
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert measured["verdict"] == "pass"
    assert measured["busbw_gb_s"] / WIRE_GB_S >= 0.9, measured["busbw_gb_s"]
    assert {node["name"] for node in stage.outputs()["nodes"]} == {"gpu0", "gpu1"}
    assert " kubectl --namespace busbar exec " in stage.outputs()["ssh"].replace("'", " ")


def test_a_rail_that_is_reached_by_tcp_is_reported_as_lacking_its_rdma_device(built):
    stage, _ = built
    (proofs,) = [one for one in stage.outputs()["measured"]["checks"] if one["name"] == "proofs"]
    assert proofs["state"] == "skipped"
    reached, unmeasured = proofs["why"]
    assert reached == "2 rails were reached by address, and 0 were measured"
    assert unmeasured.startswith("irdma0 from gpu0 to gpu1: not measured: there is no /dev/infiniband/uverbs0, so no program ")


def test_the_rail_carries_the_bytes_while_the_default_network_carries_hardly_any(built):
    stage, _ = built
    before = carried(stage)
    found = again(stage)
    assert found.status == 0, found
    moved = {name: after - before[name] for name, after in carried(stage).items()}
    assert moved["eth0"] < moved["net1"] / 100, moved


def test_the_counters_of_a_rail_are_read_from_the_device_in_the_pod(built):
    stage, _ = built
    counter = "/sys/class/infiniband/irdma0/ports/1/hw_counters/ip4OutOctets"
    for node in ("gpu0", "gpu1"):
        assert int(inside(stage, node, f"cat {counter}")) > 10**6


def test_a_pod_has_the_tcp_settings_of_its_node(built):
    stage, _ = built
    for name in ("tcp_congestion_control", "tcp_rmem", "tcp_wmem"):
        path = f"/proc/sys/net/ipv4/{name}"
        own = hosts.enter(World.at(stage.world, stage.scale), "site00", ["cat", path]).stdout.strip()
        assert inside(stage, "gpu0", f"cat {path}").strip() == own


def test_an_unchanged_update_changes_nothing(built):
    stage, _ = built
    before = pods(stage)
    found = stage.up(**stage.passed)
    assert found.status == 0, found
    assert not found.changes()
    assert pods(stage) == before


def scraped(stage: Stage, node: str, of: str) -> str:
    """From the pod on `node`, query the exporter in the pod on node `of`, and return the exporter's answer."""
    (address,) = [one["status"]["podIP"] for one in ours(stage) if one["spec"]["nodeName"] == of]
    program = f"import urllib.request as u; print(u.urlopen('http://{address}:9879/metrics', timeout=5).read().decode())"
    (name,) = [one["metadata"]["name"] for one in ours(stage) if one["spec"]["nodeName"] == node]
    world = World.at(stage.world, stage.scale)
    return cluster.kubectl(world, "sitejump", "--namespace", "busbar", "exec", name, "--", "python3", "-IS", "-c", program)


def test_only_readers_of_the_exporter_get_the_counters_of_devices_in_pods(built):
    stage, _ = built
    before = pods(stage)
    # The exporter's readers are only the pods in the first node's part of the pod network.
    wanted = merged(stage.passed, {"monitoring": {"exporter": True, "readFrom": ["10.244.1.0/24"]}})
    found = stage.up(**wanted)
    assert found.status == 0, found
    assert pods(stage) == before
    for node in ("gpu0", "gpu1"):
        text = scraped(stage, "gpu0", node)
        (octets,) = [line for line in text.splitlines() if line.startswith("busbar_rdma_hw_ip4OutOctets_total{")]
        assert octets.startswith('busbar_rdma_hw_ip4OutOctets_total{device="irdma0",port="1"}')
        assert int(float(octets.split()[-1])) > 10**6
    with pytest.raises(RuntimeError, match=r"Remote end closed|Connection reset|empty reply"):
        scraped(stage, "gpu1", "gpu0")
    assert "kubernetes_sd_configs" in stage.outputs()["monitoring"]
    gone = stage.up(**merged(stage.passed, {"monitoring": {"exporter": False}}))
    assert gone.status == 0, gone
    with pytest.raises(RuntimeError, match="Connection refused"):
        scraped(stage, "gpu0", "gpu0")


#: A request -> its changes to the stack's key `kubernetes`, and text that the update prints. The cluster must not change.
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another cluster": (
        {"server": "https://10.20.0.9:6443"},
        "kubernetes.server is https://10.20.0.9:6443, but the kubeconfig on the control plane's host leads to https://10.20",
    ),
    "a node that does not exist": (
        {"nodes": ["gpu0", "gpu9"]},
        "kubernetes.nodes has gpu9, but the cluster has no such node; it has gpu0, gpu1",
    ),
    "more GPUs than a node has": ({"gpus": 2}, "which offers 1 of nvidia.com/gpu to pods, but kubernetes.gpus is 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_the_cluster_cannot_satisfy_is_refused_and_the_pods_stay(built, name):
    stage, _ = built
    before = pods(stage)
    changes, sentence = REFUSED[name]
    found = stage.up(**merged(stage.passed, {"kubernetes": changes}))
    assert found.status != 0
    assert sentence in found.text
    assert pods(stage) == before


def test_a_cordoned_node_is_named(built):
    stage, _ = built
    kubectl(stage, "cordon gpu1")
    try:
        found = again(stage)
    finally:
        kubectl(stage, "uncordon gpu1")
    assert found.status != 0
    assert "kubernetes.nodes has gpu1, which is cordoned" in found.text


def test_a_user_without_permissions_is_told_which_permissions_are_missing(built):
    stage, _ = built
    config = {"kubeconfig": "/tmp/poor.conf"}  # noqa: S108 - on the rehearsed host
    kubectl(stage, "create serviceaccount poor --namespace default")
    token = kubectl(stage, "create token poor --namespace default").strip()
    kubectl(stage, "create clusterrole looks --verb=list,get --resource=nodes,namespaces")
    kubectl(stage, "create clusterrolebinding poor --clusterrole=looks --serviceaccount=default:poor")
    text = cluster.texts.kubeconfig("https://10.20.0.2:6443")
    text = text.replace(
        "client-certificate: /etc/kubernetes/admin.crt, client-key: /etc/kubernetes/admin.key", f"token: {token}"
    )
    hosts.enter(World.at(stage.world, stage.scale), "sitejump", ["sh", "-c", f"cat > /tmp/poor.conf <<'END'\n{text}\nEND"])
    found = stage.up(**merged(stage.passed, {"kubernetes": config}))
    assert found.status != 0
    assert "the kubeconfig's user may not list pods, create pods/exec, list events, patch serviceaccounts" in found.text


def test_after_a_replacement_of_pods_the_measurement_runs_again_and_the_former_pods_evidence_is_kept(built):
    # This test deletes pods only once: each time a Job loses pods, the cluster doubles its wait before it creates new pods.
    stage, _ = built
    before, evidence = pods(stage), stage.outputs()["measured"]["evidence"]
    kubectl(stage, "--namespace busbar delete pods --all --wait")
    found = again(stage)
    assert found.status == 0, found
    assert not set(pods(stage).values()) & set(before.values())
    assert stage.outputs()["measured"]["verdict"] == "pass"
    assert stage.outputs()["measured"]["evidence"] != evidence
    text = inside(stage, "gpu0", f"gzip -dc {evidence['path']}")
    assert hashlib.sha256(text.encode()).hexdigest() == evidence["sha256"]
    kept = evidence["path"].replace("/busbar/.busbar/", "/home/ubuntu/.busbar/kubernetes/busbar/")
    there = hosts.enter(World.at(stage.world, stage.scale), "sitejump", ["gzip", "-dc", kept])
    assert there.stdout == text


@pytest.fixture
def operators(built, monkeypatch) -> Iterator[dict[str, Any]]:
    """A kubectl and a kubeconfig on the operator's machine, and the keys of the target that use the kubeconfig.

    The stack is changed back before HOME and PATH get their former values. Without the test's HOME and PATH, other tests could
    not find the two files, and could not destroy a stack that uses them.
    """
    stage, _ = built
    home, programs = stage.folder / "home", stage.folder / "kubectl"
    for folder in (home / ".kube", programs):
        folder.mkdir(parents=True)
    (home / ".cache").symlink_to(Path.home() / ".cache")  # Kubernetes' programs, which the rehearsed hosts mount
    (programs / "kubectl").symlink_to(cluster.programs() / "kubectl")
    server = "https://203.0.113.200:6443"
    text = cluster.texts.kubeconfig(server).replace("/etc/kubernetes/", f"{stage.world}/kubernetes/")
    (home / ".kube" / "site").write_text(text)
    monkeypatch.setitem(stage.environment, "HOME", str(home))
    monkeypatch.setitem(stage.environment, "PATH", f"{programs}:{stage.environment['PATH']}")
    yield {"controlPlane": DEFAULT, "kubeconfig": "~/.kube/site", "context": "rehearsed", "server": server}
    back = stage.up(**stage.passed)
    assert back.status == 0, back


def test_a_kubeconfig_on_the_operators_machine_also_works_and_a_switch_to_that_kubeconfig_replaces_no_pod(built, operators):
    stage, _ = built
    before = pods(stage)
    found = stage.up(**merged(stage.passed, {"kubernetes": operators}))
    assert found.status == 0, found
    assert pods(stage) == before
    assert stage.outputs()["measured"]["verdict"] == "pass"
    kinds = {one["type"] for one in stage.resources() if one["type"].startswith("command:")}
    assert kinds == {"command:local:Command"}
    evidence = stage.outputs()["measured"]["evidence"]
    kept = evidence["path"].replace("/busbar/.busbar/", f"{stage.folder}/home/.busbar/kubernetes/203.0.113.200_6443/busbar/")
    assert hashlib.sha256(gzip.decompress(Path(kept).read_bytes())).hexdigest() == evidence["sha256"]
    shell = stage.outputs()["ssh"].replace(" --stdin --tty ", " ").replace("-- bash", "-- hostname")
    # The scheduler decides which of the Job's pods runs on a node.
    (head,) = [one["spec"]["hostname"] for one in ours(stage) if one["spec"]["nodeName"] == "gpu0"]
    assert stage.inside(*shlex.split(shell)).text.split() == [head]
    unchanged = stage.up(**merged(stage.passed, {"kubernetes": operators}))
    assert unchanged.status == 0, unchanged
    assert not unchanged.changes()
    assert pods(stage) == before
    back = stage.up(**stage.passed)
    assert back.status == 0, back
    assert pods(stage) == before


def workers(stage: Stage) -> dict[str, str]:
    """Return the uid of each pod that runs ranks, by the pod's name."""
    return {one["metadata"]["name"]: one["metadata"]["uid"] for one in ours(stage) if "launcher" not in one["metadata"]["name"]}


def test_an_mpi_job_is_refused_without_mpi_operator_and_measured_with_mpi_operator(built):
    stage, _ = built
    before = pods(stage)
    wanted = merged(stage.passed, {"kubernetes": {"job": "MPIJob"}})
    found = stage.up(**wanted)
    assert found.status != 0
    assert (
        "kubernetes.job is MPIJob, but the cluster does not know MPIJob of kubeflow.org/v2beta1: MPI Operator is not "
        in found.text
    )
    assert pods(stage) == before
    kubectl(stage, "apply --server-side --filename /opt/kubernetes/mpijobs.yaml")
    # `kubectl wait` fails if the definition is so new that it has no conditions.
    wait_until(lambda: "mpijobs" in kubectl(stage, "api-resources --api-group=kubeflow.org"), "the cluster knows MPIJobs", 30)
    words = "/opt/kubernetes/mpi-operator --kubeConfig /etc/kubernetes/admin.conf --lock-namespace default"
    begin = f"setsid --fork {words} </dev/null >/var/log/mpi-operator.log 2>&1"
    hosts.enter(World.at(stage.world, stage.scale), "sitejump", ["bash", "-c", begin])
    found = stage.up(**wanted)
    assert found.status == 0, found
    assert stage.outputs()["measured"]["verdict"] == "pass"
    assert set(workers(stage)) == {"busbar-ranks-worker-0", "busbar-ranks-worker-1"}
    assert not kubectl(stage, "--namespace busbar get service,job.batch busbar-ranks --ignore-not-found -o name").strip()
    held = workers(stage)
    unchanged = stage.up(**wanted)
    assert unchanged.status == 0, unchanged
    assert not unchanged.changes()
    assert workers(stage) == held
    kubectl(stage, "--namespace busbar delete pod busbar-ranks-worker-1 --wait")
    found = again(stage, kubernetes={"job": "MPIJob"})
    assert found.status == 0, found
    assert workers(stage)["busbar-ranks-worker-0"] == held["busbar-ranks-worker-0"]
    assert workers(stage)["busbar-ranks-worker-1"] != held["busbar-ranks-worker-1"]
    back = stage.up(**stage.passed)
    assert back.status == 0, back
    assert not kubectl(stage, "--namespace busbar get mpijobs,pods -o name").count("worker")


def test_a_change_of_the_namespace_moves_the_pods_and_deletes_the_former_namespace(built):
    stage, _ = built
    elsewhere = merged(stage.passed, {"kubernetes": {"namespace": "elsewhere"}})
    found = stage.up(**elsewhere)
    assert found.status == 0, found
    assert kubectl(stage, "--namespace elsewhere get pods -o name").count("pod/") == 2
    assert not kubectl(stage, "get namespace busbar --ignore-not-found -o name").strip()
    back = stage.up(**stage.passed)
    assert back.status == 0, back
    assert len(pods(stage)) == 2
    assert not kubectl(stage, "get namespace elsewhere --ignore-not-found -o name").strip()


def test_destroy_removes_only_the_objects_of_the_stack(built):
    stage, _ = built
    kubectl(stage, "--namespace busbar create configmap theirs --from-literal=a=b")
    found = stage.destroy()
    assert found.status == 0, found
    kinds = "all,configmaps,roles,rolebindings,network-attachment-definitions"
    left = kubectl(stage, f"--namespace busbar get {kinds} -o name").split()
    assert left == ["configmap/kube-root-ca.crt", "configmap/theirs"]


def test_a_foreign_object_is_never_overwritten(built):
    stage, _ = built
    kubectl(stage, "--namespace busbar create service clusterip busbar-ranks --tcp=80:80")
    before = kubectl(stage, "--namespace busbar get service busbar-ranks -o json")
    found = stage.up(**stage.passed)
    assert found.status != 0
    assert "where objects of other owners have the names of this stack's objects, and were not changed: " in found.text
    assert kubectl(stage, "--namespace busbar get service busbar-ranks -o json") == before
