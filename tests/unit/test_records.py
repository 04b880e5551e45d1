"""Records beside the stack: each run is kept once, compared with earlier runs, signed if the run passed, and drawn in a report.

A failure to read, write, sign or draw is a warning, and does not change the verdict.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from measurement_line import ASKED, BUILT, EVIDENCE, a_plan, document, line, place

from benchmarks.judge import retest
from benchmarks.judge.transport import least_bytes
from benchmarks.judge.verdict import Judgement, judge
from benchmarks.plan.asked import Asked
from benchmarks.records import requests
from benchmarks.records.answer import answer
from benchmarks.records.certificate import digest
from benchmarks.records.requests import Keeping, Kept
from benchmarks.records.verify import moment, verify
from benchmarks.report import outputs
from catalogue import SHAPES
from config.accept import Accept
from config.records import Records

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """One measurement through all stages: its judgement, and its records."""

    judged: Judgement
    kept: Kept


@pytest.fixture
def keeping(tmp_path):
    key = tmp_path / "key.pem"
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key.chmod(0o600)
    wanted = {"history": str(tmp_path / "history"), "report": None, "certificate": {"key": str(key)}}
    return Keeping("oci", Records.model_validate(wanted))


def answered(request: str) -> str:
    """Return the answer to a request, as a Command writes the answer to its standard output."""
    return json.dumps(answer(json.loads(request)))


def stages(text: str, keeping: Keeping, searched: dict | None = None, asked: Asked = ASKED) -> Run:
    """Run the stages as the program does, records included."""
    earlier = answered(requests.look_up(judge(text, asked), asked, keeping, place(asked)))
    asked = requests.with_history(asked, earlier)
    judged = retest.settled(judge(text, asked), asked, searched or {})
    record = outputs.measured(judged, asked, BUILT, searched or {}, 0)
    whole = outputs.flat(outputs.expected(asked, None), record)
    request = requests.keep(judged, asked, keeping, "identity", place(), whole, "organization/busbar/dev")
    return Run(judged, requests.kept(answered(request)))


@pytest.fixture
def drawing(keeping, tmp_path):
    """Return the settings of `keeping`, and add a report.

    Drawing a report takes most of a test's time, so only some tests use these settings.
    """
    return replace(keeping, records=keeping.records.model_copy(update={"report": str(tmp_path / "report")}))


def run(keeping: Keeping, number: int, share: float = 0.98, **changes) -> Run:
    return stages(json.dumps(dated(number, share) | changes), keeping)


def dated(number: int, share: float = 0.98) -> dict:
    return document(share=share) | {"run_id": f"run{number}", "started": f"2026-01-{number:02}T00:00:00Z"}


def test_a_run_slower_than_its_history_is_short_although_the_run_reaches_the_gate(keeping):
    for number in range(1, 7):
        assert run(keeping, number).judged.verdict == "pass"
    fallen = run(keeping, 9, share=0.9)
    assert fallen.judged.verdict == "short"
    assert "the history of 6 passes" in fallen.judged.reasons[0]


NEW_NCCL = {"nccl": "2.31.2", "nccl_tests": "2.19.6", "driver": "535.1", "os": "Linux", "kernel": "6"}


def test_a_drop_of_busbw_after_an_upgrade_is_named_and_neither_passes_nor_is_measured_again(keeping):
    for number in range(1, 7):
        run(keeping, number)
    fallen = run(keeping, 9, share=0.9, versions=NEW_NCCL).judged
    assert fallen.verdict == "unknown"
    (reason,) = fallen.reasons
    assert "all_reduce reached 0.045 GB/s; the history of 6 passes" in reason
    assert "since then nccl went from 2.28.3 to 2.31.2); to accept that, add upgrade to allowSkipped" in reason
    assert retest.steps_of(fallen, ASKED) == ()
    accepted = replace(ASKED, accept=Accept(allow_skipped=("upgrade",)))
    assert stages(json.dumps(dated(9, 0.9) | {"versions": NEW_NCCL}), keeping, asked=accepted).judged.verdict == "pass"


def test_after_an_upgrade_a_run_that_lost_no_busbw_passes_and_names_both_versions(keeping):
    for number in range(1, 7):
        run(keeping, number)
    (check,) = [one for one in run(keeping, 9, versions=NEW_NCCL).judged.checks if one.name in {"history", "upgrade"}]
    assert (check.name, check.state) == ("upgrade", "pass")
    assert check.why[0].endswith("since then nccl went from 2.28.3 to 2.31.2")


@pytest.mark.parametrize(
    ("changes", "where"),
    [({"iterations": 5}, {}), ({"exports": {"NCCL_PROTO": "LL"}}, {}), ({"cycles": 3}, {}), ({}, {"queue": "gpu"})],
)
def test_a_run_of_another_plan_or_launcher_is_not_compared_with_earlier_runs(keeping, changes, where):
    for number in range(1, 7):
        run(keeping, number)
    asked = replace(ASKED, plan=a_plan(**changes))
    slower = judge(json.dumps(dated(9, 0.9)), asked)
    request = requests.look_up(slower, asked, keeping, replace(place(), **where))
    assert json.loads(request)["history"]
    assert requests.with_history(asked, answered(request)).past is None


def test_plans_with_the_same_deciding_run_share_their_history(keeping):
    for number in range(1, 7):
        run(keeping, number)
    asked = replace(
        ASKED, plan=a_plan(collectives=("all_reduce", "alltoall"), run=7, looks=32, timeout_s=60, spread_iterations=0)
    )
    found = requests.with_history(
        asked, answered(requests.look_up(judge(json.dumps(dated(9)), asked), asked, keeping, place()))
    )
    assert (found.past is not None, found.past_since) == (True, "")


def test_judging_a_run_again_gives_the_same_verdict_whatever_was_measured_later(keeping):
    first = run(keeping, 1)
    for number in range(2, 9):
        run(keeping, number, share=0.99)
    assert run(keeping, 1) == first


def test_a_run_that_passed_on_a_retest_is_kept_with_the_retests_numbers(keeping, tmp_path):
    disturbed = document() | {"run_id": "run1"}
    slow = {step["name"]: step for step in document(share=0.5)["steps"]}
    disturbed["steps"] = [slow["all_reduce"] if step["name"] == "all_reduce" else step for step in disturbed["steps"]]
    searched = {"culprits": [], "again": {"steps": document()["steps"], "evidence": EVIDENCE}}
    assert stages(json.dumps(disturbed), keeping, searched).judged.verdict == "pass"
    (kept,) = (tmp_path / "history").rglob("*.json")
    assert json.loads(kept.read_text())["busbw_gb_s"] == pytest.approx(0.049)


def test_a_change_since_the_last_run_is_reported_with_numbers_and_versions(keeping):
    run(keeping, 1)
    versions = {"nccl": "2.30.0", "nccl_tests": "2.19.6"}
    said = " ".join(run(keeping, 2, share=0.97, versions=versions).kept.changes)
    assert "all_reduce busbw went from 0.049 to 0.0485 GB/s" in said
    assert "nccl went from 2.28.3 to 2.30.0" in said


def test_looking_up_the_history_writes_nothing(keeping, tmp_path):
    answered(requests.look_up(judge(line(), ASKED), ASKED, keeping, place(ASKED)))
    assert not (tmp_path / "history").exists()


@pytest.mark.parametrize("odd", [{"run_id": "../x"}, {"run_id": ""}, {"started": "yesterday"}, {"run_id": None}])
def test_a_line_without_a_valid_run_id_or_start_time_is_unknown(keeping, odd):
    found = run(keeping, 1, **odd)
    assert found.judged.verdict == "unknown"
    assert "does not say which run it belongs to" in found.judged.reasons[0]


def test_a_result_reduced_by_switches_is_not_compared_with_results_of_rings():
    asked = Asked(a_plan(end_bytes=8 * 1024**3, begin_bytes=1024**2), SHAPES["BM.GPU.H100.8"], 8)
    keeping = Keeping("oci", Records(report=None))
    found = document(asked, 0.9, 1)
    ring = json.loads(requests.look_up(judge(json.dumps(found), asked), asked, keeping, place(asked)))["key"]
    found["transport"]["said"]["channels"] |= {"COLLNET/SHARP": 128}
    sent = least_bytes(asked.plan, asked.shape, 8, in_network=True)
    for by in found["transport"]["tx_bytes"].values():
        by.update(dict.fromkeys(asked.shape.rdma.hca, int(1.06 * sent / asked.shape.rdma.ports)))
    switches = json.loads(requests.look_up(judge(json.dumps(found), asked), asked, keeping, place(asked)))["key"]
    assert switches != ring
    assert switches == ring | {"algorithm": "CollNet"}


@pytest.mark.parametrize("share", [0.98, 0.5])
def test_a_history_that_cannot_be_read_or_written_is_a_warning_and_never_changes_the_verdict(keeping, tmp_path, share):
    with_one = run(keeping, 1, share=share).judged
    (tmp_path / "file").write_text("not a folder")
    without = run(Keeping("oci", Records(history=str(tmp_path / "file"), report=None)), 1, share=share)
    assert without.judged.verdict == with_one.verdict == ("pass" if share > 0.9 else "short")
    assert [one.state for one in without.judged.checks if one.name == "history"] == ["skipped"]
    assert any("was not added to history" in warning for warning in without.kept.warnings)


def test_a_pass_gets_a_certificate_that_is_valid_until_an_input_changes_or_the_certificate_expires(keeping, tmp_path):
    envelope = run(keeping, 1).kept.certificate
    key = load_pem_private_key((tmp_path / "key.pem").read_bytes(), None).public_key()
    now = moment("2026-01-10T00:00:00Z")
    same = digest(requests.inputs(ASKED, "identity", BUILT))
    other = digest(requests.inputs(ASKED, "another identity", BUILT))

    def failures(**changes) -> list[str]:
        asked = {"now": now, "inputs_digest": same, "allow_rehearsed": True} | changes
        return [failure.name for failure in verify(envelope, key, **asked).failures]

    assert failures() == []
    assert failures(inputs_digest=other) == ["other_inputs"]
    assert failures(now=moment("2026-03-10T00:00:00Z")) == ["expired"]
    assert failures(allow_rehearsed=False) == ["rehearsed"]
    assert EVIDENCE["sha256"] in json.dumps(verify(envelope, key, now, allow_rehearsed=True).statement)


def attested(run: Run) -> dict:
    return json.loads(base64.b64decode(run.kept.certificate["payload"]))["predicate"]


def test_a_certificate_lists_every_transcript_and_every_look(keeping):
    """If a retest decides, the certificate still shows the first measurement, and the looks of the previous run."""
    first = dated(1) | {"earlier_looks": [0.049, 0.048], "evidence": {"path": "/first", "sha256": "1" * 64}}
    slow = {step["name"]: step for step in document(share=0.5)["steps"]}
    first["steps"] = [slow["all_reduce"] if step["name"] == "all_reduce" else step for step in first["steps"]]
    again = {"steps": document()["steps"], "evidence": {"path": "/again", "sha256": "2" * 64}}
    said = attested(stages(json.dumps(first), keeping, {"culprits": [], "again": again}))
    assert said["retested"]
    assert said["transcripts"] == [{"of": "decided", "sha256": "2" * 64}, {"of": "first", "sha256": "1" * 64}]
    looks = said["looks"]
    assert [(name, its["slow"], len(its["gb_s"])) for name, its in looks["places"].items()] == [
        ("deciding", 1, 2),
        ("early", 0, 16),
        ("late", 0, 16),
    ]
    assert sorted(looks["places"]["deciding"]["gb_s"]) == pytest.approx([0.025, 0.049])
    assert (looks["slow"], looks["of"], looks["run_before_gb_s"]) == (1, 34, [0.049, 0.048])


def test_hundreds_of_looks_are_attested_by_their_digest_so_that_outputs_stay_small(keeping):
    asked = replace(ASKED, plan=a_plan(looks=264))
    line = document(asked) | {"earlier_looks": [0.049] * 128}
    seen = stages(json.dumps(line), keeping, asked=asked)
    looks = attested(seen)["looks"]
    assert len(json.dumps(looks)) < 4096
    early = [round(one, 6) for one in next(one for one in seen.judged.looks.places if one.name == "early").gb_s]
    assert looks["places"]["early"] == {"slow": 0, "gb_s": {"count": 132, "sha256": digest(early)}}


def test_a_short_result_is_not_attested(keeping):
    assert run(keeping, 1, share=0.5).kept.certificate is None


def test_a_key_that_cannot_sign_is_a_warning(keeping, tmp_path):
    (tmp_path / "key.pem").write_text("no key")
    found = run(keeping, 1)
    assert (found.judged.verdict, found.kept.certificate) == ("pass", None)
    assert any("no certificate was made" in warning for warning in found.kept.warnings)


def test_a_report_is_drawn_again_only_if_its_data_changed_or_the_page_was_deleted(drawing, tmp_path):
    page = tmp_path / "report" / "dev" / "report.html"
    assert run(drawing, 1).kept.report == str(page)
    first = page.stat().st_mtime_ns
    assert ">last run<" not in page.read_text()
    assert run(drawing, 1).kept.report == str(page)
    assert page.stat().st_mtime_ns == first
    run(drawing, 1, share=0.97)
    assert page.stat().st_mtime_ns != first
    page.unlink()
    run(drawing, 1, share=0.97)
    assert page.exists(), "a deleted page is drawn again"
    run(drawing, 2)
    assert ">last run<" in page.read_text(), "the previous run's curve has a label beside the new run's"


def test_a_report_that_cannot_be_drawn_is_a_warning(drawing, tmp_path):
    (tmp_path / "report").write_text("not a folder")
    found = run(drawing, 1)
    assert (found.judged.verdict, found.kept.report) == ("pass", None)
    assert any("no report was drawn" in warning for warning in found.kept.warnings)


@pytest.mark.parametrize("said", ["", "garbage", "[]", '{"failed": "records: it did not run"}', "[" * 5000])
def test_an_invalid_answer_of_the_history_is_a_warning_and_changes_no_verdict(said):
    assert judge(line(), requests.with_history(ASKED, said)).verdict == "pass"
    assert requests.kept(said).warnings


def test_the_records_program_answers_a_request_of_a_stack(keeping):
    request = requests.look_up(judge(line(), ASKED), ASKED, keeping, place(ASKED))
    words = [sys.executable, "-m", "benchmarks.records"]
    found = subprocess.run(words, input=request, capture_output=True, text=True, cwd=ROOT, check=True)
    assert json.loads(found.stdout) == {"schema": 1, "kind": "look-up", "limit": None, "warnings": []}
