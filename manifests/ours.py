"""The names and labels that identify a stack's own objects in a cluster."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: Field manager of server-side apply.
MANAGER = "busbar"
#: Names of the objects. The names and host names of the Job's pods begin with `RANKS`.
RANKS, RAIL = "busbar-ranks", "busbar-rail"
#: For each value of `kubernetes.job`: the kind of the object that creates the pods, as kubectl takes it, with its API group.
JOBS = {"Job": "job.batch", "MPIJob": "mpijob.kubeflow.org"}
#: For each value of `kubernetes.job`: the kinds of the objects named `RANKS` that may still exist if an earlier update had the
#: other value.
FORMER = {"Job": ("mpijob.kubeflow.org",), "MPIJob": ("job.batch", "service")}
#: Annotation of the Job: a hash of the fields that cannot be changed in place; if the hash changes, a new Job replaces the Job.
TEMPLATE = "busbar/template"
#: Annotation of an object, such as a service account: the place where kubectl ran when it last applied this object. If a
#: stack's `controlPlane` changes, the stack registers a new Command, and deleting the old Command must not remove what the new
#: Command has applied.
WAY = "busbar/way"
#: Maximum length of a label's value (apimachinery, util/validation).
_LABEL_BYTES = 63


def labels(stack: str) -> dict[str, str]:
    """Return the labels that every object of `stack` has; only objects with all these labels are changed or removed."""
    whole = stack if len(stack) <= _LABEL_BYTES else hashlib.sha256(stack.encode()).hexdigest()[:16]
    return {
        "app.kubernetes.io/name": "busbar",
        "app.kubernetes.io/managed-by": "busbar",
        "app.kubernetes.io/instance": whole,
    }


def selector(stack: str) -> str:
    """Return the labels in the form of kubectl's --selector."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels(stack).items()))


def digest(value: Mapping[str, Any]) -> str:
    """Return a hash of plain data, short enough for a label."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
