"""Reports why a pod does not run yet: the cluster's own message, its meaning, and whether waiting may help."""

import re
from typing import Any, Dict, List, Optional, Set, Tuple

from components.remote_scripts.kubectl import Kubectl

#: Words in an event of a pod that gets no network -> their meaning, and how long (s) the cause may take to disappear by itself.
#: For example, a node needs some time to get an interface back from the previous pod.
_NETWORK = (
    ("Could not allocate IP", "the addresses of the rail's range are used up: give kubernetes.rails a wider range", 20),
    ("cannot find a network-attachment-definition", "the rail's NetworkAttachmentDefinition is gone", 10),
    ("cannot find network", "the rail's NetworkAttachmentDefinition is gone", 10),
    ("Link not found", "the node lacks an interface that kubernetes.rails names", 45),
    ("no such network interface", "the node lacks an interface that kubernetes.rails names", 45),
    ("failed to find host device", "the node lacks an interface that kubernetes.rails names", 45),
    (
        "host must be a URL",
        "Multus cannot parse an address that it wrote: its image was built with a newer Go than the vendor's",
        20,
    ),
    ("failed to find", "a CNI plugin that the rail needs is not in /opt/cni/bin of the node", 20),
)
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
#: How long (s) transient causes may last: GPUs are not free yet, a registry fails briefly, a container cannot be started.
_SCHEDULED_S, _PULLED_S, _CRASHED_S = 45, 20, 10


def events_seen(kubectl: Kubectl) -> Set[str]:
    """Return the versions of all events that exist now, so that `why_pending` can tell later events from them."""
    return {_version(one) for one in events(kubectl)}


def why_pending(kubectl: Kubectl, pod: Dict[str, Any], ask: Dict[str, Any], old: Set[str]) -> Tuple[str, Optional[float]]:
    """Return why a pod does not run, and how many seconds the caller should wait; None if it should wait until its own limit.

    `old` has the versions of events from before the update. The update may have removed the cause of such an event, so the
    event never makes waiting useless. If the cause remains, the event occurs again, because a node retries within some seconds.
    """
    status = pod["status"]
    for one in status.get("conditions", []):
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return "no node accepts this pod: {}".format(one.get("message", "")), _SCHEDULED_S
    for one in status.get("containerStatuses", []):
        waiting = one.get("state", {}).get("waiting", {})
        reason, message = waiting.get("reason", ""), waiting.get("message", "")
        if reason in _IMAGE:
            return f"kubernetes.image is {ask['image']}, which the node cannot pull ({reason}: {message[:300]})", _PULLED_S
        if reason in ("CreateContainerError", "CreateContainerConfigError", "RunContainerError", "CrashLoopBackOff"):
            return f"its container does not start ({reason}: {message[:300]})", _CRASHED_S
        ended = one.get("state", {}).get("terminated")
        if ended:
            return "its container ended with {}: {}".format(ended.get("exitCode"), ended.get("message") or "no message"), None
    if status.get("phase") == "Failed":
        return "it failed ({}: {})".format(status.get("reason", ""), status.get("message", "")), None
    return _of_network(kubectl, pod, old)


def events(kubectl: Kubectl, selector: str = "") -> List[Dict[str, Any]]:
    """Return the namespace's events, or only the events that match the field selector `selector`."""
    chosen = ("--field-selector", selector) if selector else ()
    return list((kubectl.get("events", *chosen) or {}).get("items", []))


def _version(event: Dict[str, Any]) -> str:
    # The resource version changes each time that the event occurs again.
    return str(event["metadata"]["resourceVersion"])


def _of_network(kubectl: Kubectl, pod: Dict[str, Any], old: Set[str]) -> Tuple[str, Optional[float]]:
    found = events(kubectl, "involvedObject.uid={}".format(pod["metadata"]["uid"]))
    for one in [one for one in found if one.get("reason") == "FailedCreatePodSandBox"][-1:]:
        short = re.sub(r"\s+", " ", one.get("message", ""))
        for words, meaning, wait_s in _NETWORK:
            if words in short:
                at = max(short.find(words) - 80, 0)
                return f"{meaning} ({short[at : at + 240]})", None if _version(one) in old else wait_s
        return f"it gets no network: {short[-400:]}", None
    return ("waiting for the node", None) if pod["spec"].get("nodeName") else ("waiting for the scheduler", None)
