"""A cluster without Multus and whereabouts, on which the stack installs both from their vendors' own manifests.

Real Kubernetes 1.28 on rehearsed hosts. The tests build on each other: each continues where the previous one ended. `make
kubernetes` runs them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rehearsed_cluster import ALLOWED, SITE, inside, kubectl, pods
from wait_until import wait_until

from rehearsal.host import hosts
from rehearsal.kubernetes import cluster
from rehearsal.world.world import World
from tools.stack_changes import merged
from tools.stage import Stage

pytestmark = [pytest.mark.kubernetes, pytest.mark.xdist_group("kubernetes-networks")]
BRINGS = merged(ALLOWED, {"kubernetes": {"secondaryNetworks": {}}})
#: Kinds of the objects that the manifests create. Each object has labels of the stack.
KINDS = "daemonsets.apps,configmaps,serviceaccounts,clusterroles,clusterrolebindings,customresourcedefinitions"


@pytest.fixture(scope="module")
def stage(tmp_path_factory) -> Iterator[Stage]:
    """A cluster with the default network only, and an operator's machine that has the manifests but no Internet access."""
    cache = Path(os.environ["XDG_CACHE_HOME"]) / "busbar"
    cache.mkdir(parents=True, exist_ok=True)
    for manifest in (cluster.programs() / "manifests").iterdir():
        digest = hashlib.sha256(manifest.read_bytes()).hexdigest()
        shutil.copyfile(manifest, cache / f"{digest[:16]}-{manifest.name}")
    made = Stage(tmp_path_factory.mktemp("kubernetes"), "kubernetes", SITE.with_name("kubernetes-default-network.json"))
    yield made
    made.close()


def ours(stage: Stage) -> list[str]:
    """Return the objects of Multus and whereabouts that are labelled as the stack's own."""
    chosen = "app.kubernetes.io/part-of in (busbar-multus,busbar-whereabouts)"
    world = World.at(stage.world, stage.scale)
    words = ("get", KINDS, "--all-namespaces", "--selector", chosen, "--output", "name", "--ignore-not-found")
    return cluster.kubectl(world, "sitejump", *words).split()


def on_node(stage: Stage, number: int, *words: str) -> str:
    """Return the output of a command on a node's console."""
    return hosts.enter(World.at(stage.world, stage.scale), f"site{number:02}", list(words)).stdout


def theirs(stage: Stage, **annotations: str) -> None:
    """Start a pod that does not belong to the stack, and wait until it is ready."""
    container = {"name": "x", "image": cluster.texts.IMAGE, "command": ["sleep", "600"]}
    spec = {"nodeName": "gpu0", "terminationGracePeriodSeconds": 0, "containers": [container]}
    about = {"name": "theirs", "namespace": "default", "annotations": annotations}
    kubectl(stage, "apply --filename -", json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}))
    kubectl(stage, "--namespace default wait --for=condition=Ready --timeout=60s pod/theirs")


def test_a_cluster_without_multus_is_refused_and_the_refusal_names_the_key_that_installs_multus(stage):
    found = stage.up(**ALLOWED)
    assert found.status != 0
    assert "the cluster does not know k8s.cni.cncf.io: Multus is not installed there" in found.text
    assert "let the stack install it (kubernetes.secondaryNetworks)" in found.text


def test_a_foreign_object_is_left_unchanged_and_nothing_of_multus_is_applied(stage):
    kubectl(stage, "create clusterrole multus --verb=get --resource=pods")
    before = kubectl(stage, "get clusterrole multus --output json")
    found = stage.up(**merged(BRINGS, {"kubernetes": {"secondaryNetworks": {"install": ["multus"]}}}))
    assert found.status != 0
    assert (
        "kubernetes.secondaryNetworks.install has multus, but the cluster already has Multus, which was not changed "
        "(clusterrole.rbac.authorization.k8s.io multus)"
    ) in found.text
    assert kubectl(stage, "get clusterrole multus --output json") == before
    assert not ours(stage)
    kubectl(stage, "delete clusterrole multus")


def test_pods_with_rails_from_the_installed_multus_pass_the_measurement(stage):
    found = stage.pass_by(**BRINGS)
    assert found.status == 0, found
    assert "Multus 4.1.4 comes with 6 objects: 1 CustomResourceDefinition" in found.text
    assert "whereabouts 0.8.0 comes with 7 objects: 2 CustomResourceDefinition" in found.text
    assert stage.outputs()["measured"]["verdict"] == "pass"
    assert "net1" in inside(stage, "gpu0", "ls /sys/class/net")
    assert len(ours(stage)) == 6 + 7
    assert "00-multus.conf" in on_node(stage, 0, "ls", "/etc/cni/net.d")


def test_an_unchanged_update_changes_nothing(stage):
    before = pods(stage)
    found = stage.up(**stage.passed)
    assert found.status == 0, found
    assert not found.changes()
    assert pods(stage) == before


def test_multus_and_whereabouts_survive_a_destroy_of_the_stack_while_a_network_of_others_uses_them(stage):
    rail = {"type": "host-device", "device": "rdma0", "ipam": {"type": "whereabouts", "range": "10.100.109.0/29"}}
    spec = {"config": json.dumps({"cniVersion": "0.3.1", "name": "fast", "plugins": [rail]})}
    about = {"name": "fast", "namespace": "default"}
    one = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": about, "spec": spec}
    kubectl(stage, "apply --filename -", json.dumps(one))
    found = stage.destroy()
    assert found.status == 0, found
    for title in ("Multus", "whereabouts"):
        assert (
            f"{title} is left in the cluster, because it is in use and pods would lose their network: "
            "networkattachmentdefinition default/fast"
        ) in found.text
    assert len(ours(stage)) == 6 + 7
    theirs(stage, **{"k8s.v1.cni.cncf.io/networks": "fast@net1"})
    held = kubectl(stage, "--namespace default get pod theirs --output json")
    assert "10.100.109." in json.loads(held)["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"]


def test_a_destroy_removes_multus_and_whereabouts_if_nobody_uses_them_so_that_nodes_start_pods_without_multus(stage):
    kubectl(stage, "--namespace default delete pod theirs --wait")
    kubectl(stage, "--namespace default delete network-attachment-definitions fast")
    found = stage.pass_by(**BRINGS)
    assert found.status == 0, found
    gone = stage.destroy()
    assert gone.status == 0, gone
    assert not ours(stage)
    for number in (0, 1):
        wait_until(lambda at=number: "multus.conf" not in on_node(stage, at, "ls", "/etc/cni/net.d"), "Multus has left", 10)
    theirs(stage)
    kubectl(stage, "--namespace default delete pod theirs --wait")


def test_nodes_that_cannot_pull_the_image_of_multus_are_named_with_the_failed_pull(stage):
    brings: dict[str, Any] = {"install": ["multus"], "multusImage": "registry.rehearsed/none/multus-cni:v4.1.4"}
    wanted = merged(ALLOWED, {"kubernetes": {"secondaryNetworks": brings}, "measure": {"readyTimeout": "25 s"}})
    found = stage.up(**wanted)
    assert found.status != 0
    assert "Multus is applied, but does not run steadily on gpu0, gpu1 after 25 s: kube-multus-ds-" in found.text
    assert "ImagePull" in found.text
