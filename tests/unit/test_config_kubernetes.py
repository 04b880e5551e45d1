"""An existing Kubernetes cluster: how it is reached, its nodes and its rails; every mistake is refused in one sentence."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from config import read
from config.kubernetes.model import Kubernetes
from config.kubernetes.rules import RULES, findings
from tools.stack_changes import DEFAULT

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
RAIL = {"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/30"}
OTHER = {"interface": "ens224", "device": "irdma1", "range": "10.100.101.0/30"}


@pytest.fixture
def given(tmp_path) -> dict[str, Any]:
    """The cluster of an article by IIJ: one control plane, two nodes with one GPU and one RDMA interface each."""
    known = tmp_path / "known_hosts"
    known.write_text(f"10.138.61.49 {KEY}\n203.0.113.9 {KEY}\n")
    return {
        "controlPlane": "root@10.138.61.49",
        "knownHosts": str(known),
        "nodes": ["gpu0", "gpu1"],
        "gpus": 1,
        "rails": [RAIL],
        "image": "registry.example/pytorch:23.09-py3",
    }


def judged(values: dict[str, Any]) -> tuple[Kubernetes, list[str]]:
    """Return the model, and every sentence about these values."""
    kept = {key: value for key, value in values.items() if value is not DEFAULT}
    made, sentences = read.group("kubernetes", Kubernetes, json.dumps(kept))
    assert isinstance(made, Kubernetes)
    return made, [*sentences, *(one.sentence for one in findings(made, None))]


def test_the_cluster_of_the_article_by_iij_is_accepted(given):
    wanted, wrong = judged(given)
    assert not wrong
    assert wanted.addresses == ("10.138.61.49",)
    assert wanted.devices == ("irdma0",)
    assert wanted.namespace == "busbar"
    assert wanted.host_key("10.138.61.49") == KEY


def test_pods_are_privileged_only_where_they_must_open_rdma_devices_themselves(given):
    def privileged(**changes: Any) -> bool:
        wanted, wrong = judged(given | changes)
        assert not wrong
        return wanted.privileged

    assert privileged()
    assert not privileged(rdmaResource="rdma/hca")
    assert not privileged(rails=[{"interface": "ens192", "range": "10.100.100.0/24"}])


#: Changes with which kubectl runs on the machine that runs Pulumi.
HERE: dict[str, Any] = {"controlPlane": DEFAULT, "server": "https://10.138.61.49:6443"}


def test_kubectl_on_this_machine_needs_no_host_keys_and_the_folder_of_results_is_named_after_the_cluster(given, tmp_path):
    path = tmp_path / "config"
    path.touch()
    wanted, wrong = judged(given | HERE | {"kubeconfig": str(path), "knownHosts": "/no/such", "context": "admin@site"})
    assert not wrong
    assert wanted.addresses == ()
    other, _ = judged(given | HERE | {"server": "https://10.138.61.50:6443"})
    assert wanted.folder == "10.138.61.49_6443/busbar" != other.folder
    over_ssh, _ = judged(given | {"server": "https://10.138.61.49:6443"})
    assert over_ssh.folder == "busbar"


#: Changes, and the beginning of the sentence that refuses them.
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"controlPlane": "10.138.61.49"}, "kubernetes.controlPlane is '10.138.61.49'; it must be user@address"),
    ({"controlPlane": DEFAULT}, "kubernetes.server is not set, and neither is kubernetes.controlPlane, so kubectl here"),
    (HERE | {"jump": "admin@203.0.113.8"}, "kubernetes.jump is admin@203.0.113.8, but kubernetes.controlPlane is not set"),
    (HERE | {"kubeconfig": "/no/such"}, "kubernetes.kubeconfig is /no/such, but this machine has no such file"),
    ({"context": "a b"}, "kubernetes.context is 'a b', which is no name of a context"),
    ({"controlPlane": "root@10.0.0.9"}, "kubernetes.knownHosts is "),
    ({"jump": "admin@203.0.113.8"}, "kubernetes.knownHosts is "),
    ({"kubeconfig": ".kube/config"}, "kubernetes.kubeconfig is '.kube/config'; it must be an absolute path"),
    ({"server": "10.138.61.49:6443"}, "kubernetes.server is '10.138.61.49:6443'; it must be the API server's address"),
    ({"namespace": "kube-system"}, "kubernetes.namespace is 'kube-system', which the cluster uses itself"),
    ({"namespace": "Busbar"}, "kubernetes.namespace is 'Busbar'; a namespace has lower-case letters"),
    ({"nodes": []}, "kubernetes.nodes is empty; name at least one node that has GPUs"),
    ({"nodes": ["gpu0", "gpu0"]}, "kubernetes.nodes has gpu0 twice; list every node once"),
    ({"nodes": ["gpu_0"]}, "kubernetes.nodes has 'gpu_0', which is no name of a node"),
    ({"gpus": 0}, "kubernetes.gpus is 0; it must be "),
    ({"gpuResource": "gpu"}, "kubernetes.gpuResource is 'gpu'; an extended resource is called domain/name"),
    ({"rails": []}, "kubernetes.rails is empty, but 2 nodes are measured; name the interfaces of the fabric"),
    ({"rails": [RAIL, RAIL | {"range": "10.9.0.0/24"}]}, "kubernetes.rails has interface ens192 twice; name each interface"),
    (
        {"rails": [RAIL | {"range": "10.100.100.1/30"}]},
        "kubernetes.rails[0].range is '10.100.100.1/30', which is no IPv4 network",
    ),
    (
        {"rails": [RAIL | {"range": "10.100.100.0/31"}]},
        "kubernetes.rails[0].range is 10.100.100.0/31, which has addresses for 0",
    ),
    (
        {"rails": [RAIL, OTHER | {"range": "10.100.0.0/16"}]},
        "kubernetes.rails[1].range is 10.100.0.0/16, which overlaps",
    ),
    ({"rails": [RAIL, {"interface": "a", "range": "10.9.0.0/24"}]}, "kubernetes.rails[1].device is not set, but other rails"),
    (
        {"rails": [{"interface": "a", "range": "10.9.0.0/24", "pci": "0000:14:00.0"}]},
        "kubernetes.rails[0].pci is set, but device",
    ),
    ({"rails": [RAIL | {"pci": "14:00.0"}]}, "kubernetes.rails[0].pci is '14:00.0'; it must be a PCI address"),
    (
        {"rails": [RAIL | {"pci": "0000:14:00.0"}], "rdma": "shared"},
        "kubernetes.rails[0].pci is set, but kubernetes.rdma is shared",
    ),
    ({"rails": [RAIL | {"interface": "ens 192"}]}, "kubernetes.rails[0].interface is 'ens 192'; it must be the name of"),
    ({"rails": [RAIL | {"device": "../x"}]}, "kubernetes.rails[0].device is '../x'; it must be the name of an RDMA device"),
    (
        {"rails": [{"interface": "ens192", "range": "10.9.0.0/24"}], "rdmaResource": "rdma/hca"},
        "kubernetes.rdmaResource is set, but no rail has a device",
    ),
    ({"image": "registry.example/pytorch"}, "kubernetes.image is 'registry.example/pytorch', which means the tag latest"),
    (
        {"image": "registry.example/pytorch:latest"},
        "kubernetes.image is 'registry.example/pytorch:latest', which means the tag latest",
    ),
    ({"image": "https://x/y:1"}, "kubernetes.image is 'https://x/y:1', which is no image"),
    (
        {"secondaryNetworks": {}, "rails": [], "nodes": ["gpu0"]},
        "kubernetes.secondaryNetworks is set, but kubernetes.rails is empty",
    ),
    (
        {"secondaryNetworks": {"install": ["multus", "multus"]}},
        "kubernetes.secondaryNetworks.install has multus twice; name it once",
    ),
    ({"secondaryNetworks": {"install": []}}, "kubernetes.secondaryNetworks.install "),
    ({"secondaryNetworks": {"install": ["calico"]}}, "kubernetes.secondaryNetworks.install[0] "),
    (
        {"secondaryNetworks": {"multusImage": "registry.example/multus-cni:latest"}},
        "kubernetes.secondaryNetworks.multusImage is 'registry.example/multus-cni:latest', which means the tag latest",
    ),
    ({"pullSecret": "My_Secret"}, "kubernetes.pullSecret is 'My_Secret'; the name of a secret has lower-case letters, digits"),
    ({"pods": 2}, "kubernetes.pods is not a key of the configuration"),
]


@pytest.mark.parametrize(("changes", "sentence"), WRONG, ids=[sentence[:60] for _, sentence in WRONG])
def test_a_wrong_setting_is_refused_in_a_sentence_that_begins_with_its_path(given, changes, sentence):
    _, said = judged(given | changes)
    assert len([one for one in said if one.startswith(sentence)]) == 1, said


def test_an_image_may_be_pinned_by_its_digest_instead_of_a_tag(given):
    assert not judged(given | {"image": "registry.example:5000/a/b@sha256:" + "0" * 64})[1]


@pytest.mark.parametrize("name", ["kube-registry", "registry.example", "default"])
def test_the_secret_that_pulls_the_image_may_have_any_name_that_kubernetes_accepts(given, name):
    assert not judged(given | {"pullSecret": name})[1]


def test_every_rule_is_broken_by_a_case(given, operator):
    cases = [changes for changes, _ in WRONG] + [{"gpuOperator": operator | {"sha256": "0" * 64}}]
    broken = {one.rule for changes in cases for one in findings(judged(given | changes)[0], None)}
    assert broken == set(RULES)


@pytest.fixture
def operator(tmp_path) -> dict[str, Any]:
    chart = tmp_path / "gpu-operator-v24.3.0.tgz"
    chart.write_bytes(b"chart")
    return {"chart": str(chart), "sha256": hashlib.sha256(b"chart").hexdigest()}


def test_a_pinned_chart_is_accepted_with_its_values(given, operator):
    values = {"toolkit": {"version": "v1.15.0-ubi8"}, "driver": {"enabled": False}}
    wanted, wrong = judged(given | {"gpuOperator": operator | {"values": values}})
    assert not wrong
    assert wanted.gpu_operator is not None
    assert (wanted.gpu_operator.namespace, wanted.gpu_operator.values) == ("gpu-operator", values)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sha256": "0" * 64}, f"kubernetes.gpuOperator.sha256 is {'0' * 64}, but "),
        ({"sha256": "v24.3.0"}, "kubernetes.gpuOperator.sha256 is "),
        ({"namespace": "busbar"}, "kubernetes.gpuOperator.namespace is busbar, which is kubernetes.namespace too"),
    ],
)
def test_a_chart_with_a_wrong_checksum_or_in_the_namespace_of_the_pods_is_refused(given, operator, changes, sentence):
    _, wrong = judged(given | {"gpuOperator": operator | changes})
    assert [one for one in wrong if one.startswith(sentence)], wrong


def test_a_chart_whose_file_does_not_exist_is_refused(given, operator):
    _, sentences = read.group("kubernetes", Kubernetes, json.dumps(given | {"gpuOperator": operator | {"chart": "/no.tgz"}}))
    assert [one for one in sentences if one.startswith("kubernetes.gpuOperator.chart is '/no.tgz', and there is no such file")]
