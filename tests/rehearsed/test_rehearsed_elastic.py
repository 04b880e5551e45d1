"""The programs that start and terminate nodes, with the real slurmctld and slurmd: no fault leaves a billed machine behind."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from elastic_session import facts as session

pytestmark = [pytest.mark.rehearsal, pytest.mark.on_demand, pytest.mark.xdist_group("elastic")]

#: The parts of each session. Each session has its own Slurm cluster; sessions mostly wait, so they run at the same time.
SESSIONS = (
    ("a_whole_cycle", "a_death_in_a_job", "a_test_before_the_first_job"),
    ("no_capacity", "the_head_reboots_while_nodes_start", "sixty_four"),
    ("nodes_by_ssh", "never_reached", "two_always_run"),
    ("nodes_of_a_job_near_each_other", "capacity_that_begins_and_expires"),
)


@pytest.fixture(scope="module")
def facts() -> dict[str, dict[str, Any]]:
    """Return the facts of each part of the sessions, by the part's name."""
    with ThreadPoolExecutor(len(SESSIONS)) as pool:
        return {part: seen for found in pool.map(lambda parts: session(*parts), SESSIONS) for part, seen in found.items()}


def test_nodes_start_for_a_job_and_run_the_job_and_are_terminated_when_they_are_idle(facts):
    cycle = facts["a_whole_cycle"]
    assert cycle["ran"] == [f"gpu-dy-p5-{number}" for number in range(1, 5)]
    assert (cycle["started"], cycle["launches"]) == (4, 1)
    assert (cycle["left"], cycle["waiting"]) == (0, 0)


def test_always_on_nodes_start_without_a_job_then_stay_when_idle_and_get_a_new_machine_if_one_dies(facts):
    out = facts["two_always_run"]
    assert (out["started"], out["idle_ended"], out["repaired"]) == (2, 0, 3), out["said"]


def test_machines_are_tested_before_the_first_job_and_the_job_is_queued_again_if_a_machine_fails(facts):
    out = facts["a_test_before_the_first_job"]
    assert (out["meanwhile"], out["started"], out["tested"]) == ("CONFIGURING", 0, 2)
    assert f"entry test: 6 GB/s with gpu-dy-p5-9, 20 wanted|{out['bad']}" in out["reasons"]
    assert (out["ran"], len(out["again"])) == (2, 2)
    assert out["bad"] not in out["again"], "the node stays down until the pause ends"
    assert "Comment=entry test: 24 GB/s with gpu-dy-p5-9" in out["shown"]


def test_a_job_without_capacity_waits_with_the_reason_in_sinfo_and_runs_when_there_is_capacity_again(facts):
    out = facts["no_capacity"]
    assert all(reason.startswith("InsufficientInstanceCapacity: there is no capacity") for reason in out["reasons"])
    assert (out["launches_then"], out["running"]) == (1, 0)
    assert out["ran_after_all"] == 2


def test_when_the_cloud_terminates_a_jobs_machine_sinfo_shows_the_clouds_reason(facts):
    assert "Server.SpotInstanceTermination" in facts["a_death_in_a_job"]["reason"]


def test_an_update_may_remove_running_nodes_that_are_idle_but_not_nodes_on_which_a_job_runs(facts):
    assert facts["a_whole_cycle"]["refused"] == ""
    said = facts["a_death_in_a_job"]["refused"]
    assert "the stack file no longer has these nodes, on which jobs run: gpu-dy-p5-2." in said


def test_a_controller_that_reboots_right_after_a_launch_request_launches_nothing_twice(facts):
    out = facts["the_head_reboots_while_nodes_start"]
    assert (out["killed_after"], out["started"]) == ("launch", 2)
    assert (out["ran"], out["machines"]) == (["gpu-dy-p5-1", "gpu-dy-p5-2"], 2)


def test_machines_that_are_never_reached_are_terminated_and_sinfo_shows_the_last_error(facts):
    assert "was not ready within 120 s: Connection refused" in facts["never_reached"]["unreached"]


def test_machines_join_over_ssh_under_the_names_of_their_nodes_and_with_pinned_host_keys(facts):
    out = facts["nodes_by_ssh"]
    assert out["ran"] == ["gpu-dy-p5-1", "gpu-dy-p5-2"]
    assert len(out["machines"]) == 2
    assert set(out["machines"]) <= set(out["pinned"])


def test_64_nodes_are_launched_with_one_call_and_terminated_with_at_most_four_calls(facts):
    many = facts["sixty_four"]
    assert (many["ran"], many["launches"], many["left"]) == (64, 1, 0)
    assert many["terminates"] <= 4
    assert many["resume_s"] <= 10


def test_jobs_get_nodes_below_one_switch_if_the_cloud_has_such_nodes(facts):
    out = facts["nodes_of_a_job_near_each_other"]
    assert out["pairs"] == [["gpu-dy-p5-1", "gpu-dy-p5-3"], ["gpu-dy-p5-2", "gpu-dy-p5-4"]]
    assert sorted(out["ran"]) == out["pairs"]
    assert out["switches"] == [
        ["SwitchName=cluster-gpu-p5-dynamic", "Nodes=gpu-dy-p5-[5-64]"],
        ["SwitchName=cluster-nn_0-nn_a-nodes", "Nodes=gpu-dy-p5-[1,3]"],
        ["SwitchName=cluster-nn_0-nn_b-nodes", "Nodes=gpu-dy-p5-[2,4]"],
    ]


def test_jobs_wait_for_a_capacity_block_whose_node_set_is_down_with_the_reason_until_the_block_is_active(facts):
    out = facts["capacity_that_begins_and_expires"]
    assert (out["waits"], out["down"], out["launches"]) == ("PENDING", ["down~"], 0)
    assert out["after_reboot"] == ["Capacity Block cr-1 begins at 2026-12-01T11:30:00.000Z"]
    assert out["ran"] == 2
