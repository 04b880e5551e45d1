"""Outputs of version 1 are an interface: every judgement produces outputs that fit the schema."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from measured_outputs import SEARCHED, whole
from measurement_line import ASKED, PLAN, line, row, with_step

from benchmarks.judge.verdict import judge
from benchmarks.report import outputs, summary
from config.accept import Accept

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "docs" / "outputs.schema.json").read_text())
FITS = jsonschema.Draft202012Validator(SCHEMA)


def test_the_page_lists_changes_since_the_last_run_if_there_are_any():
    judged = judge(line(), ASKED)
    assert "Since the last run:\n\n- the driver is 580 now\n" in summary.page(judged, {}, "ssh x", ["the driver is 580 now"])
    assert "Since the last run" not in summary.page(judged, {}, "ssh x", [])


@pytest.mark.parametrize(
    "text",
    [
        line(),
        with_step("all_reduce", rows=[row(size, 0.02) for size in PLAN.sizes_bytes]),
        line(steps=[]),
        "",
        "garbage",
    ],
    ids=["pass", "short", "empty", "nothing", "garbage"],
)
def test_every_judgement_produces_outputs_that_fit_the_schema(text):
    FITS.validate(whole(text))


def test_the_share_of_the_ceiling_has_four_decimals():
    rows = [row(size, 0.0312345) for size in PLAN.sizes_bytes]
    found = whole(with_step("all_reduce", rows=rows))["measured"]
    assert found["wire_efficiency"] == round(found["busbw_gb_s"] / found["ceiling_gb_s"], 4) == 0.6247
    assert whole("")["measured"]["wire_efficiency"] is None


def test_a_searchs_culprits_are_in_reasons_and_outputs_and_fit_the_schema():
    found = whole(with_step("all_reduce", rows=[row(size, 0.02) for size in PLAN.sizes_bytes]), SEARCHED)
    FITS.validate(found)
    assert found["measured"]["search"]["culprits"][0]["rails"] == ["mlx5_3"]
    assert "rail mlx5_3 of node inst-a is slow" in found["measured"]["reasons"][-1]
    assert "next, on the head node: ssh 10.0.1.2 'cat state'" in found["measured"]["reasons"][-1]


def test_every_kind_of_cause_that_a_search_names_fits_the_schema():
    sources = (ROOT / "benchmarks" / "search").glob("*.py")
    kinds = {kind for source in sources for kind in re.findall(r'Culprit\(\s*"(\w+)"', source.read_text())}
    search = SCHEMA["properties"]["measured"]["properties"]["search"]["anyOf"][1]["properties"]
    assert kinds == set(search["culprits"]["items"]["properties"]["kind"]["enum"])
    assert all(outputs.culprit_name({"kind": one, "nodes": ["a"], "rails": []}) != f"{one} a" or one == "node" for one in kinds)


def test_a_stack_without_nodes_has_outputs_that_fit_the_schema_and_claim_nothing():
    found = {
        "schema": outputs.SCHEMA,
        "target": "oci",
        "nodes": [],
        "measured": outputs.nothing_measured("gpu", "gpu has no nodes yet, so nothing was measured"),
        "readme": "# gpu has no nodes yet, so nothing was measured\n",
    }
    FITS.validate(found)
    assert found["measured"]["verdict"] == "unknown"
    assert found["measured"]["busbw_gb_s"] is None


@pytest.mark.parametrize("text", [line(), line(steps=[]), ""])
def test_a_record_sets_every_field_so_that_nothing_of_an_older_record_remains(text):
    asked = set(SCHEMA["properties"]["measured"]["required"])
    assert set(whole(text)["measured"]) == set(outputs.nothing_measured("gpu", "why")) == asked


def test_a_record_contains_its_run_and_time_and_request():
    found = whole(line())["measured"]
    assert (found["run"], found["measured_at"]) == ("abc", "2026-01-02T03:04:05Z")
    assert found["asked"] == ASKED.digest()
    assert replace(ASKED, accept=Accept(gate_gb_s=1.0)).digest() != ASKED.digest()


def test_the_schema_is_itself_valid_and_allows_no_unknown_properties():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for part in (SCHEMA, SCHEMA["properties"]["expected"], SCHEMA["properties"]["measured"]):
        assert part["additionalProperties"] is False
    assert set(SCHEMA["properties"]["measured"]["required"]) == set(SCHEMA["properties"]["measured"]["properties"])


def test_the_program_exports_exactly_the_outputs_in_the_schema():
    exported = set(re.findall(r'pulumi\.export\("(\w+)"', (ROOT / "__main__.py").read_text()))
    assert exported == set(SCHEMA["properties"])


def test_the_example_consumer_reads_only_outputs_that_exist():
    source = (ROOT / "examples" / "consumer" / "__main__.py").read_text()
    assert set(re.findall(r'require_output\("(\w+)"', source)) <= set(SCHEMA["properties"])
    assert set(re.findall(r'measured\["(\w+)"', source)) <= set(SCHEMA["properties"]["measured"]["properties"])
