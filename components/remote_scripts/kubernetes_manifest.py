"""Applies a vendor's manifest to a cluster without changing foreign objects; removes the manifest's objects by their labels.

In every function, `ask` has `file` (name of the manifest's file here), `definitions` (names of the manifest's custom resource
definitions), `objects` ([kind, name, namespace] of each object; objects that others need come first) and `labels` (the
labels that the stack gives to all objects of this manifest). `whose` is the manifest's name in messages.
"""

import sys
import time
from typing import Any, Dict, List

from components.remote_scripts.kubectl import Kubectl, brought

_APPLY_S, _ESTABLISHED_S, _REMOVE_MANIFEST_S = 120, 60, 180


def _within(namespace: str) -> List[str]:
    return ["--namespace", namespace] if namespace else []


def foreign_objects(kubectl: Kubectl, ask: Dict[str, Any]) -> str:
    """Return the manifest's objects that exist but lack one of `labels`: four by name, the others as a number; or ""."""
    foreign = []
    for kind, name, namespace in ask["objects"]:
        found = kubectl.known(kind, name, *_within(namespace))
        if found is None:
            continue
        labels = found["metadata"].get("labels", {})
        if any(labels.get(key) != value for key, value in ask["labels"].items()):
            foreign.append(f"{kind} {name}")
    more = f" and {len(foreign) - 4} more" if len(foreign) > 4 else ""  # noqa: PLR2004
    return ", ".join(foreign[:4]) + more


def apply_manifest(kubectl: Kubectl, ask: Dict[str, Any], whose: str) -> None:
    """Apply the manifest. Namespaces and custom resource definitions come first, because other objects need them."""
    with open(brought(ask["file"]), encoding="utf-8") as source:
        documents = source.read().split("\n---\n")
    first = [one for one in documents if "\nkind: CustomResourceDefinition\n" in one or "\nkind: Namespace\n" in "\n" + one]
    if first:
        _apply_documents(kubectl, first, whose)
    deadline = time.monotonic() + _ESTABLISHED_S
    for name in ask["definitions"]:
        # `kubectl wait` is no substitute: it fails if a definition is so new that it has no conditions.
        while not _is_established(kubectl, name):
            if time.monotonic() > deadline:
                sys.exit(
                    f"the cluster did not establish {whose}'s custom resource definition {name} within {_ESTABLISHED_S:.0f} s"
                )
            time.sleep(0.2)
    _apply_documents(kubectl, documents, whose)


def _apply_documents(kubectl: Kubectl, documents: List[str], whose: str) -> None:
    arguments = ("apply", "--server-side", "--field-manager=busbar", "--filename=-")
    done = kubectl(*arguments, stdin="\n---\n".join(documents), timeout_s=_APPLY_S)
    if done.status != 0:
        sys.exit(f"the cluster did not accept an object of {whose}: {done.why}")


def _is_established(kubectl: Kubectl, name: str) -> bool:
    found = kubectl.get("customresourcedefinition.apiextensions.k8s.io", name) or {}
    conditions = found.get("status", {}).get("conditions") or []
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def pods_wait_for(pods: List[Dict[str, Any]]) -> str:
    """Return why pods of a manifest do not run: at most four reasons, each with the name of one pod."""
    whys = {}  # type: Dict[str, str]
    for pod in pods:
        status = pod["status"]
        if status.get("phase") == "Succeeded":
            continue
        for one in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
            waiting = one.get("state", {}).get("waiting", {})
            if waiting.get("reason"):
                why = "{} ({})".format(waiting["reason"], waiting.get("message", "")[:200])
                whys.setdefault(why, pod["metadata"]["name"])
        for one in status.get("conditions", []):
            if one["type"] == "PodScheduled" and one["status"] == "False":
                whys.setdefault("no node accepts this pod ({})".format(one.get("message", "")[:200]), pod["metadata"]["name"])
    reasons = [f"{name}: {why}" for why, name in list(whys.items())[:4]]
    return "; ".join(reasons) or "the pods report no reason"


def remove_manifest(kubectl: Kubectl, ask: Dict[str, Any], whose: str, *how: str) -> None:
    """Remove all objects that have `labels`, in reverse order: custom resources before the definitions of their kinds."""
    selector = ",".join(f"{key}={value}" for key, value in sorted(ask["labels"].items()))
    seen = {}  # type: Dict[str, None]
    for kind, _, namespace in reversed(ask["objects"]):
        if f"{kind} {namespace}" in seen:
            continue
        seen[f"{kind} {namespace}"] = None
        arguments = ("delete", kind, "--selector", selector, *_within(namespace), "--ignore-not-found", "--wait", *how)
        gone = kubectl(*arguments, timeout_s=_REMOVE_MANIFEST_S)
        if gone.status != 0 and "the server doesn't have a resource type" not in gone.err:
            sys.exit(f"destroy could not remove {kind} of {whose} with the labels {selector}: {gone.why}")
