"""Faults during an update by the real engine: the update fails within its time limit and names the cause; nothing is lost.

Faults of a measurement are planted on running hosts, and removed again.
"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator

import pytest

from tools.interruption import console, runs_with, signal_operator, wait_for
from tools.stack_changes import DEFAULT, merged
from tools.stage import AGAIN, Stage, standing_hosts

pytestmark = [pytest.mark.rehearsal, pytest.mark.xdist_group("faults")]

#: A plan that measures for about 15 s at scale 4000, so that a test can interrupt the measurement in the middle.
LONG_PLAN = {"measure": {"sizes": {"from": "4M", "to": "8M", "othersTo": None}, "iterations": 8, "warmup": 1}}
#: ROW: a size with two spaces on each side, as in a row of LONG_PLAN's output. The header has one space beside this size.
#: DECIDING: the file that the deciding run writes; the gate applies to the deciding run.
ROW, DECIDING = "  4194304  ", "all_reduce.txt"
#: The rail that gets the faults: its index, and its device.
RAIL, HCA = 3, "mlx5_4"


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Iterator[tuple[Stage, dict]]:
    """Three hosts behind a jump host, each with four GPUs and four rails, and their settings.

    nccl-tests is built on the hosts, and nothing is measured yet. The command plugin is killed in the middle of the build, and
    the next update continues the build.
    """
    stage, settings = standing_hosts(tmp_path_factory.mktemp("three"), 3, "BM.GPU.GB200.4")
    settings |= {"records": {"history": None}}
    child = stage.begin(*stage.build_words(**settings))
    wait_for(stage, child, "building nccl-tests", set())
    signal_operator(stage, "command")
    found = stage.end(child)
    assert found.status != 0, found
    found = stage.build(**settings)
    assert found.status == 0, found
    yield stage, settings
    stage.close()


def test_every_node_that_cannot_be_used_is_named_with_its_own_reason(stage):
    stage.faults({"kind": "boot_fails", "host": 0}, {"kind": "never_answers", "host": 1})
    found = stage.up(measure={"readyTimeout": "40 s"})
    assert found.status != 0
    assert "2 of 2 nodes are not ready: inst-" in found.text
    assert "no answer on TCP port 22" in found.text
    assert "its first boot failed in step" in found.text or "cloud-init ended in error" in found.text


def test_a_slow_rail_on_one_of_three_hosts_is_named_with_its_evidence_and_the_next_command(three):
    """The engine is killed during the search for the rail; the next update finds the rail."""
    stage, settings = three
    stage.refault({"kind": "rail_rate", "host": 1, "rail": RAIL, "factor": 0.4})
    child = stage.begin(*stage.up_words(**settings))
    wait_for(stage, child, "search round 1", set())
    signal_operator(stage, "pulumi")
    assert stage.end(child).status != 0
    mended = stage.command("python3", "-m", "tools.repair_state", stage.stack)
    assert "the lock is lifted, because its owner is gone" in mended.text, mended
    found = stage.short_by("rail", **settings)
    assert found.status != 0
    outputs = stage.outputs()
    (culprit,) = outputs["measured"]["search"]["culprits"]
    assert (culprit["kind"], culprit["nodes"], culprit["rails"]) == ("rail", [outputs["nodes"][1]["name"]], [HCA])
    assert culprit["next"].startswith(f"ssh {outputs['nodes'][1]['address']} ")
    assert f"rail {HCA} of node {outputs['nodes'][1]['name']} is slow" in outputs["measured"]["reasons"][-1]
    assert "next, on the head node: ssh" in found.text
    shown = re.findall(r"gpu-2.*, (mlx5_\d): ([\d.e-]+) GB/s", stage.on_host(culprit["next"]))
    (blamed, slow_gb_s), (_, fine_gb_s) = shown
    assert blamed == HCA
    assert float(slow_gb_s) < 0.7 * float(fine_gb_s), "the suggested command measures that the rail is slow"


def test_the_other_machines_pass_after_the_documented_command_leaves_out_the_slow_machine(three):
    """The stack refuses to replace the machine, because it belongs to the user. The command removes it from the stack file."""
    stage, settings = three
    (name,) = stage.outputs()["measured"]["search"]["culprits"][0]["nodes"]
    refused = stage.replace(name)
    assert refused.status != 0
    assert f"{name} is yours, and the stack cannot replace it: repair it and measure again, or remove it" in refused.text
    stage.configure(**settings)
    done = stage.exclude(name)
    assert done.status == 0, done
    found = stage.again()
    if found.status != 0 and "verdict" in found.text:  # the rehearsing machine was busy
        found = stage.pass_by(**merged(settings, {"hosts": {"nodes": {name: DEFAULT}}, "measure": {"run": 11}}))
    assert found.status == 0, found
    outputs = stage.outputs()
    assert (outputs["measured"]["verdict"], len(outputs["nodes"])) == ("pass", 2)
    assert name not in {each["name"] for each in outputs["nodes"]}


def test_a_rail_that_was_slow_for_a_moment_passes_on_a_retest(three):
    stage, settings = three
    for run in (2, *AGAIN):
        stage.refault({"kind": "rail_rate", "host": 1, "rail": RAIL, "factor": 0.5})
        before = runs_with(stage, "(free)")
        child = stage.begin(*stage.up_words(**settings, measure={"run": run}))
        wait_for(stage, child, "(free)", before)  # the deciding run is over
        stage.refault()
        found = stage.end(child)
        # The test tries again only if the rehearsing machine was busy.
        # After a pass, a wire efficiency of at most 0.9 shows that the machine was busy.
        excused = stage.outputs()["measured"]["wire_efficiency"] <= 0.9 if found.status == 0 else stage.busy()
        if not excused:
            break
    assert found.status == 0, found
    measured = stage.outputs()["measured"]
    assert measured["wire_efficiency"] > 0.9
    (bandwidth,) = [one for one in measured["checks"] if one["name"] == "bandwidth"]
    assert "measured a second time; the first time: all_reduce reached" in bandwidth["why"][1]
    assert "bandwidth: measured a second time" in found.text


def test_a_fallback_of_nccl_to_tcp_gets_the_verdict_short_however_fast_the_run_is(three):
    stage, settings = three
    stage.refault(*({"kind": "tcp_fallback", "host": host} for host in range(3)))
    small = {"search": "0 s", "sizes": {"from": "512K", "to": "1M"}, "iterations": 1, "warmup": 0}
    found = stage.up(**settings, measure=small | {"run": 3})
    stage.refault()
    assert found.status != 0
    measured = stage.outputs()["measured"]
    assert measured["verdict"] == "short"
    assert any("so NCCL used " in reason for reason in measured["reasons"])


def test_wrong_values_are_counted_and_a_port_at_half_its_rate_is_named_before_any_search(three):
    stage, settings = three
    stage.refault({"kind": "wrong_values", "host": 1}, {"kind": "port_degraded", "host": 1, "rail": RAIL, "gbit_s": 50})
    found = stage.up(**settings, measure={"search": "0 s", "run": 4})
    stage.refault()
    assert found.status != 0
    outputs = stage.outputs()
    reasons = outputs["measured"]["reasons"]
    assert outputs["measured"]["verdict"] == "short"
    assert any("elements arrived with wrong values" in reason for reason in reasons)
    assert any(f"{outputs['nodes'][1]['name']}: {HCA} has link rate 50 Gb/sec" in reason for reason in reasons)


def test_ctrl_c_and_then_a_closed_terminal_in_the_middle_of_a_measurement_lose_nothing(three):
    stage, settings = three
    before = runs_with(stage, "measuring:")
    child = stage.begin(*stage.up_words(**settings, **merged(LONG_PLAN, {"measure": {"run": 5}})))
    wait_for(stage, child, "measuring:", before)
    os.killpg(child.pid, signal.SIGINT)
    found = stage.end(child)
    assert found.status != 0
    interrupted = time.time()
    # If the engine's terminal is closed, the engine exits at once, and its lock remains.
    child = stage.begin(*stage.up_words(**settings, **merged(LONG_PLAN, {"measure": {"run": 5}})))
    while not (locks := list((stage.folder / "state").rglob(f"locks/organization/*/{stage.stack}/*.json"))):
        assert child.poll() is None, stage.end(child)
        time.sleep(0.1)
    os.killpg(child.pid, signal.SIGHUP)
    assert stage.end(child).status != 0
    assert locks[0].exists()
    mended = stage.command("python3", "-m", "tools.repair_state", stage.stack)
    assert re.fullmatch(r"busbar: the lock is lifted, because its owner is gone: process \d+ of .*\n", mended.text), mended
    found = stage.measure(**settings, **merged(LONG_PLAN, {"measure": {"run": 5}}))
    assert found.status == 0, found
    assert started(stage) < interrupted
    assert stage.ran()


def test_a_lost_connection_during_a_measurement_does_not_lose_the_measurement(three):
    stage, settings = three
    before = runs_with(stage, "measuring:")
    child = stage.begin(*stage.up_words(**settings, **merged(LONG_PLAN, {"measure": {"run": 6}})))
    wait_for(stage, child, "measuring:", before)
    cut = stage.inside("ss", "--kill", "-t", "dst", "203.0.113.0/24")
    assert cut.status == 0, cut
    found = stage.end(child)
    interrupted = time.time()
    if found.status != 0:
        found = stage.measure(**settings, **merged(LONG_PLAN, {"measure": {"run": 6}}))
    assert found.status == 0, found
    assert started(stage) < interrupted
    assert stage.ran()


def test_a_refusal_by_the_head_node_is_an_output_and_the_next_update_tries_again(three):
    stage, settings = three
    pid = int(console(stage, "gpu-2", "pgrep -o -x sshd").stdout)
    busy = f"the GPUs are in use, so nothing was started: gpu-2: process {pid} (python3) of root computes on a GPU"
    passed = stage.outputs()["measured"]["run"]
    stage.refault({"kind": "gpu_busy", "host": 1, "pid": pid})
    found = stage.up(**settings, measure={"run": 9})
    stage.refault()
    assert found.status != 0
    assert f"verdict UNKNOWN: no bus bandwidth was measured; {busy}" in found.text
    assert "an update without changes tries again on the head node" in found.text
    busied = stage.outputs()["measured"]
    assert (busied["verdict"], busied["reasons"], busied["attempt"]) == ("unknown", [busy], 0)
    assert busied["run"] != passed
    # The same request is sent to a head node whose disk is full.
    runs = console(stage, "gpu-1", "echo /home/*/.busbar/runs").stdout.strip()
    console(stage, "gpu-1", f"mount -t tmpfs -o size=4k,mode=777 full {runs} && head -c 8k /dev/zero > {runs}/all")
    found = stage.up(**settings, measure={"run": 9})
    console(stage, "gpu-1", f"umount {runs}")
    assert found.status != 0
    full = stage.outputs()["measured"]
    assert (full["verdict"], full["attempt"], full["asked"]) == ("unknown", 1, busied["asked"])
    assert "No space left on device" in full["reasons"][0]


def kill(stage: Stage, how: str) -> None:
    """Send a signal to one rank on gpu-2; `how` is the name of the signal."""
    sent = console(stage, "gpu-2", f"kill -{how} $(pgrep -o -x all_reduce_perf)")
    assert sent.returncode == 0, sent


@pytest.mark.parametrize(
    ("run", "happens", "says"),
    [
        (
            10,
            lambda stage: kill(stage, "KILL"),
            r"the run all_reduce exited with status \d+: .*process rank \d+ with PID \d+ on node \S+ exited on signal 9",
        ),
        (
            11,
            lambda stage: kill(stage, "STOP"),
            r"the run all_reduce was stopped after \d+ s with \d+ rows done.*gpu-2: rank \d+ \(process \d+\) is stopped",
        ),
        (
            12,
            lambda stage: stage.refault({"kind": "rail_dead", "host": 1, "rail": RAIL}),
            rf"the run all_reduce .*; gpu-2: rail {HCA} was active before the run and is not active any more",
        ),
    ],
    ids=["a rank is killed", "a rank is stopped", "a link is cut"],
)
def test_a_run_that_breaks_or_hangs_is_reported_with_its_cause_and_its_transcript_is_kept(three, run, happens, says):
    stage, settings = three
    asked = merged(LONG_PLAN, {"measure": {"run": run, "search": "0 s", "timeout": "40 s"}})
    before = runs_with(stage, ROW, DECIDING)
    child = stage.begin(*stage.up_words(**settings, **asked))
    wait_for(stage, child, ROW, before, DECIDING)
    happens(stage)
    found = stage.end(child)
    stage.refault()
    assert found.status != 0
    measured = stage.outputs()["measured"]
    assert measured["verdict"] == "unknown", found
    assert re.search(says, " ".join(measured["reasons"])), measured["reasons"]
    assert measured["evidence"], "the transcript is kept"


def started(stage) -> float:
    """Return the start of the measurement in the stack's state, in seconds since the epoch."""
    for resource in stage.resources():
        if resource["urn"].endswith("::acceptance-measure"):
            text = json.loads(resource["outputs"]["stdout"])["started"]
            return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%SZ")) - time.timezone
    raise AssertionError("no measurement in the state")
