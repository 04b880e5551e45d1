"""Faults of a real Kubernetes cluster: each is reported in the update's error or the verdict's reason; the next update passes.

Every test plants a fault and removes it, so the tests can run on one stack in any order. `make kubernetes` runs the tests.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rehearsed_cluster import ALLOWED, SITE, again, kubectl, ours, pods
from wait_until import wait_until

from rehearsal.host import hosts
from rehearsal.kubernetes import cluster
from rehearsal.world.world import World
from tools.stage import Finished, Stage

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes-faults")]
#: How long kube-controller-manager waits before it marks a silent node NotReady (--node-monitor-grace-period), and a margin.
NOT_READY_S = 90


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[Stage]:
    """The stack with its own stack file and a short plan of measurements, after `up`."""
    made = Stage(tmp_path_factory.mktemp("kubernetes"), "kubernetes", SITE)
    found = made.pass_by(**ALLOWED)
    assert found.status == 0, found
    yield made
    made.close()


def on_node(stage: Stage, number: int, script: str) -> str:
    """Run a shell script as root on a node's console."""
    done = hosts.enter(World.at(stage.world, stage.scale), f"site{number:02}", ["bash", "-c", script])
    assert done.returncode == 0, done
    return done.stdout


def apply(stage: Stage, one: dict[str, Any]) -> None:
    kubectl(stage, "apply --filename -", json.dumps(one))


def is_ready(stage: Stage, node: str) -> bool:
    found = json.loads(kubectl(stage, f"get node {node} --output json"))
    return {"type": "Ready", "status": "True"}.items() <= next(
        one for one in found["status"]["conditions"] if one["type"] == "Ready"
    ).items()


def heals(stage: Stage) -> None:
    """Check that, now that the fault is removed, the stack is measured again and passes."""
    found = again(stage)
    assert found.status == 0, found
    assert stage.outputs()["measured"]["verdict"] == "pass"


@contextlib.contextmanager
def taken(stage: Stage, node: str) -> Iterator[None]:
    """Delete the stack's pods, and let another user's pod hold a node's GPU, for which the stack's next pod must wait."""
    kubectl(stage, "--namespace busbar delete job busbar-ranks --wait --cascade=foreground")
    held = {"limits": {"nvidia.com/gpu": "1"}}
    container = {"name": "x", "image": cluster.texts.IMAGE, "command": ["sleep", "600"], "resources": held}
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}, "terminationGracePeriodSeconds": 0, "containers": [container]}
    apply(stage, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "theirs", "namespace": "default"}, "spec": spec})
    kubectl(stage, "--namespace default wait --for=condition=Ready --timeout=60s pod/theirs")
    try:
        yield
    finally:
        kubectl(stage, "--namespace default delete pod theirs --ignore-not-found --wait")


class Beside:
    """An update that runs in parallel with the test."""

    def __init__(self, work: Callable[[], Finished]) -> None:
        self._found: list[Finished] = []
        self._thread = threading.Thread(target=lambda: self._found.append(work()))
        self._thread.start()

    def ended(self) -> Finished:
        self._thread.join(300)
        assert self._found, "the update did not end"
        return self._found[0]


def test_a_node_whose_kubelet_does_not_answer_is_named_and_its_pod_stays(stage):
    before = pods(stage)
    on_node(stage, 1, "pkill -STOP -x kubelet")
    try:
        wait_until(lambda: not is_ready(stage, "gpu1"), "gpu1 is not ready", NOT_READY_S)
        found = again(stage)
    finally:
        on_node(stage, 1, "pkill -CONT -x kubelet")
    assert found.status != 0
    assert "kubernetes.nodes has gpu1, which is NotReady (Kubelet stopped posting node status.)" in found.text
    wait_until(lambda: is_ready(stage, "gpu1"), "gpu1 is ready", NOT_READY_S)
    assert pods(stage) == before
    heals(stage)
    assert pods(stage) == before


def test_the_error_says_that_multus_is_missing_before_anything_is_changed(stage):
    before = pods(stage)
    kubectl(stage, "delete crd network-attachment-definitions.k8s.cni.cncf.io --wait")
    try:
        found = again(stage)
    finally:
        kubectl(stage, "apply --filename -", cluster.texts.RESOURCES)
    assert found.status != 0
    assert "the cluster does not know k8s.cni.cncf.io: Multus is not installed there" in found.text
    assert pods(stage) == before
    heals(stage)


