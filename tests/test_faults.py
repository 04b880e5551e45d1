"""Things that go wrong, through the real engine: the update fails within its bound and names the cause; nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from rehearsal.host import cables, hosts, spec
from rehearsal.world.world import World

pytestmark = pytest.mark.rehearsal

#: Long enough to be caught in the middle: about 20 s of measuring at 1/4000.
LONG_PLAN = {"measure": {"sizes": {"from": "4M", "to": "8M", "othersTo": None}, "iterations": 12, "warmup": 1}}


def wait_for(stage, child, text: str, timeout_s: float = 150) -> None:
    """Wait until the runner's own progress on the head shows `text`; the engine's screen comes late through a pipe."""
    world = World.at(stage.world)
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        assert child.poll() is None, stage.end(child)
        for host in stage.world.glob("hosts/*/pid"):
            found = hosts.enter(world, host.parent.name, ["sh", "-c", "cat /home/*/.busbar/runs/*/progress.log"])
            if text in found.stdout:
                return
        time.sleep(0.5)
    raise AssertionError(f"{text!r} was not seen within {timeout_s} s")


def test_a_host_that_never_answers_is_named_when_the_bound_has_passed(stage):
    stage.faults({"kind": "never_answers", "host": 1})
    found = stage.up(measure={"readyTimeout": "1 min"})
    assert found.status != 0
    assert "1 of 2 nodes are not ready: inst-" in found.text
    assert "no answer on TCP port 22" in found.text


def test_a_failed_first_boot_is_named_with_its_step_at_once(stage):
    stage.faults({"kind": "boot_fails", "host": 0})
    found = stage.up(measure={"readyTimeout": "3 min"})
    assert found.status != 0
    assert "1 of 2 nodes are not ready: inst-" in found.text
    assert "its first boot failed in step" in found.text or "cloud-init ended in error" in found.text


def test_a_private_subnet_that_takes_ssh_alone_fails_with_the_missing_rule_named(stage):
    found = stage.up(oci={"network": {"ingress": "ssh"}})
    assert found.status != 0
    assert "cannot reach inst-" in found.text
    assert "must allow all protocols from the nodes' network" in found.text
    # With the rule in place the next update goes on where this one ended.
    found = stage.up()
    assert found.status == 0, found


def test_one_rail_at_half_rate_is_short_with_every_output_present(stage):
    stage.faults({"kind": "rail_rate", "host": 1, "rail": 3, "factor": 0.5})
    found = stage.up()
    assert found.status != 0
    assert "verdict SHORT" in found.text
    outputs = stage.outputs()
    schema = json.loads((stage.folder.cwd() / "docs" / "outputs.schema.json").read_text())
    assert set(schema["required"]) <= set(outputs)
    assert outputs["measured"]["verdict"] == "short"
    assert outputs["measured"]["wire_efficiency"] == pytest.approx(0.5, abs=0.05)
    assert outputs["measured"]["reasons"][0].startswith("all_reduce reached")
    # The measurement stands; only the acceptance is asked again, and it may not pass on the old number.
    again = stage.up()
    assert again.status != 0
    assert stage.outputs()["measured"]["evidence"] == outputs["measured"]["evidence"]


def test_a_rail_that_was_slow_for_a_moment_is_a_pass_at_second_sight(stage):
    stage.faults({"kind": "rail_rate", "host": 1, "rail": 3, "factor": 0.5})
    child = stage.begin(*stage.up_words())
    wait_for(stage, child, "(free)")  # the deciding run is over
    stage.faults()
    world = World.at(stage.world)
    for host in stage.world.glob("hosts/*/spec.json"):
        cables.refault(world, spec.load(world, host.parent.name))
    found = stage.end(child)
    assert found.status == 0, found
    outputs = stage.outputs()
    assert outputs["measured"]["wire_efficiency"] > 0.9
    (bandwidth,) = [one for one in outputs["measured"]["checks"] if one["name"] == "bandwidth"]
    assert "measured a second time; the first time: all_reduce reached" in bandwidth["why"][1]
    assert "bandwidth: measured a second time" in found.text


def test_a_slow_rail_of_three_hosts_is_named_with_its_evidence_and_the_next_command(stage):
    stage.faults({"kind": "rail_rate", "host": 1, "rail": 3, "factor": 0.4})
    found = stage.up(oci={"pools": [{"nodes": 3}]})
    assert found.status != 0
    outputs = stage.outputs()
    (culprit,) = outputs["measured"]["search"]["culprits"]
    assert (culprit["kind"], culprit["nodes"], culprit["rails"]) == ("rail", [outputs["nodes"][1]["name"]], ["mlx5_3"])
    assert culprit["next"].startswith(f"ssh {outputs['nodes'][1]['address']} ")
    assert f"rail mlx5_3 of node {outputs['nodes'][1]['name']} is slow" in outputs["measured"]["reasons"][-1]
    assert "next, on the head: ssh" in found.text


def test_nccl_that_falls_back_to_tcp_is_short_however_fast_that_is(stage):
    stage.faults({"kind": "tcp_fallback", "host": 0}, {"kind": "tcp_fallback", "host": 1})
    found = stage.up(measure={"search": "0 s", "sizes": {"from": "512K", "to": "1M"}, "iterations": 1, "warmup": 0})
    assert found.status != 0
    outputs = stage.outputs()
    assert outputs["measured"]["verdict"] == "short"
    assert any("so NCCL went over it" in reason for reason in outputs["measured"]["reasons"])


def test_wrong_values_are_short_and_counted(stage):
    stage.faults({"kind": "wrong_values", "host": 1})
    found = stage.up(measure={"search": "0 s"})
    assert found.status != 0
    outputs = stage.outputs()
    assert outputs["measured"]["verdict"] == "short"
    assert any("elements arrived with wrong values" in reason for reason in outputs["measured"]["reasons"])


def test_a_port_that_came_up_at_half_its_rate_is_named_before_any_search(stage):
    stage.faults({"kind": "port_degraded", "host": 1, "rail": 2, "gbit_s": 50})
    found = stage.up(measure={"search": "0 s"})
    assert found.status != 0
    outputs = stage.outputs()
    assert f"{outputs['nodes'][1]['name']}: mlx5_2 has link rate 50 Gb/sec" in outputs["measured"]["reasons"][0]


def test_ctrl_c_in_the_middle_of_a_measurement_loses_nothing(stage):
    child = stage.begin(*stage.up_words(**LONG_PLAN))
    wait_for(stage, child, "measuring:")
    os.killpg(child.pid, signal.SIGINT)
    found = stage.end(child)
    assert found.status != 0
    interrupted = time.time()
    found = stage.up(**LONG_PLAN)
    assert found.status == 0, found
    assert started(stage) < interrupted


def test_a_cut_connection_in_the_middle_of_a_measurement_loses_nothing(stage):
    child = stage.begin(*stage.up_words(**LONG_PLAN))
    wait_for(stage, child, "measuring:")
    cut = stage.inside("ss", "--kill", "-t", "dst", "203.0.113.0/24")
    assert cut.status == 0, cut
    found = stage.end(child)
    interrupted = time.time()
    if found.status != 0:
        found = stage.up(**LONG_PLAN)
    assert found.status == 0, found
    assert started(stage) < interrupted


def started(stage) -> float:
    """Return when the measurement in the state began, seconds since the epoch."""
    for resource in stage.resources():
        if resource["urn"].endswith("::acceptance-measure"):
            text = json.loads(resource["outputs"]["stdout"])["started"]
            return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    raise AssertionError("no measurement in the state")


def test_capacity_that_runs_out_half_way_is_an_error_and_nothing_stays_unseen(stage):
    stage.faults({"kind": "capacity", "after": 1})
    found = stage.up()
    assert found.status != 0
    assert "Out of host capacity" in found.text
    stage.faults()
    found = stage.destroy()
    assert found.status == 0, found
    assert not list((stage.world / "hosts").glob("*"))


def test_a_crash_of_the_stand_in_cloud_still_lets_everything_be_destroyed(stage):
    stage.faults({"kind": "crash", "operation": "CreateClusterNetwork"})
    found = stage.up()
    assert found.status != 0
    stage.faults()
    found = stage.destroy()
    assert found.status == 0, found
    assert stage.command("pgrep", "-f", str(stage.world)).status != 0
