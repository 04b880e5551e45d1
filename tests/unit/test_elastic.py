"""Machines that Slurm starts and stops: requests to the cloud, reports to Slurm, and faults.

No fault may leave a billed machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from elastic import Controller, KilledError

from scheduler.elastic import spool, sweep
from scheduler.elastic.cloud import CapacityError, CloudError, Machine
from scheduler.elastic.slurm import NodeState, read
from scheduler.elastic.state import State, UnreadableError, only_one
from scheduler.elastic.work import PAUSE_S

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")


@pytest.fixture
def head(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


def test_the_machines_of_a_job_are_launched_with_one_call_and_become_nodes(head):
    head.slurm.start(("7", head.nodes(4)))
    head.run()
    assert head.cloud.calls.count("launch") == 1
    assert sorted(head.joined) == head.nodes(4)
    assert len(head.cloud.running) == 4
    assert not list(head.spool.iterdir())


def test_idle_nodes_are_terminated_with_one_call_and_can_start_again(head):
    head.slurm.start(("7", head.nodes(4)))
    head.run()
    assert "10.0.0.2 gpu-dy-p5-2 # a node of busbar" in head.hosts.read_text()
    head.slurm.idle(*head.nodes(3))
    state = head.run(3)
    assert head.hosts.read_text() == "127.0.0.1 localhost\n10.0.0.4 gpu-dy-p5-4 # a node of busbar\n"
    assert head.cloud.calls.count("terminate") == 1
    assert head.cloud.running == ["i-0004"]
    assert not state.ending
    head.slurm.start(("8", head.nodes(2)))
    head.run()
    assert len(head.cloud.running) == 3


def test_on_a_full_disk_no_machine_starts_but_idle_machines_end_and_the_job_starts_when_there_is_room(head, monkeypatch):
    head.slurm.start(("7", head.nodes(2)))
    head.run(2)
    head.slurm.idle(head.nodes(1)[0])
    head.slurm.start(("8", head.nodes(2, first=3)))

    def full(_: State) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(State, "save", full)
        head.run(2)
    assert len(head.cloud.running) == 1, "the idle node's machine has ended, and none was started"
    assert any("the state could not be saved, so no machine is started" in line for line in head.said)
    head.run(3)
    assert len(head.cloud.running) == 3


def test_64_nodes_need_as_many_calls_as_4_nodes(tmp_path):
    calls = []
    for size in (4, 64):
        (tmp_path / str(size)).mkdir()
        head = Controller(tmp_path / str(size), size)
        head.slurm.start(("7", head.nodes(size)))
        head.run(2)
        assert len(head.joined) == size
        head.slurm.idle(*head.nodes(size))
        head.run(3)
        assert not head.cloud.running
        calls.append(head.cloud.calls)
    assert calls[0] == calls[1] == ["launch", "list", "list", "terminate", "list"]


def test_64_jobs_of_one_node_start_with_one_call(tmp_path):
    head = Controller(tmp_path, 64)
    head.slurm.start(*((str(number), [node]) for number, node in enumerate(head.nodes(64))))
    head.run()
    assert head.cloud.calls.count("launch") == 1
    assert len(head.joined) == 64


def test_jobs_of_several_nodes_are_launched_separately_so_a_job_without_capacity_does_not_stop_the_other_job(head):
    head.cloud.room = 3
    head.slurm.start(("7", head.nodes(2)), ("8", head.nodes(4, first=3)))
    head.run(2)
    assert sorted(head.joined) == head.nodes(2)
    assert len(head.cloud.running) == 2
    assert set(head.slurm.reasons()) == set(head.nodes(6, first=3))


def test_the_nodes_of_a_set_without_capacity_are_down_for_600_s_and_show_the_reason(head):
    head.cloud.room = 0
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    (reason,) = set(head.slurm.reasons().values())
    assert reason.startswith("InsufficientInstanceCapacity: there is no capacity in this zone; not tried again before ")
    assert set(head.slurm.reasons()) == set(head.nodes(8))
    assert PAUSE_S == 600
    head.run(1, seconds=PAUSE_S - 10)
    assert set(head.slurm.reasons()) == set(head.nodes(8))
    assert head.cloud.calls.count("launch") == 1
    head.run(1, seconds=20)
    assert not head.slurm.reasons()
    head.cloud.room = 10
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    assert sorted(head.joined) == head.nodes(2)


def test_a_paused_set_affects_neither_the_other_set_nor_its_own_running_nodes(head):
    head.slurm.start(("6", head.nodes(1)))
    head.run()
    head.cloud.room = 0
    head.slurm.start(("7", head.nodes(2, first=2)))
    head.run()
    head.cloud.room = 10
    head.slurm.start(("8", head.nodes(2, "p4")))
    head.run()
    assert set(head.slurm.reasons()) == set(head.nodes(7, first=2))
    assert head.nodes(1)[0] in head.state().batch_of(head.nodes(1)[0]).joined
    assert len(head.cloud.running) == 3


def test_a_job_over_two_sets_keeps_no_machine_if_the_cloud_has_too_few_machines(head):
    head.cloud.room = 3
    head.slurm.start(("7", [*head.nodes(2), *head.nodes(2, "p4")]))
    head.run(3)
    assert not head.cloud.running
    assert set(head.slurm.reasons()) >= {*head.nodes(2), *head.nodes(2, "p4")}


def test_machines_of_an_incomplete_launch_are_terminated(head):
    head.cloud.room, head.cloud.partial = 2, True
    head.slurm.start(("7", head.nodes(4)))
    head.run(3)
    assert head.cloud.started == 2
    assert not head.cloud.running
    assert "2 of 4 machines were not started" in head.slurm.reasons()[head.nodes(1)[0]]


def test_jobs_of_one_node_get_as_many_machines_as_the_cloud_has(head):
    head.cloud.room = 2
    head.slurm.start(*((str(number), [node]) for number, node in enumerate(head.nodes(4))))
    head.run(2)
    assert sorted(head.joined) == head.nodes(2)
    assert set(head.slurm.reasons()) == set(head.nodes(6, first=3))


def test_a_throttled_launch_is_tried_again_with_the_same_token(head):
    head.cloud.busy = 2
    head.slurm.start(("7", head.nodes(2)))
    state = head.run(1)
    (batch,) = state.batches.values()
    assert (batch.attempts, batch.launched_at) == (1, None)
    head.run(20)
    assert sorted(head.joined) == head.nodes(2)
    assert len(head.cloud.launched) == 1
    assert not head.slurm.reasons()


def test_a_launch_that_the_cloud_never_accepts_fails_with_the_clouds_last_error(head):
    head.cloud.busy = 10**9
    head.slurm.start(("7", head.nodes(2)))
    head.run(40, seconds=60)
    assert head.slurm.reasons()[head.nodes(1)[0]].startswith(
        "the cloud did not start the machines within 1800 s: RequestLimitExceeded: "
    )
    assert not head.state().batches


def test_a_call_that_the_cloud_does_not_permit_is_not_repeated(head):
    head.cloud.refuses = CloudError("UnauthorizedOperation", "You are not authorized to perform this operation.")
    head.slurm.start(("7", head.nodes(2)))
    head.run(5)
    assert head.cloud.calls.count("launch") == 1
    assert head.slurm.reasons()[head.nodes(1)[0]].startswith("UnauthorizedOperation: You are not authorized")


def test_a_job_fails_if_the_cloud_reports_later_that_the_launch_has_failed(head):
    head.slurm.start(("7", head.nodes(2)))
    head.silent = set(head.nodes(2))
    state = head.run()
    head.cloud.failed = {next(iter(state.batches)): CapacityError("Out of host capacity", "no such shapes here")}
    head.run(2)
    assert not head.cloud.running
    assert head.slurm.reasons()[head.nodes(1)[0]].startswith("Out of host capacity: no such shapes here")


def test_a_node_that_dies_in_a_job_is_down_with_the_clouds_reason_and_then_usable_again(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.cloud.die("i-0001", "Server.SpotInstanceTermination: Spot instance termination")
    head.run(1, seconds=61)
    assert head.slurm.reasons() == {
        head.nodes(1)[0]: "machine i-0001 has ended: Server.SpotInstanceTermination: Spot instance termination"
    }
    head.run(3, seconds=61)
    assert not head.slurm.reasons()
    assert head.slurm.dismissed == head.nodes(1)
    assert head.cloud.running == ["i-0002"]
    head.slurm.start(("8", head.nodes(1)))
    head.run()
    assert len(head.cloud.running) == 2


def test_a_new_machine_that_is_not_listed_yet_is_not_given_up(head):
    head.cloud.unlisted = True
    head.slurm.start(("7", head.nodes(2)))
    head.run(3)
    assert not head.slurm.reasons()
    head.cloud.unlisted = False
    head.run()
    assert sorted(head.joined) == head.nodes(2)


def test_a_machine_that_is_missing_from_one_listing_is_not_given_up(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.cloud.unlisted = True
    head.run(1, seconds=600)
    head.cloud.unlisted = False
    head.run(3)
    assert len(head.cloud.running) == 2
    assert not head.slurm.reasons()


def test_a_machine_that_is_not_listed_in_time_is_given_up_and_is_terminated_when_it_appears(head):
    head.slurm.start(("7", head.nodes(2)))
    head.cloud.unlisted = True
    head.run(30)
    assert "the cloud does not list it as running any more" in head.slurm.reasons()[head.nodes(1)[0]]
    head.cloud.unlisted = False
    head.run(2, seconds=61)
    assert not head.cloud.running


def test_one_machine_runs_while_another_that_is_never_reached_fails_with_the_last_answer_as_reason(head):
    head.silent = set(head.nodes(1))
    head.slurm.start(("7", head.nodes(2)))
    head.run(40, seconds=60)
    assert head.cloud.running == ["i-0002"]
    assert head.slurm.reasons() == {head.nodes(1)[0]: "its machine was not ready within 1800 s: Connection refused"}


def test_the_machine_of_a_node_that_slurm_gave_up_during_its_start_is_terminated(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    spool.write(str(head.spool), spool.FAILED, [spool.Group("", (head.nodes(1)[0],))])
    head.run(3)
    assert head.cloud.running == ["i-0002"]
    assert "slurmd did not answer" in head.slurm.reasons()[head.nodes(1)[0]]


def test_a_machine_that_belongs_to_no_node_is_terminated(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    (head.folder / "state.json").unlink()
    head.run(2)
    assert not head.cloud.running


def test_a_node_that_slurm_has_powered_down_loses_its_machine(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.slurm.resume(head.nodes(1))
    head.run(2)
    assert head.cloud.running == ["i-0002"]


def test_the_machine_of_a_node_that_slurm_marks_as_down_is_terminated(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.slurm.down(head.nodes(1), "Not responding")
    head.run(3)
    assert head.cloud.running == ["i-0002"]
    assert not head.slurm.reasons()


def test_the_cloud_is_told_which_launches_still_have_nodes_when_machines_are_terminated(head):
    head.slurm.start(("7", head.nodes(2)), ("8", head.nodes(2, first=3)))
    head.run(2)
    eight = list(head.cloud.launched)[1]
    head.slurm.idle(*head.nodes(3))
    head.run(2)
    assert head.cloud.wanted == {eight}
    assert len(head.cloud.running) == 1


def test_a_node_that_a_person_drained_keeps_its_machine(head):
    head.slurm.start(("7", head.nodes(1)))
    head.run()
    node = head.nodes(1)[0]
    head.slurm.nodes[node] = head.slurm.nodes[node]._replace(flags=frozenset(("DOWN", "DRAIN", "CLOUD")), reason="cable")
    head.run(3)
    assert head.cloud.running == ["i-0001"]


def test_no_machine_is_given_up_while_the_cloud_does_not_answer(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.cloud.busy = 10**9
    head.run(3, seconds=100)
    assert len(head.cloud.running) == 2
    assert not head.slurm.reasons()


def test_machines_that_could_not_be_terminated_are_terminated_later(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.cloud.busy = 2
    head.slurm.idle(*head.nodes(2))
    head.run()
    assert len(head.cloud.running) == 2
    head.run(3)
    assert not head.cloud.running


STATIC = "gpu-st-p5-1"


def test_slurmd_of_a_static_node_that_does_not_respond_is_started_again(head):
    head.slurm.nodes[STATIC] = NodeState(frozenset(("DOWN",)), "Not responding")
    head.run(3)
    assert head.joined == [STATIC], "slurmd is started once a minute"
    assert STATIC in head.slurm.reasons(), "Slurm itself returns the node to service when slurmd answers"
    head.run(1, seconds=60)
    assert head.joined == [STATIC] * 2


def test_a_static_node_that_is_not_reached_shows_the_reason_until_the_node_is_reached(head):
    head.slurm.nodes[STATIC] = NodeState(frozenset(("DOWN",)), "Not responding")
    head.silent = {STATIC}
    head.run()
    assert head.slurm.reasons() == {STATIC: "Not responding, and not reached: Connection refused"}
    head.silent = set()
    head.run(1, seconds=60)
    assert head.joined == [STATIC]
    assert not head.slurm.reasons()


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("DOWN",), "Node unexpectedly rebooted"),
        (("DOWN", "DRAIN"), "Not responding"),
        (("IDLE", "DRAIN"), "cable"),
    ],
)
def test_a_static_node_that_is_drained_or_has_rebooted_unexpectedly_is_not_changed(head, flags, reason):
    head.slurm.nodes[STATIC] = NodeState(frozenset(flags), reason)
    head.run(2)
    assert not head.joined
    assert head.slurm.reasons() == {STATIC: reason}


def story(head: Controller) -> Iterator[None]:
    """A job starts two nodes, another job fails for lack of capacity, and the first job's nodes are terminated."""
    head.cloud.room = 3
    head.slurm.start(("7", head.nodes(2)))
    head.slurm.start(("8", head.nodes(2, "p4")))
    for _ in range(3):
        yield
    head.slurm.idle(*head.nodes(2))
    for _ in range(4):
        yield


