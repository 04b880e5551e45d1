"""A verdict is a pure function of one line: pass only on complete, correct, fast and steady data that went the intended way."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurement_line import ASKED, BUILT, GPU4, PLAN, a_plan, document, line, row, with_step

from benchmarks.judge.verdict import judge
from benchmarks.plan.asked import Asked
from benchmarks.plan.gate import gate
from benchmarks.plan.size_text import size_text
from benchmarks.report import outputs, summary
from catalogue import SHAPES
from config.accept import Accept

RUN = "all_reduce"
SPEED = 0.049


def rows_at(busbw_gb_s: float) -> list:
    return [row(size, busbw_gb_s) for size in PLAN.sizes_bytes]


def state(judged, name: str) -> str:
    (found,) = [one.state for one in judged.checks if one.name == name]
    return found


def test_a_complete_and_fast_run_passes_without_a_reason():
    judged = judge(line(), ASKED)
    assert (judged.verdict, judged.reasons) == ("pass", ())
    assert judged.busbw_gb_s == pytest.approx(0.049)
    assert judged.ceiling_gb_s == pytest.approx(0.05)
    assert judged.scale == 4000
    assert {one.state for one in judged.checks} == {"pass"}


def test_a_run_at_half_the_line_rate_is_short_and_the_reason_has_the_busbw_and_the_gate():
    judged = judge(with_step(RUN, rows=rows_at(0.025)), ASKED)
    assert judged.verdict == "short"
    assert "reached 0.025 GB/s at 64 MiB; the gate requires 0.0425 GB/s" in judged.reasons[0]


def test_a_run_with_wrong_data_never_passes_however_high_its_busbw_is():
    rows = rows_at(SPEED)
    rows[3] = row(64, SPEED, wrong=2)
    judged = judge(with_step(RUN, rows=rows), ASKED)
    assert judged.verdict == "short"
    assert "4 elements arrived with wrong values in all_reduce" in judged.reasons[0]


def test_wrong_data_in_a_step_that_does_not_decide_also_prevents_a_pass():
    judged = judge(with_step("free", rows=[row(PLAN.end_bytes, SPEED, wrong=1)]), ASKED)
    assert judged.verdict == "short"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"rows": []}, "no row was measured"),
        ({"rows": [row(8, SPEED)]}, "the plan has 24 sizes"),
        ({"ranks": 8}, "8 ranks ran instead of 16"),
        ({"hosts": 1}, "the ranks ran on 1 hosts instead of 2"),
        ({"program": "all_gather"}, "expected all_reduce, got all_gather"),
        ({"problems": ["the run's closing lines are missing"]}, "closing lines are missing"),
        ({"problems": None}, "no list of problems"),
        ({"rows": [[8, None, None]]}, "lack a measurement or its out-of-place numbers"),
        ({"rows": [[8, [1.0, 1.0, "nan", 0], None]]}, "lack a measurement or its out-of-place numbers"),
        ({"rows": [[8, [1.0, 1.0, float("nan"), 0], None]]}, "the runner's line is not JSON: NaN is no number"),
        ({"seconds": float("inf")}, "the runner's line is not JSON: Infinity is no number"),
        ({"name": "another"}, "has no run of all_reduce"),
    ],
)
def test_missing_or_foreign_data_give_the_verdict_unknown_with_a_reason(changes, reason):
    judged = judge(with_step(RUN, **changes), ASKED)
    assert judged.verdict == "unknown"
    assert any(reason in found for found in judged.reasons)


@pytest.mark.parametrize("changes", [{"schema": 1}, {"kind": "build"}])
def test_a_line_that_is_no_measurement_of_version_2_is_unknown(changes):
    judged = judge(line(**changes), ASKED)
    assert judged.verdict == "unknown"
    assert "not a measurement of version 2" in judged.reasons[0]


def test_a_result_of_another_plan_is_unknown():
    other = dataclasses.replace(ASKED, plan=a_plan(end_bytes=32 * 1024**2))
    assert judge(line(other), ASKED).verdict == "unknown"
    assert judge(line(), other).verdict == "unknown"


def test_a_build_without_mpi_is_recognised_by_its_ratio_of_busbw_to_algbw():
    rows = rows_at(SPEED)
    for each in rows:
        each[1][1] = each[1][2]
        each[1][0] = each[0] / (each[1][1] * 1e3)
    judged = judge(with_step(RUN, rows=rows), ASKED)
    assert judged.verdict == "unknown"
    assert "as in a build without MPI=1" in judged.reasons[0]
    assert len([why for why in judged.reasons if "as in a build without MPI=1" in why]) == 4, "further rows would say the same"


@pytest.mark.parametrize("step", [RUN, "node", "rails", "free", "spread"])
@pytest.mark.parametrize("placement", [1, 2])
@pytest.mark.parametrize(
    "factors", [(2, 1, 1), (0, 1, 1), (1, 1.2, 1.2), (1, 8, 8), (1, 1, 1.1), (1, 0.9, 1), (0.5, 1, 1), (1, 0, 0)]
)
def test_a_row_whose_numbers_contradict_each_other_gives_the_verdict_unknown(step, placement, factors):
    found = document()
    (run,) = [one for one in found["steps"] if one["name"] == step]
    timing = run["rows"][-1][placement]
    timing[:3] = [number * factor for number, factor in zip(timing, factors, strict=False)]
    judged = judge(json.dumps(found), ASKED)
    assert judged.verdict == "unknown"
    assert any(f"at {size_text(run['rows'][-1][0])} " in reason for reason in judged.reasons)


def test_numbers_that_are_rounded_to_six_decimals_fit_each_other():
    found = document()
    for step in found["steps"]:
        for one in step["rows"]:
            for timing in one[1:]:
                timing[:3] = [round(number, 6) for number in timing[:3]]
    assert judge(json.dumps(found), ASKED).verdict == "pass"


def test_a_run_with_unchecked_values_is_unknown():
    rows = rows_at(SPEED)
    rows[5] = row(256, SPEED, wrong=None)
    judged = judge(with_step(RUN, rows=rows), ASKED)
    assert judged.verdict == "unknown"
    assert "were not checked" in judged.reasons[0]


def test_only_values_that_were_checked_count_as_correct():
    rows = rows_at(SPEED)
    rows[5] = [*row(256, SPEED)[:2], [*row(256, SPEED)[2][:3], None]]
    said = [
        one.why[0] for text in (line(), with_step(RUN, rows=rows)) for one in judge(text, ASKED).checks if one.name == "values"
    ]
    whole, less = (int(re.search(r"\d+", why)[0]) for why in said)
    assert whole - less == 1


def test_a_busbw_above_what_any_algorithm_can_reach_is_unknown():
    judged = judge(with_step(RUN, rows=rows_at(0.2)), ASKED)
    assert judged.verdict == "unknown"
    assert "more than a ring can carry" in judged.reasons[0]


def test_an_unsteady_fabric_is_short_although_its_mean_is_fast_enough():
    spread = {"iterations": 20, "p50_us": 1000.0, "p99_us": 1800.0, "cv_pct": 9.0}
    judged = judge(with_step("spread", spread=spread), ASKED)
    assert judged.verdict == "short"
    assert "vary by 9.0 % (p99 / p50 is 1.80)" in judged.reasons[0]


def test_a_spread_step_that_failed_is_not_counted_among_the_complete_steps():
    said = [
        one.why[0]
        for text in (line(), with_step("spread", failed="it hung"))
        for one in judge(text, ASKED).checks
        if one.name == "collectives"
    ]
    whole, less = (int(why.split()[0]) for why in said)
    assert whole - less == 1


def test_a_run_without_a_timed_spread_passes_only_if_the_spread_is_listed_in_allow_skipped():
    without = dataclasses.replace(ASKED, plan=a_plan(spread_iterations=0))
    judged = judge(line(without), without)
    assert judged.verdict == "unknown"
    assert "allowSkipped" in judged.reasons[0]
    assert judge(line(without), dataclasses.replace(without, accept=Accept(allow_skipped=("spread",)))).verdict == "pass"


def test_a_fast_run_on_unequal_nodes_is_short():
    judged = judge(line(inventory={"differences": ["inst-1: rail mlx5_3 is not active"]}), ASKED)
    assert (judged.verdict, judged.reasons) == ("short", ("inst-1: rail mlx5_3 is not active",))


def test_a_failed_step_is_named_and_makes_the_verdict_unknown():
    judged = judge(with_step("rails", failed="the run rails exited with status 1"), ASKED)
    assert judged.verdict == "unknown"
    assert judged.reasons == ("rails: the run rails exited with status 1",)


@pytest.mark.parametrize("step", ["node", "rails"])
@pytest.mark.parametrize("groups", [None, [], "x", [0.006], [0.006] * 7 + ["y"], [0.006] * 9])
def test_a_step_without_a_number_for_each_group_is_unknown(step, groups):
    judged = judge(with_step(step, groups_gb_s=groups), ASKED)
    assert judged.verdict == "unknown"
    assert f"the step {step} has no numbers for its" in judged.reasons[0]


@pytest.mark.parametrize("text", ["[" * 100_000, json.dumps({"kind": "measure"})[:-1] + ', "x":' + "{" * 100_000])
def test_a_line_nested_too_deeply_is_unknown(text):
    assert judge(text, ASKED).verdict == "unknown"


def test_a_number_too_large_for_a_float_or_a_counter_counts_as_missing():
    assert judge(with_step(RUN, rows=[row(PLAN.end_bytes, SPEED, wrong=2**1024)]), ASKED).verdict == "unknown"
    for number, why in (("1e400", "1e400 is no number"), (str(2**64), "a number of 20 digits is no number")):
        judged = judge(line().replace('"seconds": 9.0', f'"seconds": {number}'), ASKED)
        assert (judged.verdict, judged.reasons) == ("unknown", (f"the runner's line is not JSON: {why}",))


def test_a_gpu_whose_rails_are_slow_in_the_step_named_rails_is_named_with_the_verdict_short():
    slow = [0.049 / 8] * 8
    slow[5] = 0.002
    judged = judge(with_step("rails", groups_gb_s=slow), ASKED)
    assert judged.verdict == "short"
    assert "the rails of GPU 5 on all nodes together" in judged.reasons[0]


def test_a_users_limit_for_one_message_size_is_a_separate_check():
    asked = dataclasses.replace(ASKED, accept=Accept(limits={"all_reduce": {1024**2: 199.0}}))
    judged = judge(line(), asked)
    assert judged.verdict == "short"
    assert "the stack asks for 199 GB/s, scaled by 1/4000" in judged.reasons[0]
    assert judge(line(), dataclasses.replace(ASKED, accept=Accept(limits={"all_reduce": {1024**2: 150.0}}))).verdict == "pass"


def test_a_limit_on_an_unmeasured_size_is_unknown():
    asked = dataclasses.replace(ASKED, accept=Accept(limits={"all_gather": {1024**2: 100.0}}))
    assert judge(line(), asked).verdict == "unknown"


def test_a_run_below_the_earlier_runs_is_short_although_the_gate_is_met():
    judged = judge(line(), dataclasses.replace(ASKED, past=(0.0495, "the median of 9 earlier runs")))
    assert judged.verdict == "short"
    assert "the median of 9 earlier runs" in judged.reasons[0]


@pytest.mark.parametrize("netdevs", [{}, {GPU4.rdma.hca[0]: "rdma0", "mlx5_4": "eth0"}])
def test_a_run_whose_bytes_went_over_the_front_end_is_short_however_high_the_busbw_is(netdevs):
    found = document()
    found["transport"]["netdevs"] = netdevs
    for counted in found["transport"]["tx_bytes"].values():
        moved = sum(counted.values())
        counted.update(dict.fromkeys(GPU4.rdma.hca, 0), eth0=moved)
    judged = judge(json.dumps(found), ASKED)
    assert judged.verdict == "short"
    assert "so NCCL used eth0" in judged.reasons[0]
    assert "eth0" in judged.reasons[0]


@pytest.mark.parametrize("idle", [1, 8, 15])
def test_idle_rails_are_named_even_if_the_busbw_reaches_the_gate(idle):
    found = document()
    for counted in found["transport"]["tx_bytes"].values():
        moved = sum(counted[hca] for hca in GPU4.rdma.hca)
        counted.update(dict.fromkeys(GPU4.rdma.hca[:idle], 0))
        counted.update(dict.fromkeys(GPU4.rdma.hca[idle:], moved // (16 - idle)))
    judged = judge(json.dumps(found), ASKED)
    assert judged.verdict == "short"
    assert f"{16 - idle} of 16 rails carried the bytes; mlx5_0" in judged.reasons[0]


def test_without_byte_counters_the_transport_check_is_skipped_and_the_run_does_not_pass():
    found = document()
    found["transport"]["tx_bytes"] = {}
    judged = judge(json.dumps(found), ASKED)
    assert (judged.verdict, state(judged, "transport")) == ("unknown", "skipped")
    assert judge(json.dumps(found), dataclasses.replace(ASKED, accept=Accept(allow_skipped=("transport",)))).verdict == "pass"


@given(st.text())
def test_no_text_crashes_the_judge_or_gets_the_verdict_pass(text):
    assert judge(text, ASKED).verdict == "unknown"


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.dictionaries(
        st.sampled_from(["steps", "inventory", "rehearsal", "versions", "schema", "transport", "evidence", "run_id"]),
        ANYTHING,
        min_size=1,
    )
)
def test_no_damage_to_a_line_crashes_the_judge_or_the_page(damage):
    shown(judge(line(**damage), ASKED))


@given(
    st.sampled_from(["all_reduce", "rails", "node", "spread", "free"]),
    st.dictionaries(
        st.sampled_from(["rows", "ranks", "hosts", "problems", "program", "groups_gb_s", "spread", "failed", "name"]),
        ANYTHING,
        min_size=1,
    ),
)
def test_no_damage_to_a_step_crashes_the_judge_or_the_page(name, damage):
    shown(judge(with_step(name, **damage), ASKED))


WHOLE = line()


@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 300))
def test_a_truncated_line_is_unknown_or_is_judged_by_the_rest_of_the_line(start, length):
    """What is left of the line may be JSON. Then it is judged like any line; otherwise it is unknown."""
    assert judge(WHOLE[:start], ASKED).verdict == "unknown"
    cut = WHOLE[:start] + WHOLE[start + length :]
    try:
        left = json.loads(cut)
    except ValueError:
        assert judge(cut, ASKED).verdict == "unknown"
    else:
        assert judge(cut, ASKED).verdict == judge(json.dumps(left), ASKED).verdict


def test_a_pass_becomes_unknown_if_one_row_of_the_deciding_run_is_removed():
    found = json.loads(WHOLE)
    (step,) = [one for one in found["steps"] if one["name"] == RUN]
    for number in range(len(step["rows"])):
        rows = [row for at, row in enumerate(step["rows"]) if at != number]
        assert judge(with_step(RUN, rows=rows), ASKED).verdict == "unknown", number


def shown(judged) -> None:
    assert judged.verdict in {"pass", "short", "unknown"}
    summary.table(judged, {})
    summary.page(judged, {}, "ssh x", [])
    outputs.measured(judged, ASKED, BUILT, {}, 0)


def test_the_gate_follows_the_message_size_and_scales_with_the_rehearsal():
    def limit(end: int, scale: int = 1):
        return gate(a_plan(end_bytes=end), GPU4, 4, scale=scale).limit_gb_s

    gib = 1024**3
    assert limit(4 * gib) == pytest.approx(170)
    assert limit(gib) == pytest.approx(160)
    assert limit(gib // 2) == pytest.approx(140)
    assert limit(gib // 4) is None
    assert limit(1024**2, scale=4000) == pytest.approx(0.0425)
    assert limit(512 * 1024, scale=4000) == pytest.approx(0.04)


@pytest.mark.parametrize(
    ("asks", "note"), [(201, "above the ceiling"), (200, None), (100, None), (99, "below half the ceiling")]
)
def test_a_limit_of_the_user_is_applied_and_an_implausible_limit_is_also_noted(asks, note):
    bound = gate(PLAN, GPU4, 2, minimum_gb_s=asks)
    assert bound.limit_gb_s == asks
    assert (note in bound.why and note in bound.notes[0]) if note else not bound.notes


@pytest.mark.parametrize(
    "limits",
    [
        {"all_reduce": {"1G": "-1 GB/s"}},
        {"all_reduce": {"1G": "0 GB/s"}},
        {"nothing": {"1G": "3 GB/s"}},
        {"all_reduce": {"1X": "3 GB/s"}},
        {"all_reduce": {"1G": "3 Gbit/s"}},
        {"all_reduce": "3 GB/s"},
    ],
)
def test_an_invalid_limit_is_refused(limits):
    with pytest.raises(ValueError, match="limits"):
        Accept.model_validate({"limits": limits})


def test_the_gate_of_a_single_machine_depends_on_its_nvlink():
    h200 = SHAPES["BM.GPU.H200.8"]
    bound = gate(a_plan(end_bytes=4 * 1024**3), h200, 1)
    assert bound.limit_gb_s == pytest.approx(0.72 * 450)


def test_without_a_gate_nothing_passes():
    judged = judge(line(rehearsal=None), ASKED)
    assert judged.verdict != "pass"
    assert any("there is no gate" in reason for reason in judged.reasons)


def test_the_table_shows_every_size_and_ends_with_the_verdict():
    text = summary.table(judge(line(), ASKED), {})
    assert len(text.splitlines()) == 2 + 24 + 1
    assert text.splitlines()[-1].startswith("verdict PASS: all_reduce busbw 0.049 GB/s at 64 MiB, 98.0% of the wire")


def test_four_collectives_pass_and_the_outputs_leave_out_rows_of_size_0():
    asked = Asked(a_plan(collectives=("all_reduce", "all_gather", "sendrecv", "hypercube")), GPU4, 2)
    judged = judge(line(asked), asked)
    assert (judged.verdict, judged.reasons) == ("pass", ())
    rows = outputs.measured(judged, ASKED, BUILT, {}, 0)["results"]["all_gather"]
    assert [one["size_bytes"] for one in rows][:2] == [256, 512]


def test_the_table_lists_the_other_collectives_at_their_largest_size_below_the_deciding_collective():
    asked = Asked(a_plan(collectives=("all_reduce", "all_gather", "sendrecv", "hypercube")), GPU4, 2)
    shown = summary.rows(judge(line(asked), asked))
    others = shown[shown.index("the other collectives at their largest size:") + 1 :]
    assert [text.split()[:3] for text in others] == [[name, "64", "MiB"] for name in ("all_gather", "sendrecv", "hypercube")]


@pytest.mark.parametrize("name", ["all_reduce", "rails", "node"])
def test_a_step_that_the_line_lists_twice_is_unknown(name):
    found = document()
    again = next(step for step in found["steps"] if step["name"] == name)
    found["steps"].append(dict(again))
    assert judge(json.dumps(found), ASKED).verdict == "unknown"


def test_a_line_that_counts_nodes_but_lists_no_bytes_is_no_pass_and_no_crash():
    line = document(ASKED)
    line["transport"] |= {"tx_bytes": {}, "counted_nodes": ASKED.nodes}
    found = judge(json.dumps(line), ASKED)
    assert found.verdict == "unknown"
