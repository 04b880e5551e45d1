"""Creates the requests to the records stage and reads its answers.

This module has only pure functions, because a verdict must follow only from the stack's state. `benchmarks.records.answer`,
which a Command runs, accesses files, stores and keys.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.judge import retest
from benchmarks.judge.checks import PASS
from benchmarks.judge.measurement import is_number
from benchmarks.judge.transport import switches_reduced
from benchmarks.launch.protocol import data
from benchmarks.plan.ranks import algorithm, launcher
from benchmarks.plan.size_text import size_text
from benchmarks.plan.steps import NODE
from benchmarks.records import history
from benchmarks.report.outputs import versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.judge.verdict import Judgement
    from benchmarks.launch.protocol import BuildLine
    from benchmarks.plan.asked import Asked
    from benchmarks.plan.ranks import Place
    from config.records import Records

#: Version of requests and answers.
SCHEMA = 1
#: If one place of the plan has more looks than this, only their number and digest are attested.
_LISTED = 128


@dataclass(frozen=True)
class Keeping:
    """The stack's settings for records, and its kind of cluster."""

    target: str
    records: Records


@dataclass(frozen=True)
class Way:
    """How the operator's machine reads a file on the head node: the command that opens a shell there, and pinned host keys."""

    shell: str
    known_hosts: str


@dataclass(frozen=True)
class Kept:
    """The answer of the records stage.

    Attributes:
        certificate: the signed envelope; None if nothing was signed.
        report: path of the page; None if none was drawn.
        evidence: path or URL of the transcript's copy in the history; None if there is no copy.
        changes: sentences on what changed since the previous run.
        warnings: sentences on what could not be read, written, signed or drawn.
    """

    certificate: dict[str, Any] | None = None
    report: str | None = None
    evidence: str | None = None
    changes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def look_up(found: Judgement, asked: Asked, keeping: Keeping, where: Place) -> str:
    """Return the request for the runs before the run that `found` judges.

    The request is empty if the stack keeps no history, or if history cannot have a record of this run.
    """
    one = _record(found, asked, keeping, where)
    if one is None:
        return nothing()
    compared = {"key": asdict(one.key), "versions": dict(one.versions), "plan": dict(one.plan)}
    request = {"schema": SCHEMA, "kind": "look-up", "history": keeping.records.history, "before": list(one.order)}
    return json.dumps(request | compared, sort_keys=True)


def nothing() -> str:
    """Return an empty request, for the case that there is no run."""
    return json.dumps({"schema": SCHEMA, "kind": "look-up"}, sort_keys=True)


def with_history(asked: Asked, answer: str) -> Asked:
    """Return `asked` with the limit from earlier runs, or with the reason why these runs could not be read."""
    line = _line(answer)
    limit = line.get("limit")
    if line.get("failed"):
        return dataclasses.replace(asked, past_unread=str(line["failed"]))
    if limit is None:
        return asked
    past = (float(limit["busbw_gb_s"]), str(limit["source"]))
    return dataclasses.replace(asked, past=past, past_since=str(limit["since"]))


def keep(  # noqa: PLR0913, PLR0917 - everything that is kept of a run
    found: Judgement,
    asked: Asked,
    keeping: Keeping,
    identity: str,
    where: Place,
    outputs: dict[str, Any],
    stack: str,
    way: Way | None = None,
) -> str:
    """Return the request that adds the run to history with its transcript, signs a pass and draws the report of `outputs`.

    `stack` is organization/project/stack. Without a `way` to read the head node's files, the transcript is not requested.
    """
    one = _record(found, asked, keeping, where)
    attested = None
    key = keeping.records.certificate.key
    if key and found.verdict == PASS:
        attested = {
            "key": key,
            "acceptance": _acceptance(found, asked, keeping, identity, where, outputs) | {"stack": stack},
        }
    request = {
        "schema": SCHEMA,
        "kind": "keep",
        "history": keeping.records.history or "",
        "record": None if one is None else one.document(),
        "report": f"{keeping.records.report}/{stack.rpartition('/')[2]}" if keeping.records.report else "",
        "outputs": outputs
        | {
            "stack": stack,
            "target": keeping.target,
            "nodes": [data(node) for node in where.nodes],
            "inside_gb_s": _inside(found, asked),
        },
        "certificate": attested,
        "evidence": asdict(way) | {"evidence": outputs["evidence"]} if way and outputs["evidence"] else None,
    }
    return json.dumps(request, sort_keys=True)


def kept(answer: str) -> Kept:
    """Parse the answer of the records stage; an unreadable part becomes a warning."""
    line = _line(answer)
    failed = [str(line["failed"])] if line.get("failed") else []
    certificate = line.get("certificate")
    return Kept(
        certificate=certificate if isinstance(certificate, dict) else None,
        report=str(line["report"]) if line.get("report") else None,
        evidence=str(line["evidence"]) if line.get("evidence") else None,
        changes=tuple(str(change) for change in line.get("changes", [])),
        warnings=(*(str(warning) for warning in line.get("warnings", [])), *failed),
    )


