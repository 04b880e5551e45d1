"""A verdict is a pure function of one line: pass only on whole, right and fast data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import outputs
from benchmarks.gate import gate
from benchmarks.plan import Plan
from benchmarks.verdict import Asked, judge
from catalogue import SHAPES

GPU4 = SHAPES["BM.GPU4.8"]
PLAN = Plan(begin_bytes=8, end_bytes=64 * 1024**2, factor=2, iterations=1, warmup=1)
ASKED = Asked(PLAN, GPU4, 2)


def row(size_bytes: int, busbw_gbps: float, wrong: int = 0) -> dict:
    algbw_gbps = busbw_gbps / (2 * 15 / 16)
    timing = {"time_us": size_bytes / (algbw_gbps * 1e3), "algbw_gbps": algbw_gbps, "busbw_gbps": busbw_gbps, "wrong": wrong}
    return {"size_bytes": size_bytes, "out_of_place": timing, "in_place": timing}


def line(**changes) -> str:
    measurement = {
        "schema": 1,
        "kind": "measure",
        "run_id": "abc",
        "collective": "all_reduce",
        "results": [row(size, 0.049) for size in PLAN.sizes_bytes],
        "ranks": 16,
        "problems": [],
        "rehearsal": {"scale": 4000},
        "versions": {"nccl": "2.28.3"},
    }
    return json.dumps(measurement | changes)


def test_a_whole_and_fast_run_passes_with_no_reason():
    judged = judge(line(), ASKED)
    assert (judged.verdict, judged.reasons) == ("pass", ())
    assert judged.busbw_gbps == 0.049
    assert judged.ceiling_gbps == pytest.approx(0.05)
    assert judged.scale == 4000


def test_a_run_at_half_the_rate_is_short_and_says_both_numbers():
    judged = judge(line(results=[row(size, 0.025) for size in PLAN.sizes_bytes]), ASKED)
    assert judged.verdict == "short"
    assert "reached 0.025 GB/s at 67108864 B; the gate asks for 0.0425 GB/s" in judged.reasons[0]


def test_wrong_data_is_never_a_pass_however_fast():
    rows = [row(size, 0.049) for size in PLAN.sizes_bytes]
    rows[3] = row(64, 0.049, wrong=2)
    judged = judge(line(results=rows), ASKED)
    assert judged.verdict == "short"
    assert "4 elements arrived with wrong values" in judged.reasons[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"results": []}, "no row was measured"),
        ({"results": [row(8, 0.049)]}, "the plan asks for 24 sizes"),
        ({"ranks": 8}, "8 ranks ran instead of 16"),
        ({"collective": "all_gather"}, "the run was all_gather"),
        ({"problems": ["the run's closing lines are missing"]}, "closing lines are missing"),
        ({"results": [{"size_bytes": 8}]}, "lack their out-of-place numbers"),
        ({"schema": 2}, "not a measurement of version 1"),
        ({"kind": "build"}, "not a measurement of version 1"),
    ],
)
def test_missing_or_foreign_data_is_unknown_with_its_reason(changes, reason):
    judged = judge(line(**changes), ASKED)
    assert judged.verdict == "unknown"
    assert any(reason in found for found in judged.reasons)


def test_a_build_without_mpi_is_recognised_by_its_ratio():
    rows = [row(size, 0.049) for size in PLAN.sizes_bytes]
    for each in rows:
        each["out_of_place"]["algbw_gbps"] = each["out_of_place"]["busbw_gbps"]
    judged = judge(line(results=rows), ASKED)
    assert judged.verdict == "unknown"
    assert "a build without MPI=1 does that" in judged.reasons[0]


def test_values_that_nobody_checked_are_unknown():
    rows = [row(size, 0.049) for size in PLAN.sizes_bytes]
    rows[5]["out_of_place"]["wrong"] = None
    judged = judge(line(results=rows), ASKED)
    assert judged.verdict == "unknown"
    assert "were not checked" in judged.reasons[0]


def test_nan_is_unknown():
    text = line().replace("0.049", "NaN")
    assert judge(text, ASKED).verdict == "unknown"


@given(st.text())
def test_no_text_crashes_the_judge_or_passes(text):
    assert judge(text, ASKED).verdict == "unknown"


@given(
    st.dictionaries(
        st.sampled_from(["results", "ranks", "problems", "collective", "rehearsal", "versions", "schema", "transport"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
            max_leaves=6,
        ),
        min_size=1,
    )
)
def test_no_damage_to_a_line_crashes_the_judge_or_the_page(damage):
    judged = judge(line(**damage), ASKED)
    assert judged.verdict in {"pass", "short", "unknown"}
    outputs.table(judged)
    outputs.measured(judged, {})


def test_the_gate_follows_the_message_size_and_scales_with_the_rehearsal():
    def limit(end: int, scale: int = 1):
        return gate(Plan(8, end, 2, 1, 1), GPU4, 4, scale=scale).limit_gbps

    gib = 1024**3
    assert limit(4 * gib) == pytest.approx(170)
    assert limit(gib) == pytest.approx(160)
    assert limit(gib // 2) == pytest.approx(140)
    assert limit(gib // 4) is None
    assert limit(1024**2, scale=4000) == pytest.approx(0.04)
    assert limit(2 * 1024**2, scale=4000) == pytest.approx(0.0425)


def test_a_users_limit_above_the_wire_is_applied_and_flagged():
    bound = gate(PLAN, GPU4, 2, minimum_gbps=250)
    assert bound.limit_gbps == 250
    assert "above the ring ceiling" in bound.why


def test_without_a_gate_nothing_passes():
    judged = judge(line(rehearsal=None), ASKED)
    assert judged.verdict == "unknown"
    assert "there is no gate" in judged.reasons[0]


def test_the_table_shows_every_size_and_ends_with_the_verdict():
    text = outputs.table(judge(line(), ASKED))
    assert len(text.splitlines()) == 1 + 24 + 1
    assert text.splitlines()[-1].startswith("verdict PASS: all_reduce busbw 0.049 GB/s at 64 MiB, 98.0% of the wire")