def play(head: Controller) -> int:
    """Play the story; after a run that is killed, run again. Return the number of steps."""
    for _ in story(head):
        try:
            head.run()
        except KilledError:
            head.run()
    return head.steps.at


def at_each_step(folder: Path) -> Iterator[Controller]:
    """Yield two controllers for every step of the story: one is killed before the step, the other after the step."""
    (folder / "whole").mkdir()
    steps = play(Controller(folder / "whole"))
    for step in range(1, steps + 1):
        for after in (False, True):
            (folder / f"{step}-{after}").mkdir()
            head = Controller(folder / f"{step}-{after}")
            head.steps.kill_at, head.steps.after = step, after
            yield head
    assert steps > 30


def test_a_run_that_is_killed_at_any_step_is_continued_by_the_next_run(tmp_path):
    for head in at_each_step(tmp_path):
        play(head)
        where = head.folder.name
        assert head.cloud.started == 2, f"{where}: machines were started twice, or not at all"
        assert sorted(set(head.joined)) == head.nodes(2), where
        assert not head.cloud.running, where
        assert set(head.slurm.reasons()) == set(head.nodes(8, "p4")), where
        assert all("InsufficientInstanceCapacity" in reason for reason in head.slurm.reasons().values()), where


def test_the_lock_is_released_when_its_holder_is_killed(tmp_path):
    path = str(tmp_path / "lock")
    program = f"import os, sys; sys.path.insert(0, {str(Path.cwd())!r})\nfrom scheduler.elastic.state import only_one\n"
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{program}with only_one({path!r}) as mine:\n print(mine, flush=True)\n sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "True\n"
    with only_one(path) as mine:
        assert not mine, "two runs hold the lock at once"
    holder.kill()
    holder.wait()
    assert Path(path).read_text() == f"{holder.pid}\n"
    with only_one(path) as mine:
        assert mine, "the lock of a killed run is free"