def inputs(asked: Asked, identity: str, built: BuildLine) -> dict[str, str]:
    """Return the inputs of a measurement; a certificate holds only for these inputs."""
    hashes = json.dumps(built.hashes, sort_keys=True)
    return {
        "cluster": identity,
        "plan": asked.plan.digest(),
        "binaries": hashlib.sha256(hashes.encode()).hexdigest(),
    }


def _record(found: Judgement, asked: Asked, keeping: Keeping, where: Place) -> history.Record | None:
    if not keeping.records.history:
        return None
    try:
        # A ring is slower than switches that reduce; neither result shows a fault, so the two are not compared.
        by_switches = switches_reduced(found.line.get("transport"), asked)
        chosen = "CollNet" if by_switches else algorithm(asked.shape, asked.nodes, asked.plan.exports)
        installed = versions(found.line, where.built)
        return history.record(found, keeping.target, asked.shape.name, asked.nodes, installed, chosen, _plan(asked, where))
    except history.HistoryError:
        return None  # a line without a usable run id; the verdict reports that


def _plan(asked: Asked, where: Place) -> dict[str, str]:
    """Return the parameters of the deciding run and its launch, by name; later runs of other collectives do not matter."""
    plan = asked.plan
    sizes = f"{size_text(plan.begin_bytes)} to {size_text(plan.end_bytes)} by {plan.sizes.factor}"
    counts = {"iterations": str(plan.iterations), "warmup": str(plan.warmup), "cycles": str(plan.cycles)}
    ways = {"launcher": launcher(where), "fabric": " ".join(where.fabric)}
    return {"sizes": sizes} | counts | {name: way for name, way in ways.items() if way} | plan.exports


def _acceptance(  # noqa: PLR0913, PLR0917 - what is attested
    found: Judgement,
    asked: Asked,
    keeping: Keeping,
    identity: str,
    where: Place,
    outputs: dict[str, Any],
) -> dict[str, Any]:
    """Return all fields of `certificate.Acceptance` except the stack's name."""
    machines = found.line.get("machines")
    known = machines if isinstance(machines, dict) else {}
    return {
        "cluster": identity,
        "nodes": {node.name: f"{known.get(node.name, known.get('sha256', 'unknown'))}@{node.address}" for node in where.nodes},
        "target": keeping.target,
        "shape": asked.shape.name,
        "versions": outputs["versions"],
        "plan": asked.plan.asked(),
        "inputs": inputs(asked, identity, where.built),
        "transcript_sha256": str(outputs["evidence"].get("sha256", "")),
        "others": [{"of": one["of"], "sha256": str(one.get("sha256", ""))} for one in outputs["evidence"].get("others", [])],
        "results": outputs["results"],
        "verdict": found.verdict,
        "gate": outputs["gate"],
        "busbw_gb_s": found.busbw_gb_s,
        "scale": found.scale,
        "run_id": str(found.line.get("run_id")),
        "started": str(found.line.get("started")),
        "checks": {one.name: one.state for one in found.checks},
        "own_gate": asked.accept.gate_gb_s is not None,
        "looks": _looks(found),
        "retested": any(why.startswith(retest.NOTE) for one in found.checks for why in one.why),
        "asked": asked.digest(),
        "valid_days": keeping.records.certificate.days,
    }


def _looks(found: Judgement) -> dict[str, Any] | None:
    """Return the busbw of every look, the number of slow looks at each place of the plan, and the previous run's looks."""
    if found.looks is None:
        return None
    places = {one.name: {"slow": one.slow, "gb_s": _listed(one.gb_s)} for one in found.looks.places}
    earlier = _listed(found.line.get("earlier_looks") or [])
    return {"slow": found.looks.slow, "of": found.looks.of, "places": places, "run_before_gb_s": earlier}


def _listed(looks: Sequence[float]) -> Any:
    """Return the looks in GB/s; if there are very many, only their number and digest, because outputs must stay small."""
    rounded = [round(float(one), 6) for one in looks]
    if len(rounded) <= _LISTED:
        return rounded
    return {"count": len(rounded), "sha256": hashlib.sha256(json.dumps(rounded, separators=(",", ":")).encode()).hexdigest()}


def _inside(found: Judgement, asked: Asked) -> list[float]:
    """Return busbw inside each node (GB/s); empty if the line does not list all nodes, or if a node has no number.

    The result is also empty in a rehearsal, where memory replaces NVLink.
    """
    listed = found.line.get("steps")
    for step in listed if isinstance(listed, list) and found.scale == 1 else []:
        groups = step.get("groups_gb_s") if isinstance(step, dict) and step.get("stage") == NODE else None
        if isinstance(groups, list) and len(groups) == asked.nodes and all(map(is_number, groups)):
            return [float(one) for one in groups]
    return []


def _line(answer: str) -> dict[str, Any]:
    try:
        found = json.loads((answer.splitlines() or [""])[-1])
    except (ValueError, RecursionError) as error:
        return {"failed": f"records: the answer is not JSON ({error})"}
    return found if isinstance(found, dict) else {"failed": "records: the answer is not an object"}
