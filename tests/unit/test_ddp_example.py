"""The training job of examples/kubernetes: its manifests fit its script; read_log.py reads its log and IIJ's log."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from conftest import ROOT

FOLDER = ROOT / "examples" / "kubernetes" / "ddp"
ARTICLE = (Path(__file__).parents[1] / "golden" / "transcripts" / "k8s-torchrun-pod0.txt").read_text()


@pytest.fixture
def read_log(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    import read_log as found  # noqa: PLC0415 - only this fixture puts the script's folder on the path

    monkeypatch.delitem(sys.modules, "read_log")
    return found


def test_accuracies_and_epoch_time_and_network_are_read_from_the_articles_log(read_log):
    found = read_log.read(ARTICLE)
    assert found.accuracies == {10: 0.8046, 200: 0.856} == read_log.ARTICLE
    assert found.epoch_s == pytest.approx(4.43, abs=0.01)
    assert found.networks == ("[0]irdma0:1/RoCE", "IBext")
    assert not found.generated
    assert "accuracy 0.856 after 200 epochs; the article has 0.856" in read_log.sentences(found)


#: Two H100s of one host, 2026-11-24: torch 2.11.0+cu130, NCCL 2.28.9, 8192 generated images.
OURS = (Path(__file__).parents[1] / "golden" / "transcripts" / "ddp-2xH100.txt").read_text()


def test_accuracies_on_generated_images_are_not_compared_with_the_articles_accuracies(read_log):
    found = read_log.read(OURS)
    assert found.generated
    assert found.averaged
    assert found.accuracies == {10: 0.8916}
    assert (found.losses[1], found.losses[10]) == (2.1319, 0.0008)
    assert found.epoch_s == pytest.approx(0.55, abs=0.01)
    assert found.networks == ("Socket",)
    said = read_log.sentences(found)
    assert "accuracy 0.8916 after 10 epochs" in said
    assert said[-1] == "the images were generated: do not compare their accuracy with CIFAR-10's"


def test_gradients_that_differ_or_are_not_in_the_log_are_not_called_averaged(read_log):
    assert not read_log.read(OURS.replace("by 0 after", "by 0.1 after")).averaged
    assert not read_log.read("").averaged


def objects() -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in yaml.safe_load_all((FOLDER / "ddp.yaml").read_text())}


def test_nccl_uses_the_attached_rail_while_the_pods_find_each_other_through_the_service():
    made = objects()
    job, service, rail = made["Job"], made["Service"], made["NetworkAttachmentDefinition"]
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    words = shlex.split(container["args"][0])
    options = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    assert options["master_addr"] == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert int(options["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert options["nproc_per_node"] == container["resources"]["limits"]["nvidia.com/gpu"]
    networks = job["spec"]["template"]["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"]
    assert networks == f"{rail['metadata']['name']}@net1"
    assert {"name": "NCCL_SOCKET_IFNAME", "value": "=net1"} in container["env"]
    assert [plugin["type"] for plugin in json.loads(rail["spec"]["config"])["plugins"]] == ["host-device", "rdma"]


def test_the_pods_run_the_example_script_with_arguments_that_the_script_knows():
    made = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
    (config,) = made["configMapGenerator"]
    pod = objects()["Job"]["spec"]["template"]["spec"]
    assert config["name"] in {volume.get("configMap", {}).get("name") for volume in pod["volumes"]}
    assert made["namespace"] == objects()["Namespace"]["metadata"]["name"]
    text = (FOLDER / config["files"][0]).read_text()
    known = set(re.findall(r'add_argument\("(--[\w-]+)"', text))
    given = pod["containers"][0]["args"][0].partition("ddp.py ")[2]
    assert set(re.findall(r"--[\w-]+", given)) <= known
    assert {node.module for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)} >= {"torchvision.models"}
