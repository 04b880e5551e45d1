"""A number below its limit is measured once more: what the retest may retract, and what the retest never retracts."""

from __future__ import annotations

import copy
import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from measurement_line import ASKED, BUILT, EVIDENCE, a_plan, document, place

from benchmarks.host import requests
from benchmarks.judge import retest, searched, transport
from benchmarks.judge.verdict import judge
from benchmarks.plan import ceiling, fractions
from benchmarks.report import outputs, summary
from config.accept import Accept

AGAIN = {"path": "/home/opc/.busbar/runs/y/z.txt.gz", "sha256": "1" * 64}
HALF = document(share=0.5)


def damaged(*names: str, asked=ASKED) -> dict:
    """Return a line that is healthy except for the steps `names`, which reached half the ceiling."""
    slow = {step["name"]: step for step in document(asked, share=0.5)["steps"]}
    slow["spread"]["spread"] = {"iterations": 20, "p50_us": 1000.0, "p99_us": 4000.0, "cv_pct": 60.0}
    found = document(asked)
    found["steps"] = [slow[step["name"]] if step["name"] in names else step for step in found["steps"]]
    return found


def silent_rails(line: dict) -> dict:
    for sent in line["transport"]["tx_bytes"].values():
        sent.update(dict.fromkeys(sent, 0))
    return line


def look(first: dict, again: dict | None, asked=ASKED, **searched):
    line = {"needed": True, "complete": True, "failed": None, "culprits": []} | searched
    if again is not None:
        names = retest.steps_of(judge(json.dumps(first), asked), asked)
        steps = [step for step in again["steps"] if step["name"] in names]
        line["again"] = {"steps": steps, "evidence": AGAIN, "transport": None, "failed": None}
        if asked.plan.collective in names:
            line["again"]["transport"] = again["transport"] | {"steps": [asked.plan.collective]}
    return retest.settled(judge(json.dumps(first), asked), asked, line)


def asked_again(first: dict, asked=ASKED, budget_s: int = 600) -> dict:
    return json.loads(requests.search(place(asked), asked, judge(json.dumps(first), asked), budget_s, []))


def _after(step: dict, flag: str) -> str:
    words = step["ranks"]["arguments"]
    return words[words.index(flag) + 1]


@pytest.mark.parametrize(
    ("step", "step_check"), [("all_reduce", "bandwidth"), ("rails", "rails"), ("node", "node"), ("spread", "spread")]
)
def test_a_result_that_was_short_only_once_is_a_pass_and_the_check_says_that_there_was_a_retest(step, step_check):
    first = damaged(step)
    assert judge(json.dumps(first), ASKED).verdict == "short"
    found = look(first, document())
    assert found.verdict == "pass"
    assert found.reasons == ()
    (why,) = [why for one in found.checks if one.name == step_check for why in one.why if why.startswith(retest.NOTE)]
    assert len(why) > len(retest.NOTE) + 20
    assert f"{step_check}: {why}" in summary.table(found, {})
    assert found.line["evidence"] == AGAIN
    evidence = outputs.measured(found, ASKED, BUILT, {"again": {"evidence": AGAIN}}, 0)["evidence"]
    assert evidence == AGAIN | {"copy": None, "others": [{"of": "first"} | EVIDENCE]}
    assert (
        outputs.measured(found, ASKED, BUILT, {"needed": True, "culprits": [], "summary": "nothing stands out"}, 0)["reasons"]
        == []
    )


def test_a_result_that_is_short_twice_keeps_its_first_busbw_and_shows_both_results():
    first = damaged("all_reduce")
    found, once = look(first, damaged("all_reduce")), judge(json.dumps(first), ASKED)
    assert (found.verdict, found.busbw_gb_s, found.line) == (once.verdict, once.busbw_gb_s, once.line)
    assert found.line["evidence"] == EVIDENCE
    evidence = outputs.measured(found, ASKED, BUILT, {"again": {"evidence": AGAIN}}, 0)["evidence"]
    assert evidence == EVIDENCE | {"copy": None, "others": [{"of": "retest"} | AGAIN]}
    assert found.reasons[: len(once.reasons)] == once.reasons
    assert any(one.startswith("bandwidth in the retest: short, all_reduce reached 0.025 GB/s") for one in found.reasons)


