"""The names and labels that say which objects of a cluster are a stack's own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: Field manager of server-side apply.
MANAGER = "busbar"
#: Names of the objects. The pods of the Job and their host names begin with its name.
RANKS, RAIL = "busbar-ranks", "busbar-rail"
#: What makes the pods, by `kubernetes.job`: its kind as kubectl takes it, with its group.
JOBS = {"Job": "job.batch", "MPIJob": "mpijob.kubeflow.org"}
#: What a stack of the other kind has left when `kubernetes.job` is changed to this one: kinds of objects named `RANKS`.
FORMER = {"Job": ("mpijob.kubeflow.org",), "MPIJob": ("job.batch", "service")}
#: Annotation of the Job: a hash of what cannot be changed in place, so that another one replaces it.
TEMPLATE = "busbar/template"
#: Annotation of a namespace: where kubectl works that applied it last. A stack whose `controlPlane` is changed registers a new
#: Command, and the end of the old one must leave what the new one has applied.
WAY = "busbar/way"
#: A value of a label is that long at most (apimachinery, util/validation).
_LABEL_BYTES = 63


def labels(stack: str) -> dict[str, str]:
    """Return the labels of every object of `stack`; only objects with all of them are changed or removed."""
    whole = stack if len(stack) <= _LABEL_BYTES else hashlib.sha256(stack.encode()).hexdigest()[:16]
    return {
        "app.kubernetes.io/name": "busbar",
        "app.kubernetes.io/managed-by": "busbar",
        "app.kubernetes.io/instance": whole,
    }


def selector(stack: str) -> str:
    """Return the labels as kubectl's --selector takes them."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels(stack).items()))


def digest(value: Mapping[str, Any]) -> str:
    """Return a hash of plain data, as short as a label."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
