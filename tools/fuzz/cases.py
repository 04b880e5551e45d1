"""Tries one damaged measurement; a failure is stored as the name of the base (the undamaged measurement) and the edits."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.judge import searched
from benchmarks.judge.retest import settled
from benchmarks.judge.verdict import judge
from benchmarks.launch.protocol import BuildLine
from benchmarks.report import outputs, summary
from tools.fuzz.bases import SEARCH, Base, line_of
from tools.fuzz.edits import Edit, applied
from tools.fuzz.plain_reading import doubts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CRASH, FALSE_PASS = "crash", "false pass"
_BUILT = BuildLine("build1", "/home/opc", "", "", {}, "", "", "", {"nccl_tests": "2.19.6"}, 1.0)


@dataclass(frozen=True)
class Tried:
    """The result of one damaged measurement: its verdict, and how busbar failed, if it failed."""

    verdict: str
    failure: str = ""
    why: str = ""


@dataclass(frozen=True)
class Case:
    """A failure to be reproduced: the base's name, the edits in order, the kind of failure, and what was wrong."""

    base: str
    edits: tuple[Edit, ...]
    failure: str
    why: str


def tried(base: Base, edits: Sequence[Edit]) -> Tried:
    """Return the result of parser, judge and page for `base` with `edits`; nothing is tried if the edits do not fit."""
    documents = applied(list(edits), base.documents)
    if documents is None:
        return Tried("")
    try:
        line = line_of(documents, base.asked)
        judged, said = judge(line, base.asked), {}
        if judged.verdict == "pass":  # no search follows a measurement that passes
            documents = {name: text for name, text in documents.items() if name != SEARCH}
        if SEARCH in documents:
            said = searched.read(documents[SEARCH])
            judged = settled(judged, base.asked, said)
            line = json.dumps(judged.line)
        json.dumps(outputs.measured(judged, base.asked, _BUILT, said, 0), allow_nan=False)
        summary.page(judged, said, "ssh", ())
    except Exception as error:  # noqa: BLE001 - any exception is a finding
        return Tried("", CRASH, repr(error)[:300])
    if judged.verdict != "pass":
        return Tried(judged.verdict)
    why = doubts(documents, line, base.asked)
    return Tried("pass", FALSE_PASS, "; ".join(why)[:300]) if why else Tried("pass")


def smaller(base: Base, edits: Sequence[Edit], failure: str) -> list[Edit]:
    """Return only those of `edits` that are needed to reproduce the failure."""
    kept = list(edits)
    for edit in list(edits):
        fewer = [one for one in kept if one is not edit]
        if tried(base, fewer).failure == failure:
            kept = fewer
    return kept


def keep(case: Case, corpus: Path) -> str:
    """Write the case to the corpus; return the file's name, or an empty text if the file exists already."""
    corpus.mkdir(parents=True, exist_ok=True)
    text = json.dumps(asdict(case), indent=1, ensure_ascii=True) + "\n"
    # One file for each base and reason: a thousand variants of one failure are no more useful than one variant.
    about = json.dumps([case.base, case.failure, "".join(one for one in case.why if not one.isdigit())[:60]])
    path = corpus / f"{hashlib.sha256(about.encode()).hexdigest()[:16]}.json"
    if path.exists():
        return ""
    path.write_text(text)
    return path.name


def read(path: Path) -> Case:
    """Return the case that the file at `path` contains."""
    found = json.loads(path.read_text())
    edits = tuple(Edit(**edit) for edit in found["edits"])
    return Case(found["base"], edits, found["failure"], found["why"])