def test_the_limit_of_a_pair_in_a_search_is_the_expected_busbw_of_two_nodes_at_the_message_size_of_the_trials():
    asked = asked_again(damaged("all_reduce"))["trials"]
    whole = ceiling.ring_gb_s(ASKED.shape, 2, 4000)
    share = fractions.fraction(asked["size_bytes"], fractions.ALL_REDUCE, 4000)
    assert asked["pair_limit_gb_s"] == pytest.approx(whole * share)


def test_a_search_is_asked_to_try_all_pairs_only_if_alltoall_is_slow():
    plan = a_plan(collectives=("all_reduce", "alltoall"))
    limited = dataclasses.replace(ASKED, plan=plan, accept=Accept(limits={"alltoall": {plan.end_of("alltoall"): 40.0}}))
    for slow, wanted in (("all_reduce", False), ("alltoall", True)):
        assert asked_again(damaged(slow, asked=limited), limited)["trials"]["off_ring"] is wanted


def test_a_retest_excuses_nothing_if_the_search_found_a_node_at_fault():
    found = look(damaged("rails"), document(), culprits=[{"kind": "node"}])
    assert found.verdict == "short"
    assert found.reasons[-1] == "the retest does not count, because the search found a culprit"
    assert found.reasons[-2].startswith("rails in the retest: pass")


def test_a_rehearsal_whose_ranks_waited_for_processors_has_no_verdict_and_blames_no_node():
    searched = {"needed": True, "complete": True, "culprits": [{"kind": "node", "nodes": ["gpu-1"]}], "summary": "node gpu-1"}
    waited = document(share=0.79)
    waited["steps"] = [step | {"waited": 0.25} for step in waited["steps"]]
    busy, short = judge(json.dumps(waited), ASKED), judge(json.dumps(document(share=0.5)), ASKED)
    assert (busy.verdict, short.verdict) == ("unknown", "short")
    assert retest.unblamed(short, searched) == searched
    said = retest.unblamed(busy, searched)
    assert (said["culprits"], said["summary"]) == ([], "this machine: nobody is blamed while ranks wait for processors")
    silent = judge("", ASKED)
    assert silent.verdict == "unknown"
    assert retest.unblamed(silent, searched) == searched, "a verdict that is unknown for another reason changes nothing"


@pytest.mark.parametrize("ended", [{"complete": False}, {"failed": "no answer from node-1"}])
def test_a_retest_excuses_nothing_if_the_search_did_not_finish(ended):
    found = look(damaged("rails"), document(), **ended)
    assert found.verdict == "short"
    assert "did not complete" in found.reasons[-1]
    assert look(damaged("rails"), document(), needed=False, **ended).verdict == "pass"


def test_a_retest_whose_bytes_took_another_path_is_not_a_pass():
    fallen_back = silent_rails(document())
    found = look(damaged("all_reduce"), fallen_back)
    assert found.verdict == "short"
    assert any(reason.startswith("transport in the retest: short") for reason in found.reasons)


def test_a_retest_that_does_not_measure_the_deciding_collective_adds_no_look():
    first = damaged("rails")
    found, once = look(first, document()), judge(json.dumps(first), ASKED)
    assert found.verdict == "pass"
    assert found.looks.places == once.looks.places


def test_byte_counters_of_a_retest_are_compared_only_with_the_steps_of_that_retest():
    plan, shape, nodes = ASKED.plan, ASKED.shape, ASKED.nodes
    single = transport.least_bytes(plan, shape, nodes, frozenset({"all_reduce"}))
    assert 0 < single < transport.least_bytes(plan, shape, nodes)
    both = transport.least_bytes(plan, shape, nodes, frozenset({"rails", "all_reduce"}))
    once = transport.least_bytes(plan, shape, nodes)
    # Timed and checked operations: 1 + 1 in the first measurement, 12 + 1 in the retest.
    assert both - single == pytest.approx((once - single) * 13 / 2)


def test_a_retest_of_the_rails_measures_at_least_12_operations_and_never_fewer_than_the_plan():
    (rails,) = asked_again(damaged("rails"))["again"]["steps"]
    assert _after(rails, "-n") == "12"
    many = dataclasses.replace(ASKED, plan=a_plan(iterations=20))
    (rails,) = asked_again(damaged("rails", asked=many), many)["again"]["steps"]
    assert _after(rails, "-n") == "20"


def test_without_a_retest_a_short_result_stays_short():
    assert look(damaged("rails"), None).verdict == "short"
    found = retest.settled(judge(json.dumps(damaged("rails")), ASKED), ASKED, {"again": {"steps": [], "failed": "no answer"}})
    assert (found.verdict, found.reasons[-1]) == ("short", "the retest returned no result: no answer")