def test_a_half_written_request_is_not_read_and_requests_are_read_in_order(tmp_path):
    (tmp_path / ".00000-1.json").write_text('{"kind": ')
    spool.write(str(tmp_path), spool.RESUME, [spool.Group("1", ("a-dy-b-1",))])
    spool.write(str(tmp_path), spool.SUSPEND, [spool.Group("", ("a-dy-b-1",))])
    assert [wish.kind for wish in spool.read(str(tmp_path))] == ["resume", "suspend"]


def test_slurms_resume_file_says_which_nodes_belong_to_which_job():
    jobs = [{"job_id": 140814, "nodes_resume": "g-[1-3]"}, {"job_id": 140815, "nodes_resume": "g-[3-4]"}]
    text = json.dumps({"all_nodes_resume": "g-[1-5]", "jobs": jobs})
    assert spool.groups_of("g-[1-5]", text) == [
        spool.Group("140814", ("g-1", "g-2", "g-3")),
        spool.Group("140815", ("g-4",)),
        spool.Group("", ("g-5",)),
    ]
    older = json.dumps({"all_nodes": "g-[2-3]", "jobs": [{"job_id": 1, "nodes": "g-[1-3]"}]})
    assert spool.groups_of("g-[2-3]", older) == [spool.Group("1", ("g-2", "g-3"))]
    assert spool.groups_of("g-[1-2]", "") == [spool.Group("", ("g-1",)), spool.Group("", ("g-2",))]
    assert spool.groups_of("g-1", "not json") == [spool.Group("", ("g-1",))]


