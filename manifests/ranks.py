"""The pods that ranks run in: an Indexed Job of one pod on each node, or an MPIJob. Each pod waits until ranks start in it.

No pod runs sshd: ranks are started by `exec`. A pod may therefore read the pods of its namespace and run commands in them; the
pod has no other rights.
Sources: Kubernetes 1.28 (Job, completionMode Indexed; RBAC of pods/exec), MPI Operator v0.4.0 (pkg/controller/
mpi_job_controller.go, pkg/apis/kubeflow/validation), an article by IIJ of 2024-06-04 (GPU, IPC, /dev/infiniband).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from manifests import ours, rails

if TYPE_CHECKING:
    from config.kubernetes.model import Kubernetes

#: Home folder in the pods: it contains the runner, the runner's programs and its results, and is lost with the pod.
HOME = "/busbar"
#: Path of a program in the first pod, which starts a command in another pod; environment variable that contains this path.
REMOTE_SHELL, REMOTE_SHELL_VARIABLE = f"{HOME}/in-pod", "BUSBAR_REMOTE_SHELL"
#: Resources of a launcher that only waits.
_LAUNCHER = {"requests": {"cpu": "10m", "memory": "16Mi"}}
#: Shell command of the container: waits, and exits at once on a signal. The pod's first process reaps every process that exits.
#: The exit status is not 0: with 0, the Job would count the pod's index as done and would not replace a deleted or drained pod.
_WAIT = "trap 'exit 143' TERM INT; while :; do sleep 3600 & wait $!; done"


def jobs(wanted: Kubernetes, metadata: dict[str, Any], chosen: dict[str, str]) -> list[dict[str, Any]]:
    """Return two objects: the service that gives the pods names, then the Job that creates the pods.

    For an MPIJob, return only the MPIJob, because MPI Operator creates a service itself.

    `chosen` are the labels of the pods. An annotation of the Job or MPIJob has a digest of its spec and of the rails'
    definitions.
    """
    if wanted.job == "MPIJob":
        return [_marked(wanted, metadata, "kubeflow.org/v2beta1", _mpi_spec(wanted, chosen))]
    return [_service(metadata, chosen), _marked(wanted, metadata, "batch/v1", _spec(wanted, chosen))]


def _service(metadata: dict[str, Any], chosen: dict[str, str]) -> dict[str, Any]:
    """Return the headless service that gives the pods names: `busbar-ranks-0.busbar-ranks`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata | {"name": ours.RANKS},
        "spec": {"clusterIP": "None", "selector": chosen, "publishNotReadyAddresses": True},
    }


def rights(metadata: dict[str, Any], way: str) -> list[dict[str, Any]]:
    """Return the pods' service account, its role and the role binding; `way` is where kubectl runs (`ours.WAY`).

    The role only allows reading the namespace's pods and starting commands in these pods.
    """
    named = metadata | {"name": ours.RANKS}
    rules = [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
        # kubectl starts an exec with a POST, and since 1.31 with a GET that becomes a WebSocket.
        {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["create", "get"]},
    ]
    subject = {"kind": "ServiceAccount", "name": ours.RANKS, "namespace": metadata["namespace"]}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ours.RANKS}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": named | {"annotations": {ours.WAY: way}},
            "automountServiceAccountToken": False,
        },
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named, "rules": rules},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": named,
            "roleRef": role,
            "subjects": [subject],
        },
    ]


def _spec(wanted: Kubernetes, chosen: dict[str, str]) -> dict[str, Any]:
    count = len(wanted.nodes)
    return {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        # An evicted pod is replaced, and the other pods keep their data.
        "backoffLimit": 6,
        "template": _template(wanted, chosen),
    }


