"""The real program for an existing Kubernetes cluster, on a recording engine: what it registers, and where its requests run."""

from __future__ import annotations

import hashlib
import json
import shlex
import sys
from typing import Any

import pulumi
import pytest
import yaml
from conftest import BUILD_LINE, HOST_KEY, SERVER_FACTS, exported, run_program

from catalogue.containers import HOMES_INSIDE
from components import remote_scripts
from components.kubernetes import operator, secondary_networks
from tools.stack_changes import DEFAULT

FACTS = SERVER_FACTS | {"gpus": 1, "hca": [["irdma0", 25, "net1", True, "ice"]], "front": "eth0", "network": "10.244.0.0/24"}
READY = {"schema": 2, "kind": "ready", "host_key": HOST_KEY, "count": 2, "fronts": ["eth0"]}


def pods(*uids: str) -> str:
    found = [
        {"name": f"busbar-ranks-{at}-x", "node": f"gpu{at}", "address": f"10.244.{at}.7", "uid": uid, "rails": ["10.100.100.1"]}
        for at, uid in enumerate(uids)
    ]
    return json.dumps({"schema": 1, "kind": "pods", "pods": found})


LINES = {
    "cluster-objects": pods("u0", "u1"),
    "acceptance-ready-contact": json.dumps(
        READY | {"networks": ["10.244.0.0/24", "10.244.1.0/24"], "groups": [{"facts": FACTS, "nodes": ["gpu0", "gpu1"]}]}
    ),
    "acceptance-build": BUILD_LINE,
    "acceptance-measure": "{}",
    "acceptance-search": json.dumps({"schema": 1, "kind": "search", "needed": False}),
}


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Return a function that runs the program, which can import no cloud's SDK."""
    for name in ("pulumi_oci", "pulumi_aws"):
        monkeypatch.setitem(sys.modules, name, None)
    known = tmp_path / "known_hosts"
    known.write_text(f"10.138.61.49 {HOST_KEY}\n203.0.113.9 {HOST_KEY}\n")

    def run(
        measure: Any = None,
        lines: dict[str, str] | None = None,
        monitoring: Any = None,
        *,
        preview: bool = False,
        **changes: Any,
    ):
        given = {
            "controlPlane": "root@10.138.61.49",
            "knownHosts": str(known),
            "nodes": ["gpu0", "gpu1"],
            "gpus": 1,
            "rails": [{"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/30"}],
            "image": "registry.example/pytorch:23.09-py3",
        }
        wanted = {"kubernetes": given | changes, "measure": measure or {}, "monitoring": monitoring or {}}
        return run_program(LINES | (lines or {}), target="kubernetes", oci=DEFAULT, preview=preview, **wanted)

    return run


def named(found: Any, name: str) -> dict[str, Any]:
    (inputs,) = [inputs for _, each, inputs in found.resources if each == name]
    return dict(inputs)


def asked(program: str) -> dict[str, Any]:
    """Return the arguments with which a program of `remote_scripts` is called."""
    # The program's own call of main is at the beginning of a line; calls of main in embedded programs are not.
    call = program.rpartition("\nmain(**json.loads(")[2].rpartition("))")[0]
    return dict(json.loads(eval(call)))  # noqa: S307 - a literal in the program's text


def test_target_kubernetes_registers_only_commands(cluster):
    found = cluster()
    kinds = {kind for kind, _, _ in found.resources if not kind.startswith(("pulumi:", "busbar:"))}
    assert kinds == {"command:local:Command", "command:remote:Command", "command:remote:CopyToRemote"}
    assert len([name for kind, name, _ in found.resources if name.startswith("cluster-")]) == 1
    assert not found.invokes


def test_a_change_of_the_namespace_replaces_the_objects_so_that_the_old_pods_free_their_gpus_first(cluster):
    assert named(cluster(namespace="elsewhere"), "cluster-objects")["triggers"] == ["elsewhere"]


def test_the_runner_is_copied_again_if_kubectl_runs_on_another_host(cluster):
    copies = [inputs for kind, _, inputs in cluster().resources if kind == "command:remote:CopyToRemote"]
    assert copies
    assert {inputs["triggers"][-1] for inputs in copies} == {"10.138.61.49"}


def test_the_command_that_applies_the_kubernetes_objects_also_removes_these_objects(cluster):
    inputs = named(cluster(), "cluster-objects")
    assert inputs["create"] == f"exec {remote_scripts.PYTHON}"
    assert inputs["delete"] == f"exec {remote_scripts.PYTHON} remove"
    said = asked(inputs["stdin"])["ask"]
    documents = list(yaml.safe_load_all("---\n".join((said["space"], said["manifest"]))))
    assert [each["kind"] for each in documents] == [
        *("Namespace", "NetworkAttachmentDefinition", "ServiceAccount", "Role", "RoleBinding", "Service", "Job")
    ]
    assert said["objects"][1] == ["networkattachmentdefinition.k8s.cni.cncf.io", "busbar-rail0"]
    assert said["objects"][-1] == ["job.batch", "busbar-ranks"]
    assert said["template"][1] == documents[-1]["metadata"]["annotations"][said["template"][0]]
    assert said["rails"] == ["net1"]