def test_a_state_of_another_version_is_refused(tmp_path):
    path = tmp_path / "state.json"
    path.write_text('{"schema": 0}')
    with pytest.raises(UnreadableError, match="another version"):
        State.load(str(path))


@pytest.mark.parametrize(
    ("node", "node_set"),
    [
        ("gpu-dy-p5-1", "gpu/p5"),
        ("gpu-dy-p5-8", "gpu/p5"),
        ("gpu-dy-p4-8", "gpu/p4"),
        *((name, "") for name in ("gpu-dy-p5-9", "gpu-dy-p5-0", "gpu-dy-p5-01", "gpu-st-p5-1", "gpu-dy-p5", "x")),
    ],
)
def test_the_set_of_a_node_follows_from_the_nodes_name(head, node, node_set):
    assert head.settings.set_of(node) == node_set


SHOWN = """NodeName=gpu-dy-p5-1 State=DOWN+CLOUD+POWERED_DOWN Weight=1 Reason=no [one] here [slurm@2026-11-24T20:00:00]
NodeName=gpu-dy-p5-2 CoresPerSocket=1 State=IDLE+CLOUD ThreadsPerCore=1 Comment=(null)
NodeName=gpu-st-p5-1 CoresPerSocket=1 State=DOWN*+DRAIN Weight=1 Reason=Not responding [slurm@2026-11-24T20:00:00] Comment=x
"""


