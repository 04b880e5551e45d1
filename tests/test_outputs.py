"""Outputs of version 1 are an interface: what a judgement gives fits the schema, whatever the judgement."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from a_line import ASKED, PLAN, line, row, with_step

from benchmarks.judge.verdict import judge
from benchmarks.report import outputs, summary
from catalogue import Price

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs" / "outputs.schema.json").read_text())
BUILT = {"versions": {"nccl_tests": "2.19.6"}}
SEARCHED = {
    "needed": True,
    "culprits": [
        {
            "kind": "rail",
            "nodes": ["inst-a"],
            "rails": ["mlx5_3"],
            "ratio": 0.5,
            "flapping": False,
            "confidence": 0.9,
            "evidence": [{"nodes": ["inst-a", "inst-b"], "rails": ["mlx5_3"], "busbw_gb_s": 0.001, "why": ""}],
            "next": "ssh 10.0.1.2 'cat state'",
        }
    ],
    "healthy_gb_s": 0.049,
    "rounds": 6,
    "trials": 20,
    "complete": True,
    "failed": None,
    "summary": "rail 3 of node 0 is slow",
    "pairs": [[0, 1, 0.02]],
    "seconds": 9.5,
}


def whole(text: str, searched: dict | None = None) -> dict:
    judged = judge(text, ASKED)
    measured = outputs.measured(judged, BUILT, searched or {"needed": False})
    assert set(measured) == set(outputs.MEASURED)
    whole = measured | {
        "schema": outputs.SCHEMA,
        "target": "oci",
        **outputs.expected(ASKED, Price(24.0, "a test")),
        "certificate": None,
        "report": None,
        "nodes": [{"name": "inst-a", "address": "10.0.1.2"}, {"name": "inst-b", "address": "10.0.1.3"}],
        "ssh": "ssh opc@10.0.1.2",
        "readme": summary.page(judged, searched or {}, "ssh opc@10.0.1.2", []),
    }
    return {name: value for name, value in whole.items() if value is not None}  # the engine keeps no null


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
def test_every_judgement_gives_outputs_that_fit_the_schema(text):
    jsonschema.validate(whole(text), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_what_a_search_named_stands_in_reasons_and_outputs_and_fits_the_schema():
    found = whole(with_step("all_reduce", rows=[row(size, 0.02) for size in PLAN.sizes_bytes]), SEARCHED)
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)
    assert found["search"]["culprits"][0]["rails"] == ["mlx5_3"]
    assert "rail mlx5_3 of node inst-a is slow" in found["reasons"][-1]
    assert "next, on the head: ssh 10.0.1.2 'cat state'" in found["reasons"][-1]


def test_the_schema_is_itself_valid_and_closed():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    may_be_null = {
        name
        for name, its in SCHEMA["properties"].items()
        if "null" in its.get("type", []) or {"type": "null"} in its.get("anyOf", [])
    }
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"]) - may_be_null


def test_the_program_exports_exactly_what_the_schema_says():
    source = (ROOT / "__main__.py").read_text()
    literal = {name for name in SCHEMA["properties"] if f'pulumi.export("{name}"' in source}
    assert literal | set(outputs.MEASURED) | set(outputs.EXPECTED) == set(SCHEMA["properties"])


def test_the_example_consumer_reads_only_outputs_that_exist():
    source = (ROOT / "examples" / "consumer" / "__main__.py").read_text()
    for name in ("schema", "verdict", "busbw_gb_s", "scale", "nodes"):
        assert f'"{name}"' in source
        assert name in SCHEMA["properties"]