def test_a_retest_with_wrong_values_or_another_number_of_ranks_retracts_nothing():
    wrong, fewer = document(), document()
    for step in wrong["steps"]:
        step["rows"][-1][1][3] = 7
    for step in fewer["steps"]:
        step["ranks"] = 8
    found = look(damaged("rails"), wrong)
    assert found.verdict == "short"
    assert any(reason.startswith("values in the retest: short, 7 elements") for reason in found.reasons)
    found = look(damaged("all_reduce"), fewer)
    assert found.verdict == "short"
    assert any(reason.startswith("measurement in the retest: unknown, 8 ranks ran") for reason in found.reasons)


def test_a_retest_does_not_retract_the_failure_of_a_step_that_was_not_requested():
    first = damaged("all_reduce")
    (rails,) = [step for step in first["steps"] if step["name"] == "rails"]
    rails["failed"] = "the run rails exited with status 1"
    judged = judge(json.dumps(first), ASKED)
    again = {"steps": document()["steps"], "evidence": AGAIN}
    found = retest.settled(judged, ASKED, {"culprits": [], "again": again})
    assert found.verdict == "short"
    assert any(reason.startswith("rails in the retest: pass") for reason in found.reasons)


def test_a_retest_without_a_busbw_for_each_group_retracts_nothing():
    again = document()
    for step in again["steps"]:
        step.pop("groups_gb_s", None)
    found = look(damaged("rails"), again)
    assert found.verdict == "short"
    assert any(reason.startswith("rails in the retest: unknown") for reason in found.reasons)


def test_only_results_that_are_merely_slow_are_measured_twice():
    fallen_back = silent_rails(damaged("all_reduce"))
    assert asked_again(fallen_back)["again"] is None
    unequal = damaged("rails") | {"inventory": {"differences": ["inst-1: rail mlx5_3 is not active"]}}
    assert asked_again(unequal)["again"] is None
    assert asked_again(document())["again"] is None
    assert asked_again(document())["nodes"] == []


def wrong_values(line: dict) -> dict:
    (step,) = [one for one in line["steps"] if one["name"] == "all_reduce"]
    step["rows"][-1][1][3] = 3
    return line


@pytest.mark.parametrize("first", [wrong_values(document()), wrong_values(damaged("all_reduce"))], ids=["fast", "slow"])
def test_wrong_values_are_never_retracted(first):
    judged = judge(json.dumps(first), ASKED)
    assert judged.verdict == "short"
    assert retest.steps_of(judged, ASKED) == ()
    assert asked_again(first)["again"] is None


def test_only_failed_checks_of_a_busbw_or_a_time_can_be_retracted():
    """Of all checks of a line, only the checks of a busbw or a time lead to a retest of their steps."""
    names = {one.name for one in judge(json.dumps(document()), ASKED).checks}
    looked_at_again = {"bandwidth", "spread", "node", "rails", "curve all_reduce", "looks"}
    assert names > looked_at_again
    for name in names:
        judged = judge(json.dumps(document()), ASKED)
        checks = tuple(dataclasses.replace(one, state="short") if one.name == name else one for one in judged.checks)
        steps = retest.steps_of(dataclasses.replace(judged, checks=checks), ASKED)
        assert bool(steps) == (name in looked_at_again), name


def test_the_request_names_the_first_measurements_evidence_and_the_steps_to_repeat():
    plan = a_plan(collectives=("all_reduce", "all_gather"))
    limited = dataclasses.replace(ASKED, plan=plan, accept=Accept(limits={"all_gather": {plan.end_of("all_gather"): 150.0}}))
    again = asked_again(damaged("all_gather", "rails", asked=limited), limited)["again"]
    assert [step["name"] for step in again["steps"]] == ["rails", "all_gather"]
    assert again["evidence"] == EVIDENCE
    whole = asked_again(damaged("all_reduce"))["again"]
    assert [step["name"] for step in whole["steps"]] == ["all_reduce", "looks_early", "looks_late"]
    assert not any(step["decides"] for step in whole["steps"])
    assert [node["address"] for node in whole["nodes"]] == ["10.0.1.2", "10.0.1.3"]


