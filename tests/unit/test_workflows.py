"""Workflows never run a pull request's code with a token that may write, and pin actions by commit."""

from __future__ import annotations

import re

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


def test_the_example_preview_needs_no_stored_cloud_key_and_does_not_run_for_pull_requests_from_forks():
    text = (ROOT / "examples" / "pull-request" / "preview-aws.yml").read_text()
    preview = yaml.safe_load(text)["jobs"]["preview"]
    assert preview["permissions"] == {"contents": "read", "id-token": "write"}
    assert preview["if"] == "github.event.pull_request.head.repo.full_name == github.repository"
    assert re.findall(r"secrets\.(\w+)", text) == ["PULUMI_CONFIG_PASSPHRASE"]
