"""Applies a stack's objects to a cluster and waits until every pod runs.

With the command-line argument `remove`, the program removes the objects instead. Before it applies them, it looks for objects
of the same names: if one lacks the stack's labels, the program changes nothing and exits with a message. It applies the objects
by server-side apply without force. At the end it prints one JSON line about the pods (nothing with `remove`).
"""

import json
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from components.remote_scripts.kubectl import Kubectl, is_applied_by_another, pods_of
from components.remote_scripts.kubernetes_checks import refuse_other, refuse_unfit
from components.remote_scripts.kubernetes_pending import events, events_seen, why_pending

_PAUSE_S = 1.0
_REMOVE_S = 120
#: Kinds of objects that belong to other objects; the cluster creates and removes them.
_DERIVED = ("events", "events.events.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "pods.metrics.k8s.io")
#: Label of an object that a program created: the program's name.
_MANAGED = "app.kubernetes.io/managed-by"
#: The objects that the cluster itself creates in every namespace.
_OF_EVERY_NAMESPACE = ("configmap kube-root-ca.crt", "serviceaccount default")
#: The job's name in the manifest, and the conditions of a Job or an MPIJob that creates no more pods.
_JOB = "busbar-ranks"
_ENDED = ("Complete", "Failed", "FailureTarget", "Succeeded")


def main(ask: Dict[str, Any]) -> None:
    """Apply the objects, or remove them.

    `ask` has `kubectl` (how it finds the cluster), `server`, `namespace`, `nodes` (names of the nodes that each get one pod),
    `gpus` (number of GPUs of each pod), `gpu_resource`, `rails` (names of the rails' interfaces in a pod), `image`, `labels` of
    the stack, `way` ([name, value] of the service account's annotation that records on which machine kubectl last applied the
    objects), `pods` (the pods' selector), `job` (kind of the object that creates the pods), `former` (list of [kind, name]: the
    objects that would exist if `job` were of the other kind; they are removed), `template` ([name, value] of the job's
    annotation; the value is a hash of the pods' template), `objects` (list of [kind, name], one for each object), `space`
    (YAML of the namespace), `manifest` (YAML of the other objects) and `timeout_s`. A namespace that no stack created is used
    as it is.
    """
    kubectl = Kubectl(ask["kubectl"], ask["namespace"])
    if sys.argv[1:] == ["remove"]:
        refuse_other(kubectl, ask)
        if not is_applied_by_another(kubectl, ("serviceaccount", _JOB), ask["way"]):
            _remove(kubectl, ask)
        return
    refuse_unfit(kubectl, ask)
    there = {(kind, name): kubectl.get(kind, name) for kind, name in ask["objects"]}
    _refuse_foreign(there, ask)
    _end_former(kubectl, ask)
    job = kubectl.get(ask["job"], _JOB)
    if job is not None and _is_another(job, ask["template"]):
        _say("the {} has ended or needs other pods; it is deleted with its pods and created again".format(job["kind"]))
        _end(kubectl, ask["job"], _JOB)
    _end_ended(kubectl, ask)
    space = there["namespace", ask["namespace"]]
    _apply(kubectl, ask["manifest"] if space and not _is_ours(space, ask) else "---\n".join((ask["space"], ask["manifest"])))
    print(json.dumps({"schema": 1, "kind": "pods", "pods": _running(kubectl, ask)}, sort_keys=True))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check(answer: Any) -> None:
    if answer.status != 0:
        sys.exit(answer.why)


def _is_ours(found: Dict[str, Any], ask: Dict[str, Any]) -> bool:
    labels = found["metadata"].get("labels", {})
    return all(labels.get(key) == value for key, value in ask["labels"].items())


def _refuse_foreign(there: Dict[Tuple[str, str], Optional[Dict[str, Any]]], ask: Dict[str, Any]) -> None:
    """Exit with a message if an object that is not the stack's has the kind and name of one of the stack's objects.

    `there` has an entry for each object of the stack: (kind, name) -> the cluster's object of this kind and name, or None. A
    namespace is refused only if another stack created it: a user may create it and put the image's pull secret into it.
    """
    foreign = []
    for (kind, name), found in there.items():
        if found is not None and not _is_ours(found, ask):
            labels = found["metadata"].get("labels", {})
            if kind == "namespace" and labels.get(_MANAGED) != ask["labels"][_MANAGED]:
                continue
            owner = labels.get("app.kubernetes.io/instance")
            whose = f"labelled as {owner}'s" if owner else "not labelled as this stack's"
            foreign.append(f"{kind} {name} is {whose}")
    if foreign:
        sys.exit(
            "kubernetes.namespace is {}, where objects of other owners have the names of this stack's objects, and were not "
            "changed: {}; set another namespace".format(ask["namespace"], "; ".join(foreign))
        )


def _end(kubectl: Kubectl, kind: str, name: str) -> None:
    # Foreground deletion: the job disappears only after its pods, which use the GPUs.
    _check(kubectl("delete", kind, name, "--wait", "--ignore-not-found", "--cascade=foreground", timeout_s=_REMOVE_S))


def _end_former(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Remove the stack's previous job of another kind, and its service: MPI Operator may create a service of the same name."""
    for kind, name in ask["former"]:
        found = kubectl.known(kind, name)
        if found is not None and _is_ours(found, ask):
            _say(f"kubernetes.job has changed; {kind} {name} is deleted")
            _end(kubectl, kind, name)


def _end_ended(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Delete finished pods of MPI Operator, which keeps the pods of finished workers and does not replace them."""
    if ask["job"] == "job.batch":
        return
    for pod in pods_of(kubectl, ask["pods"]):
        if pod["status"].get("phase") in ("Failed", "Succeeded"):
            _end(kubectl, "pod", pod["metadata"]["name"])


def _is_another(job: Dict[str, Any], template: List[str]) -> bool:
    """Tell whether a job has finished, or has an annotation that differs from `template` and so needs other pods.

    A job cannot be changed, so such a job is deleted and created again.
    """
    conditions = job.get("status", {}).get("conditions", [])
    return (
        any(one["status"] == "True" and one["type"] in _ENDED for one in conditions)
        or job["metadata"].get("annotations", {}).get(template[0]) != template[1]
    )


def _apply(kubectl: Kubectl, manifest: str) -> None:
    done = kubectl("apply", "--server-side", "--field-manager=busbar", "--filename=-", stdin=manifest, timeout_s=60)
    if done.status != 0:
        conflict = done.err.partition("Please review")[0].strip()
        sys.exit(
            f"somebody else changed an object of the stack; the update did not change it back: {conflict}"
            if "conflict" in conflict
            else f"the stack's objects could not be applied: {done.why}"
        )


def _running(kubectl: Kubectl, ask: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Return the pods in the nodes' order once all pods run.

    Exits with the reason if a pod does not run in time, or runs without one of its rails.
    """
    deadline = time.monotonic() + ask["timeout_s"]
    old = events_seen(kubectl)
    last = {}  # type: Dict[str, str]
    since: Dict[str, Tuple[str, float]] = {}
    while True:
        pods = pods_of(kubectl, ask["pods"])
        found = {node: _live(pods, node) for node in ask["nodes"]}
        if all(found.values()):
            return [_line(pod, node, ask) for node, pod in found.items() if pod is not None]
        running = [pod["metadata"]["uid"] for pod in found.values() if pod is not None]
        for pod in pods:
            if pod["metadata"]["uid"] in running:
                continue
            name = pod["metadata"]["name"]
            why, hopeless = why_pending(kubectl, pod, ask, old)
            if why and last.get(name) != why:
                _say(f"{name}: {why}")
                last[name] = why
            if why and since.get(name, ("", 0))[0] != why:
                since[name] = (why, time.monotonic())
            if why and hopeless is not None and time.monotonic() - since[name][1] >= hopeless:
                sys.exit(f"{name} cannot start: {why}")
        if time.monotonic() > deadline:
            lacking = [node for node, pod in found.items() if pod is None]
            # Events of a pod that was deleted meanwhile do not apply to the current pods.
            there = {pod["metadata"]["name"] for pod in pods}
            said = "; ".join(f"{name}: {why}" for name, why in sorted(last.items()) if name in there)
            said = said or _no_pod(kubectl, ask)
            sys.exit("no pod runs on {} within {:.0f} s: {}".format(", ".join(lacking), ask["timeout_s"], said))
        time.sleep(_PAUSE_S)


def _no_pod(kubectl: Kubectl, ask: Dict[str, Any]) -> str:
    """Return why pods are missing, according to the job's events."""
    found = events(kubectl, f"involvedObject.name={_JOB},type=Warning")
    said = found[-1].get("message", "")[:300] if found else ""
    whose = "the cluster" if ask["job"] == "job.batch" else "MPI Operator"
    return f"{whose} created no pod there{': ' + said if said else ''}"


def _live(pods: List[Dict[str, Any]], node: str) -> Optional[Dict[str, Any]]:
    """Return the running and ready pod of a node; None if the node has no such pod."""
    for pod in pods:
        ready = [one for one in pod["status"].get("conditions", []) if one["type"] == "Ready" and one["status"] == "True"]
        if pod["spec"].get("nodeName") == node and pod["status"].get("phase") == "Running" and ready:
            return pod
    return None


def _line(pod: Dict[str, Any], node: str, ask: Dict[str, Any]) -> Dict[str, Any]:
    """Return what `main` prints about a pod; exit with a message if a rail is missing, because Multus may report no error."""
    text = pod["metadata"].get("annotations", {}).get("k8s.v1.cni.cncf.io/network-status", "[]")
    held = {one.get("interface"): (one.get("ips") or [""])[0] for one in json.loads(text)}
    lacking = [name for name in ask["rails"] if not held.get(name)]
    name = pod["metadata"]["name"]
    if lacking:
        sys.exit(
            "{} on {} runs without {}, which Multus did not attach. This happens if the node's /etc/cni/net.d had no "
            "configuration of Multus when the pod started, as after a reboot; restart Multus on the node, and delete the "
            "pod".format(name, node, ", ".join(lacking))
        )
    rails = [held[one] for one in ask["rails"]]
    return {"name": name, "node": node, "address": pod["status"]["podIP"], "uid": pod["metadata"]["uid"], "rails": rails}


def _remove(kubectl: Kubectl, ask: Dict[str, Any]) -> None:
    """Remove all objects, except the namespace, that have the stack's labels and are of the same kinds as the stack's objects.

    Then remove the stack's own namespace if `_strangers` finds nothing in it.
    """
    selector = ",".join(f"{key}={value}" for key, value in sorted(ask["labels"].items()))
    space = kubectl.get("namespace", ask["namespace"])
    if space is None:
        return
    kinds = {}  # type: Dict[str, None]
    for kind, _ in ask["objects"]:
        if kind != "namespace":
            kinds[kind] = None
    # The job is deleted first, while its pods still have their permissions. A kind that the cluster does not know has no
    # objects.
    for kind in sorted(kinds, key=lambda kind: kind != ask["job"]):
        words = ("delete", kind, "--selector", selector, "--ignore-not-found", "--wait", "--cascade=foreground")
        gone = kubectl(*words, timeout_s=_REMOVE_S)
        if gone.status != 0 and "the server doesn't have a resource type" not in gone.err:
            sys.exit(f"destroy could not remove {kind} with the labels {selector}: {gone.why}")
    if not _is_ours(space, ask):
        return
    left = _strangers(kubectl)
    if left:
        _say("namespace {} is kept, because it has {}".format(ask["namespace"], ", ".join(left)))
        return
    _check(kubectl("delete", "namespace", ask["namespace"], "--ignore-not-found", "--wait", timeout_s=_REMOVE_S))


def _strangers(kubectl: Kubectl) -> List[str]:
    """Return the namespace's objects of all kinds, except the cluster's own; the stack's objects are deleted already.

    If the cluster does not list all objects, the result says so, because the unlisted objects may be somebody's.
    """
    known = kubectl("api-resources", "--namespaced=true", "--verbs=list", "--output=name")
    kinds = ",".join(kind for kind in known.out.split() if kind not in _DERIVED)
    found = kubectl("get", kinds, "--output", "json", "--ignore-not-found")
    items = (json.loads(found.out).get("items") or []) if found.out.strip() else []
    names = ["{} {}".format(one["kind"].lower(), one["metadata"]["name"]) for one in items]
    unread = [f"objects that cannot be listed ({answer.why})" for answer in (known, found) if answer.status != 0]
    return [name for name in names if name not in _OF_EVERY_NAMESPACE] + unread