def test_the_time_limit_of_a_search_does_not_change_its_retest():
    first = damaged("rails")
    looks = [asked_again(first, budget_s=budget_s) for budget_s in (0, 60, 600)]
    assert len({one["run_id"] for one in looks}) == 3
    assert len({one["again"]["run_id"] for one in looks}) == 1
    assert asked_again(first | {"run_id": "abd"})["again"]["run_id"] != looks[0]["again"]["run_id"]


def test_a_node_that_is_slow_inside_is_measured_again_without_a_search_between_nodes():
    request = asked_again(damaged("node"))
    assert request["trials"] is None
    assert [step["name"] for step in request["again"]["steps"]] == ["node"]
    assert request["nodes"]


def test_a_stack_with_a_search_budget_of_0_s_still_makes_the_retest():
    request = asked_again(damaged("all_reduce"), budget_s=0)
    assert request["trials"] is None
    assert request["again"]["steps"]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["rails", "all_reduce"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["steps", "name", "rows"]), inner, max_size=3),
    max_leaves=8,
)


@given(_JSON)
def test_a_short_fabric_stays_short_if_the_search_result_has_no_busbw_of_a_retest(again):
    first = judge(json.dumps(HALF), ASKED)
    found = retest.settled(first, ASKED, {"culprits": [], "again": again})
    assert (found.verdict, found.line) == (first.verdict, first.line)


@given(_JSON, st.sampled_from(["rows", "ranks", "hosts", "groups_gb_s"]))
def test_a_damaged_retest_neither_crashes_the_judge_nor_passes(value, name):
    again = copy.deepcopy(document())
    for step in again["steps"]:
        step[name] = value
    assert look(HALF, again).verdict == "short"


def test_a_fast_retest_passes_unless_a_pair_is_slow_even_while_no_other_pair_runs():
    between = [{"kind": "between", "nodes": ["inst-0", "inst-1"]}]
    assert look(damaged("rails"), document(), culprits=between).verdict == "pass"
    assert look(damaged("rails"), document(), culprits=[*between, {"kind": "link"}]).verdict == "short"


FAILED = {"schema": 1, "kind": "search", "needed": True, "culprits": [], "complete": False}
UNREADABLE = "the search's line contains a culprit that cannot be read"


@pytest.mark.parametrize(
    ("line", "why", "refused"),
    [
        ([], "the runner's line is not a search result", False),
        ({"kind": "measure", "needed": False}, "the runner's line is not a search result", False),
        ({"kind": "search"}, "the search's line does not say whether a search was needed", False),
        ({"kind": "search", "trials": None}, "the search's line does not say whether a search was needed", False),
        ({"kind": "search", "failed": "the nodes are busy"}, "the nodes are busy", True),
        ({"kind": "search", "needed": True}, "the search's line does not say whether the search is complete", False),
        ({"kind": "search", "needed": False, "culprits": {}}, UNREADABLE, False),
        ({"kind": "search", "needed": True, "complete": True, "culprits": [{"kind": "node"}]}, UNREADABLE, False),
    ],
)
def test_a_damaged_line_of_a_search_is_a_failed_search_and_keeps_the_retest(line, why, refused):
    expected = FAILED | {"failed": why, "refused": refused}
    assert searched.read(json.dumps(line)) == expected
    if isinstance(line, dict) and line["kind"] == "search":
        assert searched.read(json.dumps(line | {"again": {"steps": []}})) == expected | {"again": {"steps": []}}


def test_a_search_whose_line_is_no_json_has_failed():
    found = searched.read("Traceback\n")
    assert found == FAILED | {"failed": found["failed"], "refused": False}
    assert found["failed"].startswith("the runner's line is not JSON: ")


def test_a_search_that_was_not_requested_is_not_needed_and_a_whole_line_is_returned_unchanged():
    asked = {"kind": "search", "trials": None, "again": None, "nodes": []}
    assert searched.read(json.dumps(asked)) == {"schema": 1, "kind": "search", "needed": False}
    evidence = [{"nodes": ["a", "b"], "rails": [], "busbw_gb_s": None, "why": "timed out"}]
    culprit = {"kind": "node", "nodes": ["a"], "rails": [], "ratio": 0.5, "evidence": evidence}
    for whole in (
        {"kind": "search", "needed": True, "complete": True, "culprits": [culprit]},
        {"kind": "search", "needed": True, "failed": "no answer from node-1", "culprits": []},
        {"kind": "search", "needed": False},
    ):
        assert searched.read(json.dumps(whole)) == whole
