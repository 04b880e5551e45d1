"""Outputs of version 1 are an interface: what a judgement gives fits the schema, whatever the judgement."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from test_verdict import ASKED, PLAN, line, row

from benchmarks import ceiling, outputs
from benchmarks.verdict import judge

ROOT = Path(__file__).parent.parent
SCHEMA = json.loads((ROOT / "docs" / "outputs.schema.json").read_text())
EVIDENCE = {"path": "/home/opc/.busbar/runs/x/y.txt.gz", "sha256": "0" * 64}


def whole(text: str) -> dict:
    judged = judge(text, ASKED)
    measured = outputs.measured(judged, {"nccl_tests": "2.19.6"})
    assert set(measured) == set(outputs.MEASURED)
    return measured | {
        "schema": outputs.SCHEMA,
        "target": "oci",
        "shape": "BM.GPU4.8",
        "predicted_busbw_gbps": ceiling.predicted_gbps(ASKED.shape, ASKED.nodes),
        "nodes": [{"name": "inst-a", "address": "10.0.1.2"}],
        "ssh": "ssh opc@10.0.1.2",
        "readme": outputs.page(judged, "ssh opc@10.0.1.2"),
    }


@pytest.mark.parametrize(
    "text",
    [
        line(evidence=EVIDENCE, transport={"network": "NET/IB", "tx_bytes": {"inst-a": {"eth0": 1}}}),
        line(results=[row(size, 0.02) for size in PLAN.sizes_bytes]),
        line(results=[]),
        "",
        "garbage",
    ],
    ids=["pass", "short", "empty", "nothing", "garbage"],
)
def test_every_judgement_gives_outputs_that_fit_the_schema(text):
    jsonschema.validate(whole(text), SCHEMA, cls=jsonschema.Draft202012Validator)


def test_the_schema_is_itself_valid_and_closed():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert set(SCHEMA["required"]) == set(SCHEMA["properties"])


def test_the_program_exports_exactly_what_the_schema_says():
    source = (ROOT / "__main__.py").read_text()
    literal = {name for name in SCHEMA["properties"] if f'pulumi.export("{name}"' in source}
    assert literal | set(outputs.MEASURED) == set(SCHEMA["properties"])


def test_the_example_consumer_reads_only_outputs_that_exist():
    source = (ROOT / "examples" / "consumer" / "__main__.py").read_text()
    for name in ("schema", "verdict", "busbw_gbps", "scale", "nodes"):
        assert f'"{name}"' in source
        assert name in SCHEMA["properties"]
