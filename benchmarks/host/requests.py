"""What the runner on the head is asked to do: requests as plain data, each under a run id that is a hash of all that matters.

It deliberately sends nothing; `components.acceptance.sweep` hands a request to the head, and a person can do the same by hand.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from benchmarks.judge import retest
from benchmarks.judge.verdict import SHORT, Judgement
from benchmarks.plan import ceiling, gate
from benchmarks.plan.asked import Asked
from benchmarks.plan.collectives import collective
from benchmarks.plan.steps import MEDIAN_ITERATIONS, Launch, argv, exports, hostfile, mpirun, repeated, result, steps
from catalogue import ENVIRONMENTS, GENERIC
from catalogue.containers import HOMES_INSIDE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.plan.steps import Step
    from catalogue import Homes, Shape
    from catalogue.containers import Container

_BUILD_TIMEOUT_S = 1800
#: With an image of 10 GB or more that is fetched, packed, laid on every node and unpacked there.
_CONTAINER_TIMEOUT_S = 5400
#: A trial of the search runs at twice the size from which the strictest fraction of the wire is promised.
_SEARCH_SIZES = 2
#: What the searching Command may need beyond its budget: the last round, and waiting for another measurement's end.
_SEARCH_GRACE_S = 900

#: Checks whose failure a slow node, rail or link may explain.
_SLOW_CHECKS = frozenset({"bandwidth", "limit", "rails", "spread", "history"})

Machine = dict[str, str]


def build(  # noqa: PLR0913, PLR0917 - what a build depends on
    nodes: Sequence[Machine],
    asked: Asked,
    source: dict[str, str],
    homes: Homes,
    reasons: Sequence[str],
    container: Container | None = None,
) -> str:
    """Return the request that builds all programs of the plan from `source` (version, sha256, url or path).

    With `container` they are built in it, against what it holds: the tests of an image itself are often older than the options
    that a plan needs, and an image that people train with has none.
    """
    programs = sorted({collective(step.collective).program for step in steps(asked.plan, asked.shape, asked.nodes)})
    body: dict[str, Any] = {"nodes": list(nodes), "programs": programs, "source": source, "homes": _homes(homes)}
    if container is None:
        return _request("build", _BUILD_TIMEOUT_S, body, *reasons)
    body["container"] = {
        "uri": container.image.uri,
        "path": container.image.path,
        "sha256": container.sha256,
        "shared": container.shared,
        "homes": _homes(HOMES_INSIDE),
    }
    return _request("build", _CONTAINER_TIMEOUT_S, body, *reasons)


def _homes(homes: Homes) -> dict[str, list[str]]:
    return {"MPI_HOME": list(homes.mpi), "CUDA_HOME": list(homes.cuda), "NCCL_HOME": list(homes.nccl)}


def launch(nodes: Sequence[Machine], network: str, built: dict[str, Any], asked: Asked) -> Launch:
    """Return where the plan runs, from the line of a finished build."""
    here = f"{built['home']}/.busbar/plans/{asked.plan.digest()[:16]}"
    return Launch(
        addresses=tuple(node["address"] for node in nodes),
        network=network,
        mpi_home=built["mpi_home"],
        cuda_home=built["cuda_home"],
        nccl_home=built["nccl_home"],
        binaries=built["binaries"],
        hostfile=f"{here}/hosts",
        results=here,
        logs=f"{built['home']}/.busbar/nccl",
        shared=built["shared"],
        fabric=asked.interfaces,
        container=tuple(built.get("container", {}).get("start", ())),
    )


def measure(nodes: Sequence[Machine], where: Launch, built: dict[str, Any], asked: Asked, reasons: Sequence[str]) -> str:
    """Return the request that runs every step of the plan."""
    body = _measurement(nodes, where, asked, steps(asked.plan, asked.shape, asked.nodes))
    # The cycle is part of the plan's digest: raising it alone measures again.
    return _request(
        "measure", asked.plan.timeout_s, body, asked.plan.digest(), json.dumps(built["hashes"], sort_keys=True), *reasons
    )


def _measurement(nodes: Sequence[Machine], where: Launch, asked: Asked, chosen: Sequence[Step]) -> dict[str, Any]:
    ordered = [
        {
            "name": step.name,
            "stage": step.stage,
            "collective": step.collective,
            "argv": list(argv(step, asked.plan, where, asked.shape)),
            "result": result(step, where),
            "cycles": step.cycles,
            "groups": step.groups,
            "ranks": asked.ranks,
            "decides": step.name == asked.plan.collective,
        }
        for step in chosen
    ]
    return {
        "nodes": list(nodes),
        "gpus": asked.shape.gpus,
        "hcas": list(asked.shape.rdma.hca) if asked.shape.rdma and asked.nodes > 1 else [],
        "fabric": list(asked.fabric) if asked.nodes > 1 else [],
        "deciding": asked.plan.collective,
        "steps": ordered,
        "hostfile": {"path": where.hostfile, "text": hostfile(where, asked.shape)},
        "results": where.results,
        "logs": where.logs,
    }


def _second(
    nodes: Sequence[Machine], where: Launch, asked: Asked, judged: Judgement, reasons: Sequence[str]
) -> dict[str, Any] | None:
    """Return the second look, a measurement of what is short that may fail; None where nothing is to be seen twice.

    Its id names the first look and the steps alone, so whatever else is asked of a search, it is the same second look.
    """
    names = retest.steps_of(judged, asked)
    chosen = [repeated(step) for step in steps(asked.plan, asked.shape, asked.nodes) if step.name in names]
    if not chosen:
        return None
    body = _measurement(nodes, where, asked, chosen)
    body["steps"] = [step | {"decides": False} for step in body["steps"]]
    body["evidence"] = judged.line.get("evidence")
    found: dict[str, Any] = json.loads(_request("second", asked.plan.timeout_s, body, judged.line.get("run_id", ""), *reasons))
    return found


def search(  # noqa: PLR0913, PLR0917 - what a search depends on
    nodes: Sequence[Machine], where: Launch, asked: Asked, judged: Judgement, budget_s: int, reasons: Sequence[str]
) -> str:
    """Return the request that measures once more what `judged` finds slow and looks for the cause; else it asks for nothing."""
    slow = any(one.state == SHORT and one.name.split(" ")[0] in _SLOW_CHECKS for one in judged.checks)
    needed = slow and asked.nodes > 1 and budget_s > 0
    again = _second(nodes, where, asked, judged, reasons)
    body: dict[str, Any] = {"needed": needed, "nodes": list(nodes) if needed or again else [], "budget_s": budget_s}
    if again:
        body["again"] = again
    if needed:
        pair = ceiling.ring_gb_s(asked.shape, 2, judged.scale)
        size = _search_bytes(asked, judged.scale)
        share = gate.fraction(size, gate.FRACTIONS, judged.scale)
        variables = exports(asked.shape, 2, where, asked.plan.exports)
        body |= {
            "gpus": asked.shape.gpus,
            "rails": rails(asked.shape),
            "by_gpu": _by_gpu(asked.shape),
            "mpirun": list(mpirun(where, asked.shape, asked.plan.exports)),
            "exports": variables,
            "program": [*where.container, f"{where.binaries}/{collective('all_reduce').program}"],
            "size_bytes": size,
            "iterations": MEDIAN_ITERATIONS,
            "pair_limit_gb_s": None if pair is None or share is None else pair * share,
            "whole_gb_s": judged.busbw_gb_s if asked.plan.collective == "all_reduce" else None,
        }
    bound_s = budget_s + _SEARCH_GRACE_S + (asked.plan.timeout_s if again else 0)
    return _request("search", bound_s, body, judged.line.get("run_id", ""), *reasons)


def asks(request: str) -> bool:
    """Tell whether a request asks for anything: a search of a fabric that is not short does not."""
    found = json.loads(request)
    return bool(found["kind"] != "search" or found["needed"] or "again" in found)


def rails(shape: Shape) -> list[list[str]]:
    """Return what a search may try alone, each as the RDMA devices that it has: every rail, or the rails near each GPU.

    NCCL takes a list of HCAs; a network plugin takes none, and gives each GPU the devices near it: a trial by GPU tries those.
    """
    devices = shape.rdma.hca if shape.rdma else ()
    together = max(len(devices) // shape.gpus, 1) if _by_gpu(shape) else 1
    return [list(devices[first : first + together]) for first in range(0, len(devices), together)]


def _by_gpu(shape: Shape) -> bool:
    return bool(ENVIRONMENTS[shape.environment or GENERIC].provider)


def _search_bytes(asked: Asked, scale: int) -> int:
    """Return a trial's message: well inside the strictest band where the plan goes as far, the plan's largest otherwise."""
    strict = [
        size for size in asked.plan.sizes_bytes if gate.fraction(size / _SEARCH_SIZES, gate.FRACTIONS[:1], scale) is not None
    ]
    return strict[0] if strict else asked.plan.end_bytes


def _request(kind: str, timeout_s: int, body: dict[str, Any], *reasons: str) -> str:
    """Return a request whose run id is a hash of all that could change its answer."""
    request = {"schema": 1, "kind": kind, "timeout_s": timeout_s, **body}
    text = json.dumps([request, *reasons], sort_keys=True)
    return json.dumps(request | {"run_id": hashlib.sha256(text.encode()).hexdigest()[:16]}, sort_keys=True)
