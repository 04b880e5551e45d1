"""Measure once more what was short, once: the steps, counters around the deciding one, and evidence that names the first's.

What was seen is kept under an id of its own, so another search of the same measurement finds it and cannot ask for a better
one. It deliberately judges nothing, and fails never: what went wrong is said in what it returns.
"""

import json
import os
import shlex
import time
from typing import Any, Dict

from benchmarks.launch.protocol import Measure
from benchmarks.runner import jobs, measure, traffic
from benchmarks.runner.refusal import Refusal

_KEPT = "second.json"


def look(asked: Measure, say: jobs.Say) -> Dict[str, Any]:
    """Return {steps, transport, evidence, failed} of `asked`, a measurement's request with fewer steps; the head is held."""
    here = jobs.folder(asked.run_id)
    path = os.path.join(here, _KEPT)
    if os.path.exists(path):
        with jobs.text(path) as source:
            return dict(json.load(source))
    os.makedirs(here, mode=0o700, exist_ok=True)
    try:
        found = _look(asked, here, say)
    except (Refusal, OSError) as error:
        say(f"the second look failed: {error}")
        return {"steps": [], "transport": None, "evidence": None, "failed": str(error)}
    jobs.write(path, json.dumps(found))
    return found


def _look(asked: Measure, here: str, say: jobs.Say) -> Dict[str, Any]:
    began = time.monotonic()
    nodes = asked.nodes
    before, _ = measure.inventories(nodes, shlex.quote(asked.logs))
    measure.lay_hostfile(asked)
    ran = measure.carry_out(asked, here, say, before, began)
    transport = None
    if ran.deciding is not None:
        transport = dict(traffic.between(nodes, before, ran.after, asked.hcas), network=ran.deciding.network, steps=ran.counted)
    first = asked.evidence
    seen = (first.sha256, first.path) if first else (None, None)
    head = "# busbar: measured a second time; the first is {} ({})\n".format(*seen)
    return {"steps": ran.steps, "transport": transport, "evidence": measure.keep(here, ran.texts, head), "failed": None}
