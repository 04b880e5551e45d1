"""Many looks (brief measurements) reveal a fabric that is slow at times; a healthy fabric may be disturbed in a few looks."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from measurement_line import ASKED, a_plan, document

from benchmarks.host import requests
from benchmarks.judge import looks, retest
from benchmarks.judge.verdict import judge
from benchmarks.launch import protocol
from benchmarks.plan.steps import LOOK_STEPS, repeated, steps
from benchmarks.report import ending, outputs
from benchmarks.runner import kept_looks
from config.accept import Accept
from tools.search.looks_figures import Course


def with_looks(slow: int, of: int = 16, factor: float = 0.5) -> dict:
    """Return a line with slow looks. `of`: number of looks; `slow`: how many of them are slow, beginning with the first.

    A slow look reached the busbw of the other looks times `factor`.
    """
    line = document()
    numbers = [0.049 * factor] * slow + [0.049] * (of - slow)
    for step in line["steps"]:
        if step["name"] in LOOK_STEPS:
            taken, numbers = numbers[: of // 2], numbers[of // 2 :]
            step["looks_gb_s"] = taken
    return line


def verdict(line: dict, asked=ASKED):
    return judge(json.dumps(line), asked)


def test_sixteen_clean_looks_and_the_deciding_run_pass():
    assert verdict(with_looks(0)).verdict == "pass"
    assert looks.weigh(0, 17).answer == "pass"
    assert looks.weigh(0, 14).answer == ""


def test_while_more_looks_are_possible_only_a_clear_answer_counts_and_after_the_last_look_the_likelier_answer_counts():
    """At most 64 looks are taken. If 5 of them are slow, `pass` is the likelier answer; if 6 are slow, `short` is likelier.

    After 63 looks, one look is left, so 5, 6 or 7 slow looks give no answer yet.
    """
    assert looks.MOST == 64
    assert [looks.weigh(slow, 64).answer for slow in (4, 5, 6, 7)] == ["pass", "pass", "short", "short"]
    assert [looks.weigh(slow, 63).answer for slow in (5, 6, 7)] == ["", "", ""]


@pytest.mark.parametrize("slow", [4, 8, 12])
def test_a_fabric_that_is_slow_at_times_gets_the_verdict_short_and_is_called_intermittent_with_the_share_of_slow_looks(slow):
    judged = verdict(with_looks(slow))
    assert judged.verdict == "short"
    late = max(0, slow - 8)
    where = f": {slow - late} of 8 right after it" + (f", {late} of 8 at the end of the plan" if late else "")
    assert judged.reasons[0].startswith(f"intermittent: {slow} of 17 separate looks were slow ({slow / 17:.0%}){where}; ")
    record = outputs.measured(judged, ASKED, _built(), {}, 0)
    places = {"deciding": {"slow": 0, "of": 1}, "early": {"slow": slow - late, "of": 8}, "late": {"slow": late, "of": 8}}
    assert (record["intermittent"], record["looks"]) == (True, {"slow": slow, "of": 17, "places": places})
    assert where in ending.headline(judged, {})


def test_every_step_with_slow_looks_is_named_even_in_a_pass():
    first = verdict(with_looks(1))
    assert ": 1 of 8 right after it; more looks" in first.reasons[0]
    fresh = with_looks(0, 48)
    again = {"steps": fresh["steps"], "transport": fresh["transport"] | {"steps": ["all_reduce"]}}
    settled = retest.settled(first, ASKED, {"needed": True, "complete": True, "culprits": [], "again": again})
    (check,) = [one for one in settled.checks if one.name == "looks"]
    assert (check.state, settled.looks.places[0].gb_s) == ("pass", (first.busbw_gb_s, first.busbw_gb_s))
    assert check.why[0].startswith("1 of 66 separate looks were slow: 1 of 32 right after it")
    line = with_looks(0)
    deciding = next(step for step in line["steps"] if step["name"] == "all_reduce")
    slow = next(step for step in document(share=0.5)["steps"] if step["name"] == "all_reduce")
    deciding["rows"] = slow["rows"]
    assert "1 of 17 separate looks were slow: 1 of 1 in the deciding run" in " ".join(verdict(line).reasons)


def test_a_fabric_that_is_always_slow_is_not_called_intermittent():
    line = with_looks(16)
    (step,) = [one for one in line["steps"] if one["name"] == "all_reduce"]
    for row in step["rows"]:
        for placement in row[1:]:
            placement[:3] = [placement[0] * 2, placement[1] / 2, placement[2] / 2]
    judged = verdict(line)
    assert judged.looks.slow == judged.looks.of
    assert not judged.looks.is_intermittent


def test_after_one_slow_look_the_verdict_is_unknown_and_more_looks_are_requested():
    judged = verdict(with_looks(1))
    assert "more looks are needed to tell whether that is chance" in judged.reasons[0]
    again = requests.search(_place(), ASKED, judged, 60, [])
    chosen = {step["name"]: step for step in json.loads(again)["again"]["steps"]}
    assert set(chosen) == {"all_reduce", *LOOK_STEPS}
    assert all(chosen[name]["cycles"] == 24 for name in LOOK_STEPS)


@pytest.mark.parametrize(("slow_again", "counts"), [(0, "pass"), (1, "pass"), (5, "short"), (20, "short")])
def test_the_looks_of_a_retest_are_added_to_the_first_looks_and_all_looks_together_decide(slow_again, counts):
    first = verdict(with_looks(1))
    fresh = with_looks(slow_again, 48)
    chosen = retest.steps_of(first, ASKED)
    again = {"steps": [step for step in fresh["steps"] if step["name"] in chosen], "transport": fresh["transport"]}
    again["transport"] |= {"steps": ["all_reduce"]}
    searched = {"needed": True, "complete": True, "culprits": [], "again": again}
    settled = retest.settled(first, ASKED, searched)
    assert settled.verdict == counts
    assert settled.looks.of == 66
    assert settled.looks.slow == 1 + slow_again
    if counts == "short":
        share = f"{1 + slow_again} of 66 separate looks were slow ({(1 + slow_again) / 66:.0%})"
        assert settled.reasons[0].startswith(f"intermittent: {share}: ")
        assert settled.reasons[0].endswith("; a healthy fabric is disturbed in 2% of its looks")
        others = [[one for one in of.checks if one.name != "looks"] for of in (settled, first)]
        assert others[0] == others[1], "the retest's looks replace only the check of the looks"
        (check,) = [one for one in settled.checks if one.name == "looks"]
        assert settled.reasons[0] in check.why
        assert "more looks are needed" not in " ".join(settled.reasons)
        assert settled.looks.is_intermittent
        assert "intermittent: " in ending.headline(settled, searched)


def test_slow_looks_of_a_retest_that_itself_failed_do_not_change_the_first_judgement():
    first, fresh = verdict(with_looks(1)), with_looks(20, 48)
    chosen = retest.steps_of(first, ASKED)
    steps = [step | {"ranks": 8} for step in fresh["steps"] if step["name"] in chosen]
    again = {"steps": steps, "transport": fresh["transport"] | {"steps": ["all_reduce"]}}
    settled = retest.settled(first, ASKED, {"needed": True, "complete": True, "culprits": [], "again": again})
    assert (settled.verdict, settled.checks, settled.looks) == (first.verdict, first.checks, first.looks)
    assert "measurement in the retest: unknown, 8 ranks ran" in settled.reasons[-1]


@pytest.mark.parametrize("slow", range(1, 18))
def test_a_retest_is_made_only_if_its_looks_could_still_give_a_pass(slow):
    """The retest here is the best possible one: none of its looks is slow."""
    first = verdict(with_looks(slow))
    best = {step["name"]: step for step in with_looks(0, 48)["steps"]}
    again = {"steps": [best[name] for name in ("all_reduce", *LOOK_STEPS)], "transport": with_looks(0)["transport"]}
    again["transport"] |= {"steps": ["all_reduce"]}
    settled = retest.settled(first, ASKED, {"needed": True, "complete": True, "culprits": [], "again": again})
    assert bool(retest.steps_of(first, ASKED)) == (settled.verdict == "pass")


def test_a_look_far_below_the_median_is_slow_although_the_look_reaches_the_gate():
    assert looks.are_slow([380, 380, 380, 320, 300], 290) == [False, False, False, True, True]
    assert looks.are_slow([300, 300, 300], 324) == [True, True, True]
    assert looks.are_slow([], 324) == []


def test_looks_of_the_previous_run_on_these_machines_affect_the_verdict_only_if_they_were_slow():
    line = with_looks(0)
    line["earlier_looks"] = [0.0245] * 5 + [0.049] * 12
    judged = verdict(line)
    assert judged.verdict == "short"
    assert "the previous run on these machines was slow at times" in judged.reasons[0]
    line["earlier_looks"] = [0.049] * 100
    assert verdict(line).looks.carried == 0
    assert looks.carry(64, 64) == looks.carry(40, 64)  # a limit, so that a repaired fabric can pass
    assert looks.weigh(0, 65, looks.carry(64, 64)).answer == "pass"


def test_a_plan_without_looks_passes_only_if_skipping_looks_is_allowed():
    asked = dataclasses.replace(ASKED, plan=a_plan(looks=0))
    assert judge(json.dumps(document(asked)), asked).verdict == "unknown"
    allowed = dataclasses.replace(asked, accept=Accept(allow_skipped=("looks",)))
    assert judge(json.dumps(document(allowed)), allowed).verdict == "pass"


@pytest.mark.parametrize("damage", [None, [], "x", [None], [-1.0], [True]])
def test_looks_that_cannot_be_parsed_are_never_a_pass(damage):
    line = document()
    for step in line["steps"]:
        if step["name"] in LOOK_STEPS:
            step["looks_gb_s"] = damage
    assert verdict(line).verdict == "unknown"


def test_looks_are_taken_in_two_steps_of_the_plan():
    names = [step.name for step in steps(a_plan(collectives=("all_reduce", "alltoall")), ASKED.shape, 4)]
    assert names.index("looks_early") == names.index("all_reduce") + 1
    assert names[-1] == "looks_late"
    (one,) = [step for step in steps(a_plan(looks=1), ASKED.shape, 4) if step.stage == "looks"]
    assert (one.name, one.cycles, repeated(one).cycles) == ("looks_early", 1, 3)
    request = json.loads(requests.measure(_place(), ASKED, []))
    (early,) = [step for step in request["steps"] if step["name"] == "looks_early"]
    assert early["ranks"]["arguments"][early["ranks"]["arguments"].index("-N") + 1] == "8"


@pytest.mark.parametrize(("active", "most"), [(0.3, 0.02), (0.2, 0.07), (0.5, 0.01)])
def test_in_a_small_simulation_an_intermittently_slow_link_seldom_passes(active, most):
    dice = random.Random(7)  # noqa: S311 - noise
    passed = sum(Course(active=active).run(dice) == "pass" for _ in range(400))
    assert passed / 400 <= most


def test_a_disturbed_healthy_fabric_is_seldom_refused_in_a_small_simulation():
    dice = random.Random(7)  # noqa: S311 - noise
    assert sum(Course(active=0.02).run(dice) != "pass" for _ in range(400)) <= 4


def _place():
    from measurement_line import place  # noqa: PLC0415

    return place()


def _built():
    from measurement_line import BUILT  # noqa: PLC0415

    return BUILT


def test_before_looks_are_kept_for_the_next_run_they_are_corrected_as_if_no_rank_had_waited_for_a_processor(
    tmp_path, monkeypatch
):
    """Slow looks of the first run may be excused because the machine was busy.

    Without the correction, these looks would give healthy hosts the verdict `short` in the second run.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    kept_looks.keep(
        "x", [{"looks_gb_s": [1.0, 2.0], "waited": 0.5}, {"looks_gb_s": [9.0], "waited": 1.0}, {"looks_gb_s": [4.0]}]
    )
    assert kept_looks.earlier("x") == [2.0, 4.0, 4.0]


def test_a_retest_adds_its_looks_to_those_that_the_runner_keeps_for_the_same_set_of_machines(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    request = protocol.request(json.loads(requests.measure(_place(), ASKED, [])))
    name = kept_looks.key(request, ["m1", "m2"])
    assert kept_looks.key(request, ["m2", "m1"]) == name
    assert kept_looks.key(request, ["m1", "m3"]) != name
    assert kept_looks.earlier(name) == []
    kept_looks.keep(name, [{"looks_gb_s": [1.0, 2.0]}, {"looks_gb_s": None}])
    kept_looks.keep(name, [{"looks_gb_s": [3.0]}], kept_looks.earlier(name))
    assert kept_looks.earlier(name) == [1.0, 2.0, 3.0]
    kept_looks.keep(name, [{"name": "rails"}])
    assert kept_looks.earlier(name) == [1.0, 2.0, 3.0]
    again = retest.steps_of(verdict(with_looks(1)), ASKED)
    longer = [step for step in request.steps if step.name in again]
    assert kept_looks.key(request._replace(steps=longer), ["m1", "m2"]) == name
