"""Objects for a Kubernetes cluster fit the schemas of 1.28, have the stack's labels and give no needless rights."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from benchmarks.launch import placeholders
from components import remote_scripts
from config.kubernetes.model import Kubernetes
from manifests import objects, ours, ranks

#: jsonschema will soon remove a part that kubernetes-validate uses.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
GOLDEN = Path(__file__).parents[1] / "golden" / "manifests"
RAIL = {"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/30"}
GIVEN: dict[str, Any] = {
    "control_plane": "root@10.138.61.49",
    "nodes": ("gpu0", "gpu1"),
    "gpus": 1,
    "rails": (RAIL,),
    "image": "registry.example/pytorch:23.09-py3",
}
#: Stack files whose objects are reviewed and validated: privileged, a device plugin with rdma-cni, TCP, MPI Operator, one node.
TEXTS: dict[str, dict[str, Any]] = {
    "privileged": {},
    "device-plugin": {
        "gpus": 8,
        "rdma_resource": "rdma/hca",
        "rails": (
            RAIL | {"pci": "0000:14:00.0", "range": "10.100.100.0/24"},
            {"interface": "ens224", "device": "irdma1", "range": "10.100.101.0/24", "pci": "0000:15:00.0"},
        ),
        "pull_secret": "regcred",
    },
    "tcp": {"rails": ({"interface": "ens192", "range": "10.100.100.0/24"},)},
    "mpi-operator": {"job": "MPIJob", "pull_secret": "regcred"},
    "one-node": {"nodes": ("gpu0",), "rails": ()},
}


def made(name: str) -> list[dict[str, Any]]:
    return objects.objects(Kubernetes(**GIVEN | TEXTS[name]), "k8s")


def one(name: str, kind: str) -> dict[str, Any]:
    (found,) = [each for each in made(name) if each["kind"] == kind]
    return found


def pod(name: str) -> dict[str, Any]:
    return dict(one(name, "Job")["spec"]["template"]["spec"])


def test_the_variable_of_the_remote_shell_has_one_name_in_all_packages():
    # Three packages that must not import each other write this name: benchmarks, components.remote_scripts and manifests.
    (container,) = one("privileged", "Job")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"]}
    assert given[placeholders.REMOTE_SHELL] == ranks.REMOTE_SHELL
    assert f'os.environ.get("{placeholders.REMOTE_SHELL}"' in remote_scripts.read("exporter_on_nodes").source


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_of_the_objects_is_the_reviewed_file(name, reviewed):
    reviewed(GOLDEN / f"{name}.yaml", objects.text(made(name)))


def test_every_reviewed_file_belongs_to_a_stack_file_of_this_test():
    assert {path.stem for path in GOLDEN.iterdir()} == set(TEXTS)


@pytest.mark.parametrize("name", TEXTS)
def test_every_object_is_valid_by_kubernetes_1_28s_own_schemas(name):
    for each in yaml.safe_load_all(objects.text(made(name))):
        # The rehearsed API server validates the kinds that Multus and MPI Operator define.
        if each["kind"] not in {"NetworkAttachmentDefinition", "MPIJob"}:
            kubernetes_validate.validate(each, "1.28", strict=True)


def test_the_schemas_would_refuse_a_misspelt_field_and_a_wrong_type():
    for change in ({"completionmode": "Indexed"}, {"completions": "two"}):
        wrong = one("privileged", "Job")
        wrong["spec"] |= change
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(wrong, "1.28", strict=True)


@pytest.mark.parametrize("name", TEXTS)
def test_every_object_has_the_stacks_labels_and_is_in_the_stacks_namespace(name):
    for each in made(name):
        assert ours.labels("k8s").items() <= each["metadata"]["labels"].items(), each["kind"]
        assert each["kind"] == "Namespace" or each["metadata"]["namespace"] == "busbar"


def test_a_stacks_name_too_long_for_a_label_is_shortened_and_stays_unique():
    first, second = (ours.labels("x" * 70 + end)["app.kubernetes.io/instance"] for end in "ab")
    assert first != second
    assert len(first) <= 63


def test_pods_may_only_read_pods_and_run_commands_in_pods_of_their_namespace():
    assert one("privileged", "Role")["rules"] == [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
    ]
    assert pod("privileged")["automountServiceAccountToken"]
    assert not pod("one-node")["automountServiceAccountToken"]
    assert not {"ClusterRole", "ClusterRoleBinding", "Secret"} & {each["kind"] for name in TEXTS for each in made(name)}


def test_each_named_node_has_one_pod_which_shares_the_node_with_no_other_pod():
    spec, job = pod("privileged"), one("privileged", "Job")["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchFields"][0]["values"] for term in terms] == [["gpu0"], ["gpu1"]]
    (apart,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert (
        apart["labelSelector"]["matchLabels"].items()
        <= one("privileged", "Job")["spec"]["template"]["metadata"]["labels"].items()
    )


def test_the_workers_of_an_mpi_job_equal_the_pods_of_a_job_and_the_launcher_has_neither_gpus_nor_labels():
    replicas = one("mpi-operator", "MPIJob")["spec"]["mpiReplicaSpecs"]
    assert (replicas["Worker"]["replicas"], replicas["Launcher"]["replicas"]) == (2, 1)
    worker = replicas["Worker"]["template"]
    assert worker["metadata"] == one("privileged", "Job")["spec"]["template"]["metadata"]
    assert worker["spec"] == pod("privileged") | {"imagePullSecrets": [{"name": "regcred"}]}
    launcher = replicas["Launcher"]["template"]
    assert "metadata" not in launcher
    assert "limits" not in launcher["spec"]["containers"][0]["resources"]
    assert "Service" not in {each["kind"] for each in made("mpi-operator")}, "newer MPI Operators make the Service themselves"


def test_a_pod_takes_all_gpus_and_is_privileged_only_if_it_uses_rdma_without_a_device_plugin():
    (privileged,), (plugin,), (tcp,) = (pod(name)["containers"] for name in ("privileged", "device-plugin", "tcp"))
    assert privileged["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    assert privileged["securityContext"] == {"privileged": True}
    assert plugin["resources"]["limits"] == {"nvidia.com/gpu": "8", "rdma/hca": "2"}
    assert plugin["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"add": ["IPC_LOCK"]}}
    assert tcp["securityContext"] == {"allowPrivilegeEscalation": False}


def test_a_pod_gets_a_rails_rdma_device_only_if_the_stack_file_has_the_rails_pci_address():
    assert one("privileged", "Job")["spec"]["template"]["metadata"]["annotations"] == {
        "k8s.v1.cni.cncf.io/networks": "busbar-rail0@net1"
    }
    rails = [json.loads(each["spec"]["config"]) for each in made("device-plugin") if "config" in each.get("spec", {})]
    assert [[plugin["type"] for plugin in rail["plugins"]] for rail in rails] == [["host-device", "rdma"]] * 2
    assert [rail["plugins"][0]["device"] for rail in rails] == ["ens192", "ens224"]
    assert [rail["plugins"][0]["ipam"]["range"] for rail in rails] == ["10.100.100.0/24", "10.100.101.0/24"]
    (privileged,) = [json.loads(each["spec"]["config"]) for each in made("privileged") if "config" in each.get("spec", {})]
    assert [plugin["type"] for plugin in privileged["plugins"]] == ["host-device"]


def test_no_gid_index_is_pinned_because_the_index_differs_from_pod_to_pod():
    assert "GID" not in "".join(objects.text(made(name)) for name in TEXTS)


def test_a_changed_image_or_a_changed_set_of_nodes_needs_a_new_job():
    def mark(**changes: Any) -> str:
        found = objects.objects(Kubernetes(**GIVEN | changes), "k8s")[-1]
        return str(found["metadata"]["annotations"][ours.TEMPLATE])

    assert mark() == mark()
    assert mark() != mark(image="registry.example/pytorch:24.01-py3")
    assert mark() != mark(nodes=("gpu0", "gpu2"))


@pytest.mark.parametrize("changes", [{"range": "10.100.102.0/24"}, {"interface": "ens256"}, {"pci": "0000:15:00.0"}])
def test_a_changed_rail_needs_a_new_job_because_running_pods_keep_their_rails(changes):
    def mark(rail: dict[str, Any]) -> str:
        found = objects.objects(Kubernetes(**GIVEN | {"rails": (rail,)}), "k8s")[-1]
        return str(found["metadata"]["annotations"][ours.TEMPLATE])

    rail = {"interface": "ens192", "device": "irdma0", "range": "10.100.100.0/24"}
    assert mark(rail) == mark(dict(rail))
    assert mark(rail) != mark(rail | changes)


def test_a_pod_that_gets_sigterm_does_not_exit_with_status_0():
    """A Job does not replace a pod that succeeded, and the pods of a drained node get SIGTERM."""
    (container,) = one("tcp", "Job")["spec"]["template"]["spec"]["containers"]
    shell, option, script = container["command"]
    told = subprocess.run([shell, option, script.replace("sleep 3600", "kill -TERM $$")], check=False, timeout=60)
    assert told.returncode == 128 + signal.SIGTERM
