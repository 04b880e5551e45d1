"""Helpers that the tests of every stand-in cloud share: inputs with one value changed, and planted faults."""

from __future__ import annotations

import copy
import json
from typing import Any

from rehearsal.plugin.cloud import Cloud


def faults(cloud: Cloud, *listed: dict[str, object]) -> None:
    cloud.world.folder()
    (cloud.world.path / "faults.json").write_text(json.dumps(listed))


def put(inputs: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of the inputs with the value at a dotted path set, or removed if it is None."""
    changed = copy.deepcopy(inputs)
    *way, last = path.split(".")
    here: Any = changed
    for step in way:
        here = here[int(step)] if step.isdecimal() else here.setdefault(step, {})
    key = int(last) if last.isdecimal() else last
    if value is None:
        del here[key]
    else:
        here[key] = value
    return changed
