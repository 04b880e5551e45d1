"""Workflows never run a pull request's code with a token that may write, and pin actions by commit."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
import yaml
from conftest import ROOT

FILES = sorted([*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "examples").glob("*/*.yml")])


@pytest.mark.parametrize("file", FILES, ids=[path.name for path in FILES])
def test_actions_are_pinned_and_code_is_checked_out_only_by_jobs_without_write_permissions(file):
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        used = [step["uses"] for step in job["steps"] if "uses" in step]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in used), used
        rights = {name for name, right in job.get("permissions", {}).items() if right == "write"} - {"id-token"}
        if rights:
            assert not [one for one in used if one.startswith("actions/checkout@")], rights
            ran = " ".join(step.get("run", "") for step in job["steps"])
            assert not re.search(r"\bmake\b|python|tools/", ran), ran


FAILED = {
    "diagnostics": [{"severity": "error", "message": "oci.pools[0].shape is X", "urn": "u"}],
    "steps": [],
    "changeSummary": {},
}


@pytest.mark.parametrize(("given", "status", "comment"), [(FAILED, 255, True), (FAILED, 0, True), (None, 1, False)])
def test_a_failed_preview_fails_the_job_and_its_errors_still_reach_the_comment(tmp_path, given, status, comment):
    """The test runs the step's text with `bash -e -o pipefail`, as GitHub does."""
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "preview.yml").read_text())["jobs"]["preview"]["steps"]
    (script,) = [step["run"] for step in steps if step.get("name") == "preview"]
    (tmp_path / "make").write_text(f"#!/bin/sh\ncat {tmp_path / 'given'}\nexit {status}\n")
    (tmp_path / "make").chmod(0o755)
    (tmp_path / "given").write_text(json.dumps(given) if given else "make: the engine did not start\n")
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    words = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == status, done.stderr
    assert (tmp_path / "comment.md").exists() == comment
    if comment:
        assert "**Error:** oci.pools[0].shape is X" in (tmp_path / "summary").read_text()


def test_the_example_preview_needs_no_stored_cloud_key_and_does_not_run_for_pull_requests_from_forks():
    text = (ROOT / "examples" / "pull-request" / "preview-aws.yml").read_text()
    preview = yaml.safe_load(text)["jobs"]["preview"]
    assert preview["permissions"] == {"contents": "read", "id-token": "write"}
    assert preview["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert re.findall(r"secrets\.(\w+)", text) == ["PULUMI_CONFIG_PASSPHRASE"]
