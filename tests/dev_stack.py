"""The dev stack for tests of the program: its settings, and the lines that its Commands print."""

from __future__ import annotations

import json
from typing import Any

from conftest import BUILD_LINE, configuration, ready_line
from measurement_line import document

from benchmarks.plan.asked import Asked
from config import read
from config.oci.model import Oci


def dev_asked() -> Asked:
    """Return what the dev stack asks of a measurement of its first pool with two nodes."""
    stack = read.parse({key.partition(":")[2]: text for key, text in configuration().items()})
    assert isinstance(stack.wanted, Oci)
    return Asked.of(stack, stack.wanted.pools[0].row, 2)


DEV = document(dev_asked())
LINES = {
    "acceptance-ready-contact": ready_line(),
    "acceptance-build": BUILD_LINE,
    "acceptance-measure": json.dumps(DEV),
    "acceptance-search": json.dumps({"schema": 1, "kind": "search", "needed": False}),
}


def files(home: str = "refuse", lustre: str = "refuse") -> dict[str, Any]:
    """Return changes to the keys of `oci`: both file systems, and the image family ol8 for the pool.

    `home` and `lustre` are the values of `onDestroy` of the two file systems.
    """
    storage = {"home": {"mount": "/fss", "onDestroy": home}, "lustre": {"onDestroy": lustre}}
    return {"pools": [{"imageFamily": "ol8"}], "storage": storage}
