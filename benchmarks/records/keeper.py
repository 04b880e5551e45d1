"""What is kept of a measurement beside the stack's state: its record, its certificate, its report.

It deliberately registers no resource and judges by `benchmarks.judge.verdict` only; what it writes is named by the run, so
doing it twice is doing it once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.judge import retest
from benchmarks.judge.checks import SHORT, SKIPPED, Check, verdict
from benchmarks.judge.verdict import Judgement, judge
from benchmarks.records import history

if TYPE_CHECKING:
    from benchmarks.plan.asked import Asked
    from config.stack import Stack

#: Names what a report was made from, so that the same one is not drawn again.
_MADE_FROM = "made-from.txt"


@dataclass(frozen=True)
class Keeping:
    """What a stack wants kept; an empty text leaves that out.

    Attributes:
        target: what kind of cluster.
        history: folder or URL of earlier runs.
        report: folder for page and pictures.
        certificate_key: path of the ed25519 private key that signs.
        certificate_days: how long a certificate holds.
    """

    target: str
    history: str
    report: str
    certificate_key: str
    certificate_days: int

    @classmethod
    def of(cls, stack: Stack) -> Keeping:
        """Return what `stack` wants kept."""
        records, certificate = stack.records, stack.records.certificate
        return cls(stack.target, records.history or "", records.report or "", certificate.key or "", certificate.days)


@dataclass(frozen=True)
class Looked:
    """A first judgement, what was `asked` of it with the limit of earlier runs, and those runs (None: there is no history)."""

    judged: Judgement
    asked: Asked
    past: history.Past | None


@dataclass(frozen=True)
class Kept:
    """A judged measurement, the run before it (None: none is known), and what is different since."""

    judged: Judgement
    last: history.Record | None
    changes: tuple[str, ...]


def looked(line: str, asked: Asked, keeping: Keeping) -> Looked:
    """Judge the runner's `line` with what history asks for."""
    found = judge(line, asked)
    try:
        one = _record(found, asked, keeping, {})
        if one is None:
            return Looked(found, asked, None)
        past = history.load(keeping.history, one.key, one.order)
    except history.HistoryError as error:
        asked = dataclasses.replace(asked, past_unread=str(error))
        return Looked(judge(line, asked), asked, None)
    asked = dataclasses.replace(asked, past=history.limit(past.records))
    return Looked(judge(line, asked), asked, past)


def settled(first: Looked, searched: dict[str, Any], keeping: Keeping, versions: dict[str, str], *, write: bool) -> Kept:
    """Judge with the second look that the line `searched` may hold; add the run to history where `write` says so."""
    found = retest.settled(first.judged, first.asked, searched)
    one = _record(found, first.asked, keeping, versions) if first.past else None
    if first.past is None or one is None:
        return Kept(found, None, ())
    try:
        if write:
            history.append(keeping.history, one)
    except history.HistoryError as error:
        return Kept(_unwritten(found, first.asked, str(error)), None, ())
    return Kept(found, first.past.last, (*first.past.warnings, *history.changes(first.past.last, one)))


def _record(found: Judgement, asked: Asked, keeping: Keeping, versions: dict[str, str]) -> history.Record | None:
    return history.record(found, keeping.target, asked.shape.name, asked.nodes, versions) if keeping.history else None


def _unwritten(found: Judgement, asked: Asked, why: str) -> Judgement:
    """Return the judgement of a run that history could not take: skipped, unless history finds it short already."""
    if any(one.name == "history" and one.state == SHORT for one in found.checks):
        return found
    checks = (*(one for one in found.checks if one.name != "history"), Check("history", SKIPPED, (why,)))
    outcome, reasons = verdict(checks, asked.allow_skipped)
    more = tuple(reason for reason in found.reasons if reason not in reasons)
    return dataclasses.replace(found, checks=checks, verdict=outcome, reasons=(*reasons, *more))


def inputs(asked: Asked, identity: str, built: dict[str, Any]) -> dict[str, str]:
    """Return what a measurement depends on; a certificate is worth nothing once one of these is another."""
    hashes = json.dumps(built.get("hashes", {}), sort_keys=True)
    return {
        "cluster": identity,
        "plan": asked.plan.digest(),
        "binaries": hashlib.sha256(hashes.encode()).hexdigest(),
    }


def certificate(  # noqa: PLR0913, PLR0917 - what is attested
    kept: Kept,
    asked: Asked,
    keeping: Keeping,
    identity: str,
    built: dict[str, Any],
    nodes: list[dict[str, str]],
    outputs: dict[str, Any],
) -> dict[str, Any] | None:
    """Return the signed envelope of a pass, None where nothing is signed.

    Raises:
        CertificateError: the key cannot be used, or the line lacks what must be attested.
    """
    if not keeping.certificate_key or kept.judged.verdict != "pass":
        return None
    from benchmarks.records import certificate as attest  # noqa: PLC0415 - a tenth of a second that most updates need not spend

    machines = kept.judged.line.get("machines")
    known = machines if isinstance(machines, dict) else {}
    acceptance = attest.Acceptance(
        cluster=identity,
        nodes={node["name"]: f"{known.get(node['name'], 'unknown')}@{node['address']}" for node in nodes},
        target=keeping.target,
        shape=asked.shape.name,
        versions=outputs["versions"],
        plan=asked.plan.asked(),
        inputs=inputs(asked, identity, built),
        transcript_sha256=str(outputs["evidence"].get("sha256", "")),
        results=outputs["results"],
        verdict=kept.judged.verdict,
        gate=outputs["gate"],
        busbw_gb_s=kept.judged.busbw_gb_s,
        scale=kept.judged.scale,
        run_id=str(kept.judged.line.get("run_id")),
        started=str(kept.judged.line.get("started")),
        valid_days=keeping.certificate_days,
    )
    return attest.sign(attest.statement(acceptance), attest.private_key(Path(keeping.certificate_key).expanduser()))


def report(kept: Kept, keeping: Keeping, stack: str, outputs: dict[str, Any], *, write: bool) -> str | None:
    """Draw the report of `outputs` below `keeping.report`, unless it is there; return the page's path."""
    if not keeping.report:
        return None
    folder = Path(keeping.report).expanduser() / stack
    if write:
        past = kept.last.document() if kept.last else None
        source = json.dumps([outputs, past, kept.changes], sort_keys=True, default=str)
        name = hashlib.sha256(source.encode()).hexdigest()
        made = folder / _MADE_FROM
        if not made.exists() or made.read_text() != name:
            from benchmarks.report import web_page as drawing  # noqa: PLC0415 - a second that unchanged updates need not spend

            drawing.write(outputs, folder, past, kept.changes)
            made.write_text(name)
    return str(folder / "report.html")