def test_ssh_goes_to_the_control_plane_with_its_pinned_host_key(cluster):
    found = cluster(jump="admin@203.0.113.9")
    connections = [inputs["connection"]["value"] for kind, _, inputs in found.resources if kind.startswith("command:remote")]
    assert connections
    assert {(one["host"], one["user"], one["hostKey"]) for one in connections} == {("10.138.61.49", "root", HOST_KEY)}
    assert {one["proxy"]["host"] for one in connections} == {"203.0.113.9"}


def test_the_runner_is_sent_with_every_request_and_runs_in_the_pod_of_the_first_node(cluster):
    found = cluster()
    words = shlex.split(named(found, "acceptance-measure")["create"])
    assert words[:4] == ["exec", "python3", "-IS", "-c"]
    said = asked(words[4])["ask"]
    assert said["node"] == "gpu0"
    assert said["command"].endswith(" ask")
    assert [name for name in said["files"] if name.startswith("busbar-runner-")]
    assert len(said["files"]) == 2


def test_first_contact_looks_for_mpi_in_the_folders_in_which_an_image_may_have_it(cluster):
    contact = asked(named(cluster(), "acceptance-ready-contact")["stdin"])["ask"]
    assert contact["mpi"] == list(HOMES_INSIDE.mpi)


def test_mpirun_uses_a_program_in_the_pod_and_the_default_network_to_reach_other_pods(cluster):
    request = json.loads(named(cluster(), "acceptance-measure")["stdin"])
    launch = request["launch"]
    assert launch["kind"] == "remote_shell"
    assert launch["mca"]["plm_rsh_agent"] == "/busbar/in-pod"
    assert "plm_rsh_args" not in launch["mca"]
    assert launch["mca"]["btl_tcp_if_include"] == "eth0"
    assert request["hcas"] == ["irdma0"]
    assert [node["name"] for node in request["nodes"]] == ["gpu0", "gpu1"]


def test_on_one_node_mpirun_needs_no_program_that_reaches_other_pods(cluster):
    line = READY | {"count": 1, "networks": ["10.244.0.0/24"], "groups": [{"facts": FACTS, "nodes": ["gpu0"]}]}
    lines = {"cluster-objects": pods("u0"), "acceptance-ready-contact": json.dumps(line)}
    request = json.loads(named(cluster(lines=lines, nodes=["gpu0"], rails=[]), "acceptance-measure")["stdin"])
    assert request["launch"]["kind"] == "mpirun"
    assert "plm_rsh_agent" not in request["launch"]["mca"]


def test_new_pods_cause_another_first_contact_and_build_and_measurement_but_unchanged_pods_do_not(cluster):
    def texts(uids: tuple[str, str]) -> list[str]:
        found = cluster(lines={"cluster-objects": pods(*uids)})
        return [named(found, f"acceptance-{stage}")["stdin"] for stage in ("ready-contact", "build", "measure")]

    assert texts(("u0", "u1")) == texts(("u0", "u1"))
    assert all(old != new for old, new in zip(texts(("u0", "u1")), texts(("u0", "u9")), strict=True))


def test_a_new_measurement_looks_for_the_pods_again(cluster):
    first, second = (named(cluster(measure={"run": run}), "cluster-objects")["stdin"] for run in (1, 2))
    assert first != second
    assert asked(first) == asked(second)


def test_the_exporter_starts_in_running_pods_and_replaces_no_pod(cluster):
    with pytest.raises(pulumi.RunError, match=r"monitoring\.readFrom is empty, but with target kubernetes"):
        cluster(monitoring={"exporter": True})
    without, found = cluster(), cluster(monitoring={"exporter": True, "readFrom": ["10.244.0.0/16"]})
    said = asked(named(found, "monitoring-exporter")["stdin"])
    assert [node["address"] for node in said["nodes"]] == ["10.244.0.7", "10.244.1.7"]
    assert asked(said["program"])["ask"] == {"exporter": True, "port": 9879, "readers": ["10.244.0.0/16"]}
    assert "def _end(" in said["program"]
    for name in ("cluster-objects", "acceptance-build", "acceptance-measure"):
        assert named(found, name)["stdin"] == named(without, name)["stdin"]


def test_the_exported_scrape_configuration_discovers_the_pods_with_the_stacks_labels(cluster, monkeypatch):
    found = exported(monkeypatch)
    cluster(monitoring={"exporter": True, "readFrom": ["10.244.0.0/16"]})
    (job,) = yaml.safe_load(found["monitoring"])["scrape_configs"]
    assert job["kubernetes_sd_configs"] == [{"role": "pod", "namespaces": {"names": ["busbar"]}}]


CHART = """
apiVersion: nvidia.com/v1
kind: ClusterPolicy
metadata: {name: cluster-policy}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterpolicies.nvidia.com}
"""


