"""A step may be silent for at least as long as its ranks take to start, and for longer if its operations take longer."""

from __future__ import annotations

import dataclasses

import pytest
from measurement_line import GPU4, a_plan

from benchmarks.plan import steps
from benchmarks.plan.silence_limit import silence_s
from benchmarks.plan.steps import Step
from config.measure import Measure


def deciding(end_bytes: int) -> Step:
    plan = a_plan(end_bytes=end_bytes, iterations=20, warmup=5)
    return next(one for one in steps.steps(plan, GPU4, 2) if one.name == "all_reduce")


def test_runs_with_larger_messages_or_more_operations_or_more_nodes_may_be_silent_for_longer():
    step = deciding(8 << 30)
    least = silence_s(step, GPU4, 2)
    assert least > 120
    assert silence_s(dataclasses.replace(step, end_bytes=16 << 30), GPU4, 2) > least
    assert silence_s(dataclasses.replace(step, iterations=40), GPU4, 2) > least
    assert silence_s(step, GPU4, 64) > least + 30


def test_after_its_start_a_step_by_rail_may_be_silent_8_times_as_long_as_a_step_over_all_rails_if_a_node_has_8_gpus():
    step = deciding(8 << 30)
    whole, by_rail = (silence_s(dataclasses.replace(step, stage=stage), GPU4, 2) - 121 for stage in ("all", "rails"))
    assert by_rail == pytest.approx(8 * whole)


def test_a_short_step_may_be_silent_for_two_minutes_plus_half_a_second_for_each_node():
    assert silence_s(deciding(8), GPU4, 2) == pytest.approx(121, abs=0.5)
    assert silence_s(deciding(8), GPU4, 64) == pytest.approx(152, abs=2)


@pytest.mark.parametrize("nodes", [1, 2, 16])
def test_no_step_of_the_default_plan_may_be_silent_without_end(nodes):
    """A step without a limit of its own would use up the time of the steps after it."""
    for one in steps.steps(Measure(), GPU4, nodes):
        assert 120 < silence_s(one, GPU4, nodes) < 3600, one.name


def test_a_collective_without_a_prediction_has_the_silence_limit_of_a_collective_that_moves_as_many_bytes():
    by_name = {one.name: silence_s(one, GPU4, 2) for one in steps.steps(Measure(), GPU4, 2)}
    assert by_name["hypercube"] == by_name["alltoall"]
    inside = {one.name: silence_s(one, GPU4, 1) for one in steps.steps(Measure(), GPU4, 1)}
    assert inside["hypercube"] == inside["alltoall"] == inside["all_reduce"]


def test_eight_gib_over_tcp_at_a_hundredth_of_the_rails_rate_still_give_a_number():
    """At 200 GB/s an operation of 8 GiB on 16 ranks takes 81 ms; on a healthy fabric it is expected to take 87 ms.

    The limit allows 121 s for the start, and 150 times the expected time of 52 operations: 796 s in all.
    """
    (step,) = [
        one for one in steps.steps(a_plan(end_bytes=8 << 30, iterations=20, warmup=5), GPU4, 2) if one.name == "all_reduce"
    ]
    assert 100 * 52 * 0.0805 < silence_s(step, GPU4, 2) < 1000
