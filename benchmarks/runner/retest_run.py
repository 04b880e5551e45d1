"""Runs a retest: measures a second time what was too slow in the first measurement.

The retest's result is kept under the retest's own run id. A later search for the same measurement uses this result and does
not measure again. Otherwise, a user could repeat the retest until one result happens to be fast. The function `retest` raises
no refusal: a failure is part of the result.
"""

import json
import os
import shlex
import time
from typing import Any, Dict

from benchmarks.launch.lines import RetestLine, StepLine
from benchmarks.launch.protocol import Measure, data
from benchmarks.runner import evidence, jobs, kept_looks, measure, traffic
from benchmarks.runner.refusal import Refusal

_KEPT = "second.json"


def retest(asked: Measure, say: jobs.Say) -> Dict[str, Any]:
    """Carry out the retest `asked`, and return its `RetestLine` as plain data; the caller must hold the measurement lock."""
    here = jobs.folder(asked.run_id)
    path = os.path.join(here, _KEPT)
    if os.path.exists(path):
        with jobs.text(path) as source:
            return dict(json.load(source))
    os.makedirs(here, mode=0o700, exist_ok=True)
    try:
        found = _retest(asked, here, say)
    except (Refusal, OSError) as error:
        say(f"the retest failed: {error}")
        return dict(data(RetestLine([], None, None, str(error)), sparse=True))
    jobs.write(path, json.dumps(found))
    return found


def _retest(asked: Measure, here: str, say: jobs.Say) -> Dict[str, Any]:
    began = time.monotonic()
    nodes = asked.nodes
    before, _ = measure.inventories(nodes, shlex.quote(asked.logs))
    measure.refuse_busy(nodes, before)
    measure.refuse_changed(asked)
    measure.lay_hostfile(asked)
    if measure.absent_interfaces(asked.fabric, nodes, before):
        asked = measure.without_interfaces(asked)
    ran = measure.carry_out(asked, here, say, before, began)
    looks = kept_looks.key(asked, [its["machine"] for its in before])
    kept_looks.keep(looks, ran.steps, kept_looks.earlier(looks))
    transport = None
    if ran.deciding is not None:
        moved = traffic.between(nodes, before, ran.after, asked.hcas)
        transport = moved._replace(network=ran.deciding.network, steps=ran.counted)
    first = asked.evidence
    seen = (first.sha256, first.path) if first else (None, None)
    head = "# busbar: measured a second time; the first is {} ({})\n".format(*seen)
    steps = [StepLine(**step) for step in ran.steps]
    kept = evidence.keep(here, ran.texts, ran.failed, head)
    return dict(data(RetestLine(steps, transport, kept, None), sparse=True))
