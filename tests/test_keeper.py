"""What is kept beside the stack: each run once, compared with those before it, signed when it passed."""

from __future__ import annotations

import json

import pytest
from a_line import ASKED, EVIDENCE, document, line
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from benchmarks.judge import retest
from benchmarks.records import history, keeper
from benchmarks.records.certificate import digest
from benchmarks.records.verify import moment, verify
from benchmarks.report import outputs

NODES = [{"name": "inst-0", "address": "10.0.1.2"}, {"name": "inst-1", "address": "10.0.1.3"}]
BUILT = {"versions": {"mpi": "4.1"}, "hashes": {"all_reduce_perf": "0" * 64}}


@pytest.fixture
def keeping(tmp_path):
    key = tmp_path / "key.pem"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return keeper.Keeping("oci", str(tmp_path / "history"), str(tmp_path / "report"), str(key), 30)


def run(keeping, number: int, share: float = 0.98, **changes) -> keeper.Kept:
    text = json.dumps(document(share=share) | {"run_id": f"run{number}", "started": f"2026-01-{number:02}T00:00:00Z"} | changes)
    return kept(text, keeping, outputs.versions(json.loads(text), BUILT))


def kept(text: str, keeping, versions: dict, searched: dict | None = None, *, write: bool = True) -> keeper.Kept:
    return keeper.settled(keeper.looked(text, ASKED, keeping), searched or {}, keeping, versions, write=write)


def test_a_run_that_falls_behind_its_own_past_is_short_although_the_gate_is_met(keeping):
    for number in range(1, 7):
        assert run(keeping, number).judged.verdict == "pass"
    fallen = run(keeping, 9, share=0.9)
    assert fallen.judged.verdict == "short"
    assert "the history of 6 passes" in fallen.judged.reasons[0]


def test_judging_a_run_again_gives_the_same_answer_whatever_came_later(keeping):
    first = run(keeping, 1)
    for number in range(2, 9):
        run(keeping, number, share=0.99)
    assert run(keeping, 1) == first


def test_a_run_that_passed_at_second_sight_is_kept_with_what_it_reached_then(keeping):
    disturbed = document(share=0.5) | {"run_id": "run1"}
    searched = {"culprits": [], "again": {"steps": document()["steps"], "evidence": EVIDENCE}}
    found = kept(json.dumps(disturbed), keeping, {}, searched)
    assert found.judged.verdict == "pass"
    assert run(keeping, 9).last.busbw_gb_s == pytest.approx(0.049)


def test_a_change_since_the_last_run_is_said_by_number_and_version(keeping):
    run(keeping, 1)
    versions = {"nccl": "2.30.0", "nccl_tests": "2.19.6"}
    said = " ".join(run(keeping, 2, share=0.97, versions=versions).changes)
    assert "all_reduce busbw went from 0.049 to 0.0485 GB/s" in said
    assert "nccl went from 2.28.3 to 2.30.0" in said


def test_a_preview_adds_nothing_to_history(keeping, tmp_path):
    text = line()
    kept(text, keeping, {}, write=False)
    assert not list((tmp_path / "history").rglob("*.json"))


@pytest.mark.parametrize("odd", [{"run_id": "../x"}, {"run_id": ""}, {"started": "yesterday"}])
def test_a_run_that_history_could_not_name_is_no_pass_and_no_crash(keeping, odd):
    found = run(keeping, 1, **odd)
    assert found.judged.verdict == "unknown"
    assert "the check history was skipped" in found.judged.reasons[0]


def test_a_history_that_cannot_be_written_takes_nothing_else_back(keeping, monkeypatch):
    def full(*_):
        raise history.HistoryError("history: no space left")

    first = json.dumps(document(share=0.5))
    searched = {"again": {"steps": document()["steps"], "evidence": EVIDENCE}}
    monkeypatch.setattr(history, "append", full)
    found = kept(first, keeping, {}, searched)
    assert found.judged.verdict == "unknown"
    assert "no space left" in found.judged.reasons[0]
    assert any(why.startswith(retest.NOTE) for one in found.judged.checks for why in one.why)
    assert kept(first, keeping, {}).judged.verdict == "short"


def test_a_history_that_cannot_be_read_is_no_pass_unless_allowed(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    found = kept(line(), keeper.Keeping("oci", str(tmp_path / "file"), "", "", 30), {})
    assert found.judged.verdict == "unknown"
    assert "the check history was skipped" in found.judged.reasons[0]


def test_a_pass_is_attested_and_holds_until_an_input_changes(keeping, tmp_path):
    passed = run(keeping, 1)
    measured = outputs.measured(passed.judged, BUILT, {})
    envelope = keeper.certificate(passed, ASKED, keeping, "identity", BUILT, NODES, measured)
    key = load_pem_private_key((tmp_path / "key.pem").read_bytes(), None).public_key()
    now = moment("2026-01-10T00:00:00Z")
    same = digest(keeper.inputs(ASKED, "identity", BUILT))
    other = digest(keeper.inputs(ASKED, "another identity", BUILT))

    def failures(**changes) -> list[str]:
        asked = {"now": now, "inputs_digest": same, "allow_rehearsed": True} | changes
        return [failure.name for failure in verify(envelope, key, **asked).failures]

    assert failures() == []
    assert failures(inputs_digest=other) == ["other_inputs"]
    assert failures(now=moment("2026-03-10T00:00:00Z")) == ["expired"]
    assert failures(allow_rehearsed=False) == ["rehearsed"]
    assert EVIDENCE["sha256"] in json.dumps(verify(envelope, key, now, allow_rehearsed=True).statement)


def test_what_is_short_is_not_attested(keeping):
    passed = run(keeping, 1, share=0.5)
    assert keeper.certificate(passed, ASKED, keeping, "identity", BUILT, NODES, {}) is None


def test_a_report_is_drawn_once_and_again_only_when_something_is_different(keeping, tmp_path):
    passed = run(keeping, 1)
    whole = outputs.measured(passed.judged, BUILT, {}) | {"target": "oci", "shape": "BM.GPU4.8", "nodes": NODES}
    page = tmp_path / "report" / "dev" / "report.html"
    assert keeper.report(passed, keeping, "dev", whole, write=False) == str(page)
    assert not page.exists()
    keeper.report(passed, keeping, "dev", whole, write=True)
    first = page.stat().st_mtime_ns
    keeper.report(passed, keeping, "dev", whole, write=True)
    assert page.stat().st_mtime_ns == first
    keeper.report(passed, keeping, "dev", whole | {"shape": "another"}, write=True)
    assert page.stat().st_mtime_ns != first