def test_states_and_reasons_of_nodes_are_read_from_scontrols_output():
    found = read(SHOWN)
    assert (found["gpu-dy-p5-1"].flags, found["gpu-dy-p5-1"].reason) == ({"DOWN", "CLOUD", "POWERED_DOWN"}, "no [one] here")
    assert found["gpu-dy-p5-2"].reason == ""
    assert (found["gpu-st-p5-1"].flags, found["gpu-st-p5-1"].reason) == ({"DOWN", "DRAIN"}, "Not responding")


def test_a_sweep_terminates_all_machines_although_its_first_call_is_throttled(head, capsys):
    head.slurm.start(("7", head.nodes(3)))
    head.run()
    head.cloud.busy = 1
    assert sweep.all_machines(head.cloud, lambda _: None, lambda: 0) == 0
    assert not head.cloud.running
    assert "terminating 3 machines" in capsys.readouterr().out


def test_a_machine_that_has_stopped_is_terminated_and_its_node_is_down_with_the_clouds_reason(head):
    head.slurm.start(("7", head.nodes(1)))
    head.run()
    its = head.cloud.machines["i-0001"]
    head.cloud.machines["i-0001"] = its._replace(ended=True, stopped=True, why="Client.UserInitiatedShutdown")
    head.run(1, seconds=61)
    assert "Client.UserInitiatedShutdown" in head.slurm.reasons()[head.nodes(1)[0]]
    head.run(2, seconds=61)
    assert "terminate" in head.cloud.calls
    assert head.cloud.machines["i-0001"].ended
    assert not head.cloud.machines["i-0001"].stopped
    assert not head.state().ending


