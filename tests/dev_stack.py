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
    """Return the settings of the dev stack."""
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
    """Return the changes that add both file systems to the group oci; `home` and `lustre` say what a destroy does to each."""
    storage = {"home": {"mount": "/fss", "onDestroy": home}, "lustre": {"onDestroy": lustre}}
    return {"pools": [{"imageFamily": "ol8"}], "storage": storage}