def _mpi_spec(wanted: Kubernetes, chosen: dict[str, str]) -> dict[str, Any]:
    """Return the spec of an MPIJob, whose workers are the pods of the ranks.

    MPI Operator requires a launcher, too. This launcher only waits, because the runner is in the first worker.
    """
    # The launcher runs on a node that already has the image. Its pod lacks the stack's labels, which select the workers.
    launcher = {
        "tolerations": _tolerations(wanted),
        "affinity": {"nodeAffinity": _on_nodes(wanted)},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 5,
        "containers": [{"name": "launcher", "image": wanted.image, "command": ["sh", "-c", _WAIT], "resources": _LAUNCHER}],
        **_secret(wanted),
    }
    workers = {"replicas": len(wanted.nodes), "restartPolicy": "Never", "template": _template(wanted, chosen)}
    return {
        "slotsPerWorker": wanted.gpus,
        "runPolicy": {"cleanPodPolicy": "All"},
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "OnFailure", "template": {"spec": launcher}},
            "Worker": workers,
        },
    }


def _marked(wanted: Kubernetes, metadata: dict[str, Any], version: str, spec: dict[str, Any]) -> dict[str, Any]:
    # A running pod keeps the rails that it started with, so a changed definition of a rail must change the digest, too.
    known = {"spec": spec, "rails": [rails.plugins(rail) for rail in wanted.rails]}
    marked = metadata | {"name": ours.RANKS, "annotations": {ours.TEMPLATE: ours.digest(known)}}
    return {"apiVersion": version, "kind": wanted.job, "metadata": marked, "spec": spec}


def _template(wanted: Kubernetes, chosen: dict[str, str]) -> dict[str, Any]:
    return {"metadata": {"labels": chosen, "annotations": rails.annotation(wanted.rails)}, "spec": _pod(wanted, chosen)}


def _on_nodes(wanted: Kubernetes) -> dict[str, Any]:
    # Nodes are selected by name, because the label kubernetes.io/hostname may differ from the name. A term matches
    # only one name, so each node gets its own term.
    on_these = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in wanted.nodes]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": on_these}}


def _tolerations(wanted: Kubernetes) -> list[dict[str, Any]]:
    return [{"key": wanted.gpu_resource, "operator": "Exists", "effect": "NoSchedule"}]


def _secret(wanted: Kubernetes) -> dict[str, Any]:
    return {"imagePullSecrets": [{"name": wanted.pull_secret}]} if wanted.pull_secret else {}


def _pod(wanted: Kubernetes, chosen: dict[str, str]) -> dict[str, Any]:
    apart = {"labelSelector": {"matchLabels": chosen}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "restartPolicy": "Never",
        "serviceAccountName": ours.RANKS,
        "automountServiceAccountToken": len(wanted.nodes) > 1,
        "subdomain": ours.RANKS,
        "enableServiceLinks": False,
        # With this setting the pause container is the pod's first process and reaps all processes; without it, the shell would
        # be the container's first process and would reap only its own children.
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 5,
        "tolerations": _tolerations(wanted),
        "affinity": {
            "nodeAffinity": _on_nodes(wanted),
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
        },
        "containers": [_container(wanted)],
        "volumes": [
            {"name": "home", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},  # NCCL between ranks of one node; the default is 64 MiB
        ],
        **_secret(wanted),
    }


def _container(wanted: Kubernetes) -> dict[str, Any]:
    held = {wanted.gpu_resource: str(wanted.gpus)}
    if wanted.rdma_resource:
        held[wanted.rdma_resource] = str(len(wanted.devices))
    # RDMA pins memory, and pinning needs the capability IPC_LOCK.
    own = {"allowPrivilegeEscalation": False, **({"capabilities": {"add": ["IPC_LOCK"]}} if wanted.devices else {})}
    return {
        "name": "ranks",
        "image": wanted.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", _WAIT],
        "env": [{"name": "HOME", "value": HOME}, {"name": REMOTE_SHELL_VARIABLE, "value": REMOTE_SHELL}],
        # A node that is short of memory first evicts pods that request no memory.
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi", **held}, "limits": held},
        "securityContext": {"privileged": True} if wanted.privileged else own,
        "volumeMounts": [{"name": "home", "mountPath": HOME}, {"name": "shm", "mountPath": "/dev/shm"}],  # noqa: S108 - pod
    }