@pytest.mark.parametrize("preview", [True, False])
def test_a_preview_lists_the_objects_of_gpu_operator_which_are_created_before_the_pods(cluster, tmp_path, monkeypatch, preview):
    chart, said = tmp_path / "chart.tgz", list[str]()
    chart.write_bytes(b"chart")
    monkeypatch.setattr(operator, "rendered", lambda _: CHART)
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_: said.append(text))
    given = {"chart": str(chart), "sha256": hashlib.sha256(b"chart").hexdigest()}
    found = cluster(gpuOperator=given, preview=preview)
    assert "GPU Operator comes with 3 objects: 1 Namespace, 1 CustomResourceDefinition, 1 ClusterPolicy" in said
    (copied,) = [inputs for _, name, inputs in found.resources if name == "cluster-gpu-operator-manifest"]
    inputs = named(found, "cluster-gpu-operator")
    ask = asked(inputs["stdin"])["ask"]
    assert ask["file"] == copied["remotePath"]
    assert ask["objects"][-1] == ["clusterpolicy.nvidia.com", "cluster-policy", ""]
    assert ask["definitions"] == ["clusterpolicies.nvidia.com"]
    assert "ClusterPolicy" not in inputs["stdin"], "a manifest of hundreds of kilobytes is a file and not in the state"
    assert inputs["delete"] == f"exec {remote_scripts.PYTHON} remove"
    names = [name for _, name, _ in found.resources]
    assert names.index("cluster-gpu-operator") < names.index("cluster-objects")


@pytest.mark.parametrize("preview", [True, False])
def test_a_preview_lists_the_objects_of_multus_which_are_created_before_the_pods(cluster, monkeypatch, preview):
    said = list[str]()
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: multus}\n"
    monkeypatch.setattr(secondary_networks, "fetched", lambda _url, _sha256: role)
    monkeypatch.setattr(pulumi.log, "info", lambda text, *_: said.append(text))
    found = cluster(secondaryNetworks={"install": ["multus"]}, preview=preview)
    assert "Multus 4.1.4 comes with 1 objects: 1 ClusterRole" in said
    (copied,) = [inputs for _, name, inputs in found.resources if name == "cluster-multus-manifest"]
    inputs = named(found, "cluster-multus")
    ask = asked(inputs["stdin"])["ask"]
    assert (ask["file"], ask["server"], ask["daemon_set"]) == (copied["remotePath"], None, "kube-multus-ds")
    assert ask["objects"] == [["clusterrole.rbac.authorization.k8s.io", "multus", ""]]
    assert ask["labels"]["app.kubernetes.io/part-of"] == "busbar-multus"
    assert inputs["delete"] == f"exec {remote_scripts.PYTHON} remove"
    names = [name for _, name, _ in found.resources]
    assert names.index("cluster-multus") < names.index("cluster-objects")
    assert "cluster-whereabouts" not in names


def test_if_a_manifest_cannot_be_fetched_nothing_is_registered_and_the_refusal_names_the_key_that_needs_the_manifest(
    cluster, monkeypatch
):
    def unreachable(url: str, _sha256: str) -> str:
        raise ValueError(f"this machine cannot fetch {url} (timed out); put the file here")

    monkeypatch.setattr(secondary_networks, "fetched", unreachable)
    with pytest.raises(
        pulumi.RunError, match=r"^kubernetes\.secondaryNetworks\.install has multus, and this machine cannot fetch"
    ):
        cluster(secondaryNetworks={})


def test_no_resource_contains_a_private_key_or_the_path_of_an_ssh_agents_socket(cluster):
    texts = json.dumps([inputs for _, _, inputs in cluster().resources], default=str)
    assert "PRIVATE KEY" not in texts
    assert "SSH_AUTH_SOCK" not in texts


def here(cluster: Any, **changes: Any) -> Any:
    return cluster(controlPlane=None, knownHosts="/no/such", server="https://10.138.61.49:6443", **changes)


def test_a_local_kubeconfig_needs_no_ssh_and_leaves_neither_token_nor_cache_path_in_the_state(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kubeconfig = tmp_path / "site.conf"
    kubeconfig.write_text("token: abc123")
    found = here(cluster, kubeconfig=str(kubeconfig), context="admin@site")
    assert {kind for kind, _, _ in found.resources if kind.startswith("command:")} == {"command:local:Command"}
    said = [asked(named(found, name)["stdin"])["ask"] for name in ("cluster-objects", "acceptance-ready-contact")]
    run = asked(shlex.split(named(found, "acceptance-measure")["create"])[4])["ask"]
    for one in (*said, run):
        assert one["kubectl"] == {"kubeconfig": str(kubeconfig), "context": "admin@site", "host": "this machine"}
    assert run["cluster"] == "10.138.61.49_6443/busbar"
    assert all((tmp_path / "busbar" / name).is_file() for name in run["files"])
    texts = json.dumps([inputs for _, _, inputs in found.resources], default=str)
    assert str(tmp_path / "busbar") not in texts
    assert "abc123" not in texts


def test_the_same_programs_run_over_ssh_as_with_a_local_kubeconfig(cluster):
    for name in ("cluster-objects", "acceptance-ready-contact"):
        own, other = (named(found, name)["stdin"] for found in (here(cluster), cluster(server="https://10.138.61.49:6443")))
        assert own.rpartition("\nmain(")[0] == other.rpartition("\nmain(")[0]
