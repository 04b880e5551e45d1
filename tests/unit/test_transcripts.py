"""A transcript is copied from the head node into the history, checked by its sha256, and requested only once."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import sys
from pathlib import Path

import pytest
from measurement_line import ASKED, BUILT, document, place

from benchmarks.judge.verdict import judge
from benchmarks.records import requests
from benchmarks.records.answer import answer
from benchmarks.records.requests import Keeping, Way
from benchmarks.records.transcripts import TranscriptError, bring
from benchmarks.report import outputs
from config.records import Records

SHELL = "ssh -J opc@203.0.113.5 opc@10.0.1.2"


class Head:
    """A head node with transcripts by path; `reads` lists the command, the known hosts and the path of every read."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.reads: list[tuple[str, str, str]] = []

    def keep(self, text: str) -> dict[str, str]:
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        path = f"/home/opc/.busbar/runs/x/{sha256}.txt.gz"
        self.files[path] = gzip.compress(text.encode())
        return {"path": path, "sha256": sha256}

    def read(self, shell: str, known_hosts: str, path: str) -> bytes:
        self.reads.append((shell, known_hosts, path))
        return self.files[path]


def test_a_transcript_is_copied_completely_and_only_once(tmp_path):
    head = Head()
    evidence = head.keep("# busbar step all_reduce\n")
    for _ in range(2):
        copy = bring(SHELL, "10.0.1.2 ssh-ed25519 AAAA", evidence, str(tmp_path), head.read)
    assert copy == f"{tmp_path}/evidence/{evidence['sha256']}.txt.gz"
    assert gzip.decompress(Path(copy).read_bytes()) == b"# busbar step all_reduce\n"
    assert head.reads == [(SHELL, "10.0.1.2 ssh-ed25519 AAAA", evidence["path"])]


def test_the_first_transcript_is_copied_together_with_the_retests_transcript(tmp_path):
    head = Head()
    first = head.keep("# busbar step all_reduce\n")
    told = f"# busbar: measured a second time; the first is {first['sha256']} ({first['path']})\n"
    bring(SHELL, "", head.keep(told), str(tmp_path), head.read)
    assert len(list((tmp_path / "evidence").iterdir())) == 2


def test_a_changed_or_truncated_transcript_is_not_kept(tmp_path):
    head = Head()
    evidence = head.keep("measured")
    for data, why in ((gzip.compress(b"forged"), "its sha256 is not"), (b"no gzip", "cannot be read")):
        head.files[evidence["path"]] = data
        with pytest.raises(TranscriptError, match=why):
            bring(SHELL, "", evidence, str(tmp_path), head.read)
    assert not (tmp_path / "evidence").exists()
    with pytest.raises(TranscriptError, match="is not the sha256"):
        bring(SHELL, "", evidence | {"sha256": "../../x"}, str(tmp_path), head.read)


@pytest.fixture
def ssh(tmp_path, monkeypatch):
    """A program in ssh's place: it records its arguments and its configuration, and prints the file `transcript`."""
    here = tmp_path / "bin"
    here.mkdir()
    program = here / "ssh"
    program.write_text(
        f"#!{sys.executable}\nimport pathlib, sys\nhere = pathlib.Path({str(here)!r})\n"
        "text = pathlib.Path(sys.argv[2]).read_text()\n"
        "known = pathlib.Path(text.split('UserKnownHostsFile ')[1].split()[0]).read_text()\n"
        "(here / 'said').write_text('\\n'.join([*sys.argv[3:], text, known]))\n"
        "source = here / 'transcript'\n"
        "sys.exit('Connection refused') if not source.exists() else sys.stdout.buffer.write(source.read_bytes())\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    return here


def kept(tmp_path: Path, evidence: dict[str, str], way: Way | None, again: dict[str, str] | None = None) -> dict:
    """Return the records stage's answer to a run with `evidence`; `again` is the transcript of a retest that did not count."""
    judged = judge(json.dumps(document() | {"evidence": evidence}), ASKED)
    record = outputs.measured(judged, ASKED, BUILT, {"again": {"evidence": again}} if again else {}, 0)
    whole = outputs.flat(outputs.expected(ASKED, None), record)
    keeping = Keeping("oci", Records.model_validate({"history": str(tmp_path / "history"), "report": None}))
    return answer(json.loads(requests.keep(judged, ASKED, keeping, "identity", place(), whole, "o/busbar/dev", way)))


def test_a_transcript_is_copied_over_ssh_with_pinned_keys_and_without_prompts(tmp_path, ssh):
    evidence = Head().keep("the text")
    (ssh / "transcript").write_bytes(gzip.compress(b"the text"))
    found = kept(tmp_path, evidence, Way(SHELL, "10.0.1.2 ssh-ed25519 AAAA"))
    assert found["warnings"] == []
    assert requests.kept(json.dumps(found)).evidence == f"{tmp_path}/history/evidence/{evidence['sha256']}.txt.gz"
    said = (ssh / "said").read_text()
    assert said.startswith("-J\nopc@203.0.113.5\nopc@10.0.1.2\nhead -c ")
    assert "StrictHostKeyChecking yes" in said
    assert said.endswith("10.0.1.2 ssh-ed25519 AAAA\n")


def test_the_transcript_of_a_retest_that_did_not_count_is_requested_too(tmp_path, ssh):
    """The retest's transcript is evidence of a result that was short twice; the first transcript does not name this file.

    Here the sha256 of the retest's transcript is wrong, which is a warning.
    """
    (ssh / "transcript").write_bytes(gzip.compress(b"the text"))
    first, again = Head().keep("the text"), Head().keep("another text")
    found = kept(tmp_path, first, Way(SHELL, ""), again)
    assert found["evidence"].endswith(f"/{first['sha256']}.txt.gz")
    assert again["path"] in (ssh / "said").read_text()
    (warning,) = found["warnings"]
    assert warning.startswith(f"the transcript is on the head node only ({again['path']}): its sha256 is not the sha256")


@pytest.mark.usefixtures("ssh")
def test_a_transcript_that_cannot_be_copied_causes_a_warning_that_contains_the_path_of_the_transcript(tmp_path):
    evidence = Head().keep("the text")
    found = kept(tmp_path, evidence, Way(SHELL, ""))
    assert found["evidence"] is None
    (warning,) = found["warnings"]
    assert warning.startswith(
        f"the transcript is on the head node only ({evidence['path']}): ssh ended with 1: Connection refused"
    )


def test_without_ssh_access_no_transcript_is_copied(tmp_path, ssh):
    assert kept(tmp_path, Head().keep("x"), None)["evidence"] is None
    assert not (ssh / "said").exists()