def test_a_sweep_terminates_stopped_machines_and_machines_that_the_cloud_does_not_list_yet(head, capsys):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.cloud.machines["i-0001"] = head.cloud.machines["i-0001"]._replace(ended=True, stopped=True)
    late = head.cloud.machines.pop("i-0002")

    def listed(_: float) -> None:
        head.cloud.machines.setdefault("i-0002", late)

    assert sweep.all_machines(head.cloud, listed, lambda: 0, ["i-0002"]) == 0
    assert [its.costs for its in head.cloud.machines.values()] == [False, False]
    assert "terminating 2 machines" in capsys.readouterr().out


def test_a_sweep_waits_a_minute_for_a_machine_that_the_cloud_never_lists(head):
    times = iter(range(0, 200, 20))
    assert sweep.all_machines(head.cloud, lambda _: None, times.__next__, ["i-gone"]) == 0
    assert next(times) >= 60


def test_a_sweep_that_cannot_terminate_machines_fails_and_says_that_machines_still_run(head, capsys):
    head.slurm.start(("7", head.nodes(3)))
    head.run()
    head.cloud.busy = 10**9
    assert sweep.all_machines(head.cloud, lambda _: None, iter(range(0, 2000, 500)).__next__) == 1
    assert "still running after 600 s: an unknown number" in capsys.readouterr().out


def test_a_sweep_that_the_cloud_refuses_fails_at_once(head, capsys):
    head.cloud.hides = CloudError("UnauthorizedOperation", "You are not authorized")
    assert sweep.all_machines(head.cloud, lambda _: None, lambda: 0) == 1
    assert "may still run, because the cloud refuses to list or terminate them: Unauthorized" in capsys.readouterr().out


def test_an_update_that_shrinks_or_removes_a_set_terminates_the_machines_of_removed_nodes(head):
    head.slurm.start(("7", head.nodes(4)), ("8", head.nodes(2, "p4")))
    head.run()
    smaller = head.settings.sets["gpu/p5"]._replace(dynamic=3)
    head.settings = head.settings._replace(sets={"gpu/p5": smaller})
    state = head.run(2)
    assert len(head.cloud.running) == 3
    assert {batch.node_set for batch in state.batches.values()} == {"gpu/p5"}


def test_a_file_that_is_not_a_request_is_set_aside_and_the_other_requests_are_carried_out(head):
    (head.spool / "00000-1.json").write_text("no wish")
    head.slurm.start(("7", head.nodes(2)))
    head.run(2)
    assert sorted(set(head.joined)) == head.nodes(2)
    assert [path.name for path in head.spool.iterdir()] == [".refused-00000-1.json"]


