"""The comment on a pull request says what bandwidth to expect and what would change, from the engine's own JSON."""

from __future__ import annotations

import json

import pytest

from tools.preview_comment import MARK, comment, read

URN = "urn:pulumi:dev::busbar::busbar:oci:Cluster$oci:Core/vcn:Vcn::cluster-vcn"
ACCEPTANCE = "urn:pulumi:dev::busbar::busbar:acceptance:Acceptance::acceptance"
PREVIEW = {
    "steps": [{"op": "create", "urn": URN}, {"op": "same", "urn": ACCEPTANCE}, {"op": "replace", "urn": f"{URN}-2"}],
    "diagnostics": [
        {"message": "using a plugin from PATH\n", "severity": "warning"},
        {"urn": ACCEPTANCE, "message": "2 x BM.GPU4.8: a healthy fabric reaches about 190\n", "severity": "info"},
    ],
    "changeSummary": {"create": 1, "replace": 1, "same": 1},
}


def test_a_comment_begins_with_its_marker_and_shows_bandwidth_and_changes():
    text = comment(read(f"setup: all there\n{json.dumps(PREVIEW, indent=2)}\n"))
    assert text.splitlines()[0] == MARK
    assert "2 x BM.GPU4.8: a healthy fabric reaches about 190\n" in text
    assert "1 create, 1 replace, 1 same" in text
    assert "| create | `oci:Core/vcn:Vcn` | `cluster-vcn` |" in text
    assert "| replace | `oci:Core/vcn:Vcn` | `cluster-vcn-2` |" in text
    assert "plugin" not in text


def test_a_prediction_of_several_lines_is_shown_as_it_was_written():
    told = {"urn": ACCEPTANCE, "message": "2 x BM.GPU4.8:\n  gate: 170\n", "severity": "info"}
    assert "```\n2 x BM.GPU4.8:\n  gate: 170\n```" in comment(PREVIEW | {"diagnostics": [told]})


def test_without_a_prediction_the_comment_says_that_no_bandwidth_could_be_predicted_and_shows_the_error():
    failed = {"diagnostics": [{"urn": ACCEPTANCE, "message": "nodes is 1\n", "severity": "error"}], "steps": []}
    assert "No bandwidth could be predicted." in comment(failed)
    assert "**Error:** nodes is 1" in comment(failed)


def test_a_comment_stays_below_githubs_limit():
    many = PREVIEW | {"steps": [{"op": "create", "urn": f"{URN}-{number}"} for number in range(5000)]}
    assert len(comment(many)) < 65_536
    assert "and 4700 more" in comment(many)


def test_an_output_of_the_engine_that_contains_no_preview_is_refused():
    with pytest.raises(ValueError, match="no preview"):
        read("error: it failed\n")
