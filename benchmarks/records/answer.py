"""Carries out what `benchmarks.records.requests` asks for, on the operator's machine: history, transcript, certificate, report.

A failure is a sentence in the answer: a measurement keeps its verdict even if its records cannot be kept.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.records import history, transcripts
from benchmarks.records.requests import SCHEMA

#: File with a hash of the report's inputs, so that an unchanged report is not drawn again.
_MADE_FROM = "made-from.txt"


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to `request`; errors of a disk, a store or a key are part of the answer."""
    if request.get("schema") != SCHEMA or request.get("kind") not in _WORK:
        return {"schema": SCHEMA, "failed": "records: the request has an unknown kind or version"}
    return {"schema": SCHEMA, "kind": request["kind"]} | _WORK[request["kind"]](request)


def _look_up(request: dict[str, Any]) -> dict[str, Any]:
    if "key" not in request:
        return {"limit": None, "warnings": []}
    try:
        past = _past(request["history"], history.Key(**request["key"]), request["before"])
    except history.HistoryError as error:
        return {"limit": None, "failed": str(error)}
    limit = history.limit(past.records, request["versions"], request["plan"])
    return {"limit": None if limit is None else asdict(limit), "warnings": list(past.warnings)}


def _keep(request: dict[str, Any]) -> dict[str, Any]:
    warnings: list[str] = []
    last, changes = _added(request, warnings)
    return {
        "certificate": _signed(request, warnings),
        "report": _drawn(request, last, changes, warnings),
        "evidence": _brought(request, warnings),
        "changes": changes,
        "warnings": warnings,
    }


def _added(request: dict[str, Any], warnings: list[str]) -> tuple[history.Record | None, list[str]]:
    """Add the run to the history; return the previous run and what changed since that run."""
    if request["record"] is None:
        return None, []
    try:
        one = history.Record.of(request["record"])
        past = _past(request["history"], one.key, list(one.order))
        history.append(request["history"], one)
    except history.HistoryError as error:
        warnings.append(f"the run was not added to history: {error}")
        return None, []
    warnings.extend(past.warnings)
    return past.last, list(history.changes(past.last, one))


def _brought(request: dict[str, Any], warnings: list[str]) -> str | None:
    """Copy all transcripts of the run from the head node to the history; return the path of the deciding transcript's copy."""
    if not request["evidence"] or not request["history"]:
        return None
    way = {name: value for name, value in request["evidence"].items() if name != "evidence"}
    decided = request["evidence"]["evidence"]
    places: list[str | None] = []
    for one in (decided, *decided.get("others", [])):
        try:
            places.append(transcripts.bring(history=request["history"], evidence=one, **way))
        except transcripts.TranscriptError as error:
            warnings.append(f"the transcript is on the head node only ({one['path']}): {error}")
            places.append(None)
    return places[0]


def _signed(request: dict[str, Any], warnings: list[str]) -> dict[str, Any] | None:
    if request["certificate"] is None:
        return None
    from benchmarks.records import certificate  # noqa: PLC0415 - this import takes a tenth of a second, which most runs can save

    try:
        key = certificate.private_key(Path(request["certificate"]["key"]).expanduser())
        return certificate.sign(certificate.statement(certificate.Acceptance(**request["certificate"]["acceptance"])), key)
    except (certificate.CertificateError, OSError, TypeError) as error:
        warnings.append(f"no certificate was made: {error}")
        return None


def _drawn(request: dict[str, Any], last: history.Record | None, changes: list[str], warnings: list[str]) -> str | None:
    """Draw the report unless it was drawn from the same inputs before; return the page's path."""
    if not request["report"]:
        return None
    folder = Path(request["report"]).expanduser()
    past = last.document() if last else None
    source = json.dumps([request["outputs"], past, changes], sort_keys=True)
    name = hashlib.sha256(source.encode()).hexdigest()
    made = folder / _MADE_FROM
    try:
        if not (folder / "report.html").exists() or not made.exists() or made.read_text() != name:
            from benchmarks.report import web_page  # noqa: PLC0415 - takes a second, and a run without a report does not need it

            web_page.write(request["outputs"], folder, past, tuple(changes))
            made.write_text(name)
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.append(f"no report was drawn: {error}")
        return None
    return str(folder / "report.html")


def _past(place: str, key: history.Key, before: list[str]) -> history.Past:
    return history.load(place, key, (before[0], before[1]))


_WORK = {"look-up": _look_up, "keep": _keep}
