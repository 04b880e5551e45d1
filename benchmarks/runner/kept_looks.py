"""Keeps the looks of a measurement, so that the next measurement on the same machines can use them as evidence.

A look is one short measurement; many looks, spread over time, reveal a fabric that is slow at times.
"""

import hashlib
import json
import os
from typing import Any, Dict, List, Sequence

from benchmarks.launch.protocol import Measure
from benchmarks.runner import jobs

_KEPT = 128


def key(request: Measure, machines: Sequence[str]) -> str:
    """Return the name under which looks are kept: it depends on the machines, and on a look's program, size and variables.

    The name does not depend on the number of looks or on the number of operations in a look.
    """
    looks = [step for step in request.steps if step.stage == "looks"]
    ran = [[step.ranks.program, step.ranks.size, step.ranks.environment] for step in looks[:1]]
    said = json.dumps([sorted(machines), ran], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def earlier(name: str) -> List[float]:
    """Return the looks that were kept under `name`, in GB/s; empty if none were kept."""
    try:
        with jobs.text(_path(name)) as source:
            found = json.load(source)
    except (OSError, ValueError):
        return []
    return [one for one in found if isinstance(one, (int, float))] if isinstance(found, list) else []


def keep(name: str, steps: Sequence[Dict[str, Any]], beside: Sequence[float] = ()) -> None:
    """Keep the looks of `steps` under `name`, and forget earlier looks there; if `steps` has no looks, change nothing.

    The looks in `beside` are kept, too, before the looks of `steps`: in a retest, they are the looks that the first measurement
    kept. Only the last 128 looks are kept.

    In a rehearsal, a look may be slow because ranks waited for a processor of this machine. So the look is kept with the busbw
    that it would have reached without the waiting: the load of this machine may be different during the next measurement.
    """
    taken = [look / (1 - _waited(step)) for step in steps for look in step.get("looks_gb_s") or () if _waited(step) < 1]
    if taken:
        os.makedirs(os.path.dirname(_path(name)), mode=0o700, exist_ok=True)
        jobs.write(_path(name), json.dumps([*beside, *taken][-_KEPT:]))


def _waited(step: Dict[str, Any]) -> float:
    return float(step.get("waited") or 0.0)


def _path(name: str) -> str:
    return os.path.join(jobs.root(), "looks", name + ".json")
