"""An installation ends an earlier controller's machines, and makes earlier launches use the present settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from elastic import Controller, FakeCloud, Steps

from scheduler.elastic import earlier_launches
from scheduler.elastic.cloud import BusyError, CloudError, Machine
from scheduler.elastic.settings import LaunchSet, Settings
from scheduler.elastic.slurm import NodeState
from scheduler.elastic.state import Batch, State

SPEC = {"configuration": "new"}
SETTINGS = Settings({"gpu/p5": LaunchSet("gpu", "p5", 4, 60, SPEC)}, {}, {}, {})


def clock(step: int) -> Any:
    return itertools.count(0, step).__next__


def test_the_machines_of_an_earlier_controller_have_ended_before_the_call_returns_even_if_the_cloud_refuses_at_first(capsys):
    cloud = FakeCloud(Steps())
    cloud.machines["i-1"] = Machine("i-1", "t", "10.0.0.1")
    cloud.hides = CloudError("NotAuthorizedOrNotFound", "Authorization failed")

    def wait(_: float) -> None:
        cloud.hides = None

    assert earlier_launches.end(cloud, wait, clock(1)) == ""
    assert not cloud.running
    assert "terminating 1 machines" in capsys.readouterr().out


def test_if_the_cloud_refuses_for_five_minutes_the_operator_is_told_that_machines_may_still_run():
    cloud = FakeCloud(Steps())
    cloud.hides = CloudError("NotAuthorizedOrNotFound", "Authorization failed")
    said = earlier_launches.end(cloud, lambda _: None, clock(50))
    assert said == "machines of the earlier controller may still run; this controller goes on trying to terminate them"


class Adopting(FakeCloud):
    """A cloud whose answers to `adopt` are given in advance; `asked` are the calls."""

    def __init__(self, *answers: Sequence[str] | CloudError) -> None:
        super().__init__(Steps())
        self.answers, self.asked = list(answers), list[Any]()

    def adopt(self, launches: dict[str, dict[str, Any]], present: Sequence[dict[str, Any]]) -> list[str]:
        self.asked.append((launches, list(present)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, CloudError):
            raise answer
        return list(answer)


@pytest.fixture
def state(tmp_path: Path) -> State:
    found = State.load(str(tmp_path / "state.json"))
    found.batches = {key: Batch(key, node_set, "", ["n"], 0) for key, node_set in (("a", "gpu/p5"), ("b", "gone/set"))}
    found.batches["a"].beside = "the network's launch"
    return found


def test_launches_are_given_the_present_settings_of_their_sets_again_and_again_until_all_use_these_settings(state):
    cloud = Adopting(["n1"], BusyError("NoAnswer", "timeout"), [])
    assert earlier_launches.adopt(cloud, SETTINGS, lambda: state, lambda _: None, clock(1)) == ""
    assert cloud.asked == [({"the network's launch": SPEC}, [SPEC])] * 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (["n1", "n2"], "n1, n2 still use earlier settings"),
        (BusyError("NoAnswer", "timeout"), "the cloud does not answer: NoAnswer: timeout"),
        (CloudError("Denied", "no"), "the cloud refuses: Denied: no"),
    ],
)
def test_if_launches_keep_earlier_settings_for_ten_minutes_a_warning_gives_the_reason(state, answer, why):
    said = earlier_launches.adopt(Adopting(answer), SETTINGS, lambda: state, lambda _: None, clock(100))
    assert said == (
        f"this update may be unable to delete earlier launch settings, and then the next update deletes them: {why}"
    )


def test_nodes_that_an_earlier_controller_started_are_down_for_a_minute_so_that_slurm_queues_their_jobs_again(tmp_path):
    head = Controller(tmp_path)
    head.slurm.nodes.update(dict.fromkeys(head.nodes(2), NodeState(frozenset(("ALLOCATED", "CLOUD")), "")))
    head.run()
    assert head.slurm.reasons() == dict.fromkeys(head.nodes(2), "this controller has no machine for it")
    head.run(2, seconds=61)
    assert not head.slurm.reasons()
    assert head.slurm.dismissed == head.nodes(2)
    assert not head.cloud.started


def test_if_slurm_starts_a_node_but_requests_no_machine_for_it_the_node_fails_after_two_minutes(tmp_path):
    head = Controller(tmp_path)
    head.slurm.allocate(head.nodes(1))
    head.run(3)
    assert not head.slurm.reasons()
    head.run(2, seconds=121)
    assert head.slurm.reasons() == {head.nodes(1)[0]: "this controller has no machine for it"}
    head.run(3, seconds=61)
    assert not head.slurm.reasons()