def test_nothing_starts_while_the_cluster_is_being_destroyed(head):
    (head.folder / "closed").touch()
    head.slurm.start(("7", head.nodes(3)))
    head.run()
    assert "launch" not in head.cloud.calls


def test_nodes_that_always_run_are_started_without_a_job_by_a_single_call(tmp_path):
    head = Controller(tmp_path, always_on=2)
    head.run(6)
    assert sorted(head.joined) == head.nodes(2)
    assert head.cloud.calls.count("launch") == 1
    assert len(head.cloud.running) == 2


def test_slurm_is_not_asked_twice_for_a_node_that_slurm_is_about_to_start(tmp_path):
    head = Controller(tmp_path, always_on=2)
    head.slurm.delays = True
    head.run(4)
    head.slurm.power_save()
    head.run(2)
    assert (sorted(head.slurm.asked), sorted(head.joined)) == (head.nodes(2), head.nodes(2))


def test_a_node_that_is_starting_keeps_its_machine_when_its_start_is_requested_again(tmp_path):
    """Slurm 22.05 shows a starting node as POWERED_DOWN and POWER_UP, besides POWERING_UP, until Slurm next checks the node."""
    head = Controller(tmp_path, always_on=2)
    head.silent.update(head.nodes(2))
    head.run(2)
    head.slurm.delays = True
    head.slurm.power_up(head.nodes(2))
    head.run(2)
    assert (head.cloud.started, len(head.cloud.running)) == (2, 2)
    head.slurm.power_save()
    head.silent.clear()
    head.run(2)
    assert (head.cloud.started, sorted(head.joined)) == (2, head.nodes(2))


def test_a_node_that_always_runs_is_started_again_after_slurm_showed_why_its_machine_ended(tmp_path):
    head = Controller(tmp_path, always_on=2)
    head.run(3)
    head.cloud.die("i-0001", "Server.InternalError")
    head.run(1, seconds=61)
    assert head.slurm.reasons() == {head.nodes(1)[0]: "machine i-0001 has ended: Server.InternalError"}
    head.run(5, seconds=61)
    assert not head.slurm.reasons()
    assert head.cloud.running == ["i-0002", "i-0003"]


def test_always_on_nodes_of_a_set_without_capacity_are_launched_again_only_after_the_sets_pause(tmp_path):
    head = Controller(tmp_path, always_on=2)
    head.cloud.room = 0
    head.run(8)
    assert head.cloud.calls.count("launch") == 1
    head.cloud.room = 10
    head.run(4, seconds=PAUSE_S)
    assert len(head.cloud.running) == 2


def test_no_always_on_node_is_started_while_the_cluster_is_destroyed(tmp_path):
    head = Controller(tmp_path, always_on=2)
    (tmp_path / "closed").touch()
    head.run(4)
    assert not head.cloud.started


def test_nodes_that_always_run_are_also_tested_before_they_join(tmp_path):
    head = Controller(tmp_path, entry_s=600, always_on=2)
    head.run(4)
    assert not head.joined
    assert head.desk.due()


def growing(tmp_path) -> Controller:
    """Return a controller whose two always-on nodes run in one network, which can be enlarged."""
    head = Controller(tmp_path, always_on=2)
    head.cloud.grows = True
    head.run(3)
    return head


def test_a_recreated_always_on_node_starts_in_the_network_of_the_remaining_node(tmp_path):
    head = growing(tmp_path)
    (network,) = head.state().batches
    head.cloud.die("i-0001", "hardware failure")
    head.run(6, seconds=61)
    assert {its.token for its in head.cloud.machines.values()} == {network}
    assert len(head.cloud.running) == 2
    assert sorted(node for one in head.state().batches.values() for node in one.joined) == head.nodes(2)
    assert {one.network for one in head.state().batches.values()} == {network}