def test_the_error_says_that_somebody_deleted_the_definition_of_a_rail(stage):
    with taken(stage, "gpu1"):
        update = Beside(lambda: again(stage))
        wait_until(lambda: "gpu0" in pods(stage), "a pod is on gpu0", 60)
        kubectl(stage, "--namespace busbar delete network-attachment-definitions busbar-rail0")
    found = update.ended()
    assert found.status != 0
    assert "cannot start: the rail's NetworkAttachmentDefinition is gone" in found.text
    heals(stage)


def test_the_error_says_that_the_range_of_a_rail_has_no_free_address(stage):
    others = {str(at): {"id": f"other{at}", "podref": f"default/other{at}"} for at in (1, 2)}
    pool = {"range": "10.100.101.0/30", "allocations": others}
    about = {"name": "10.100.101.0-30", "namespace": "kube-system"}
    apply(stage, {"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": about, "spec": pool})
    rails = [{"interface": "rdma0", "device": "irdma0", "range": "10.100.101.0/30"}]
    found = again(stage, kubernetes={"rails": rails})
    assert found.status != 0
    assert "cannot start: the addresses of the rail's range are used up: give kubernetes.rails a wider range" in found.text
    kubectl(stage, "--namespace kube-system delete ippools.whereabouts.cni.cncf.io 10.100.101.0-30")
    heals(stage)


def test_the_error_says_that_the_nodes_lack_an_interface_of_the_rails(stage):
    found = again(stage, kubernetes={"rails": [{"interface": "rdma9", "device": "irdma0", "range": "10.100.100.0/29"}]})
    assert found.status != 0
    assert "cannot start: the node lacks an interface that kubernetes.rails names" in found.text
    heals(stage)


def test_the_error_names_an_image_that_no_registry_has(stage):
    found = again(stage, kubernetes={"image": "registry.rehearsed/busbar/none:1.0"})
    assert found.status != 0
    assert "kubernetes.image is registry.rehearsed/busbar/none:1.0, which the node cannot pull (" in found.text
    heals(stage)


def test_the_error_names_the_key_in_the_stack_file_if_a_node_shares_its_rdma_devices(stage):
    says = "#!/bin/sh\necho netns shared copy-on-fork on\n"
    on_node(stage, 1, f"printf '{says}' >/usr/local/bin/rdma && chmod 755 /usr/local/bin/rdma")
    try:
        # The pods are replaced so that the update makes first contact again.
        kubectl(stage, "--namespace busbar delete pods --all --wait")
        found = again(stage)
    finally:
        on_node(stage, 1, "rm /usr/local/bin/rdma")
    assert found.status != 0
    assert "1 of 2 pods are not ready: " in found.text
    assert "kubernetes.rdma is exclusive, but the node shares its RDMA devices (`rdma system` says netns shared)" in found.text
    heals(stage)


def test_the_transcript_of_a_pod_that_is_evicted_during_a_measurement_is_kept_and_the_next_measurement_passes(stage):
    # 48 looks (short runs) of about a second each leave enough time for an eviction during the measurement.
    update = Beside(lambda: again(stage, measure={"looks": 48}))
    runs = "/home/ubuntu/.busbar/kubernetes/busbar/runs"
    world = World.at(stage.world, stage.scale)

    def copied() -> set[str]:
        listed = hosts.enter(world, "sitejump", ["find", runs, "-name", "all_reduce.txt"]).stdout
        return set(listed.split())

    before = copied()
    wait_until(lambda: copied() > before, "a transcript is on the control plane's host while the pod measures", 120)
    (name,) = [one["metadata"]["name"] for one in ours(stage) if one["spec"]["nodeName"] == "gpu0"]
    asked = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "busbar"}}
    kubectl(stage, f"create --raw /api/v1/namespaces/busbar/pods/{name}/eviction -f -", json.dumps(asked))
    found = update.ended()
    assert found.status != 0
    measured = stage.outputs()["measured"]
    assert measured["verdict"] == "unknown"
    why = measured["reasons"][0]
    assert why.startswith(f"the pod on gpu0 is gone: {name} ended (EvictionByEvictionAPI: Eviction API: evicting); its ")
    (kept,) = copied() - before
    assert f"are in {kept.rpartition('/')[0]} on the control plane's host" in why
    assert "float" in hosts.enter(world, "sitejump", ["cat", kept]).stdout
    heals(stage)