def test_if_a_network_has_no_capacity_for_a_recreated_node_only_that_node_fails(tmp_path):
    head = growing(tmp_path)
    head.cloud.die("i-0001", "hardware failure")
    head.cloud.room = -1
    head.run(5, seconds=61)
    lost, kept = head.nodes(2)
    assert head.slurm.reasons()[lost] == "InsufficientInstanceCapacity: there is no capacity in this zone"
    assert head.slurm.nodes[kept].flags == {"IDLE", "CLOUD"}
    assert not head.state().pauses
    head.cloud.room = 1
    head.run(4, seconds=601)
    assert len(head.cloud.running) == 2


def test_a_recreated_node_gets_a_new_network_if_no_node_remains_in_the_former_network(tmp_path):
    head = growing(tmp_path)
    (network,) = head.state().batches
    for its in ("i-0001", "i-0002"):
        head.cloud.die(its)
    head.run(6, seconds=61)
    assert len(head.cloud.running) == 2
    assert network not in {head.cloud.machines[its].token for its in head.cloud.running}


def test_after_a_kill_at_any_step_the_recreation_of_a_node_still_starts_only_one_machine(tmp_path):
    at, killed = 0, True
    while killed:
        at += 1
        folder = tmp_path / str(at)
        folder.mkdir()
        head = growing(folder)
        head.cloud.die("i-0001")
        head.steps.at, head.steps.kill_at = 0, at
        killed = False
        try:
            for _ in range(6):
                head.run(seconds=61)
        except KilledError:
            killed = True
        head.steps.kill_at = -1
        head.run(9, seconds=61)
        assert len(head.cloud.running) == 2, at
        assert len({head.cloud.machines[its].token for its in head.cloud.running}) == 1, at
    assert at > 30, "the recreation of a node has more than 30 steps"


def test_if_a_zone_has_no_capacity_the_next_zone_is_tried_and_nothing_is_left_of_the_first_attempt(head):
    head.cloud.places_to_start, head.cloud.full = ("AD-1", "AD-2"), {"AD-1"}
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    first = next(iter(head.cloud.failed))
    head.cloud.machines["i-9999"] = Machine("i-9999", first, "10.0.9.9")  # left behind by the failed launch
    state = head.run(3)
    assert first not in state.batches
    assert sorted(node for one in state.batches.values() for node in one.joined) == head.nodes(2)
    assert not head.slurm.reasons()
    assert sorted(head.cloud.running) == ["i-0001", "i-0002"]
    assert not state.pauses


def test_a_job_for_which_no_zone_has_capacity_fails_with_the_answer_of_every_zone(head):
    head.cloud.places_to_start, head.cloud.full = ("AD-1", "AD-2"), {"AD-1", "AD-2"}
    head.slurm.start(("7", [*head.nodes(2), *head.nodes(1, "p4")]))
    head.run(4)
    reason = head.slurm.reasons()[head.nodes(1)[0]]
    assert "AD-1: InternalError: Out of host capacity in AD-1.; AD-2: InternalError: Out of host capacity in AD-2." in reason
    assert "not tried again before" in reason
    assert set(head.nodes(2)) | set(head.nodes(1, "p4")) <= set(head.slurm.reasons())
    assert not head.state().batches
    assert not head.cloud.running


def test_if_a_zone_is_full_and_no_launch_reaches_the_next_zone_the_reason_is_the_answer_of_the_full_zone(head):
    head.cloud.places_to_start, head.cloud.full = ("AD-1", "AD-2"), {"AD-1"}
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.run(seconds=4000)
    assert "AD-1: InternalError: Out of host capacity in AD-1." in head.slurm.reasons()[head.nodes(1)[0]]


def test_a_launch_without_capacity_fails_if_an_update_removed_the_zones_not_yet_tried(head):
    head.cloud.places_to_start, head.cloud.full = ("AD-1", "AD-2"), {"AD-1", "AD-2"}
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    head.cloud.places_to_start = ("AD-1",)
    head.run(2)
    assert "Out of host capacity" in head.slurm.reasons()[head.nodes(1)[0]]
    assert not head.state().batches
