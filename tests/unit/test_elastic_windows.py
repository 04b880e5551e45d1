"""Sets of nodes whose capacity is bought for a period, such as a Capacity Block: outside that period, the nodes are DOWN."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest
from elastic import Controller

from scheduler.elastic.cloud import BusyError
from scheduler.elastic.slurm import SlurmError
from scheduler.elastic.work import PAUSE_S

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")

SOON = "Capacity Block cr-1 begins at 2026-12-01T11:30:00.000Z"


@pytest.fixture
def head(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


def closed(head: Controller, why: str = SOON, seconds: float = 61) -> None:
    head.cloud.shut = {"gpu/p5": why}
    head.run(seconds=seconds)


def test_nodes_of_a_capacity_block_are_down_with_the_reason_and_not_launched_before_the_block_begins(tmp_path):
    head = Controller(tmp_path, always_on=4)
    closed(head)
    assert head.slurm.reasons() == dict.fromkeys(head.nodes(8), SOON)
    assert f"gpu/p5: {SOON}" in head.said
    head.slurm.start(("7", head.nodes(2)))
    head.slurm.start(("8", head.nodes(2, "p4")))
    head.run(300)
    assert set(head.slurm.reasons()) == set(head.nodes(8)), "the nodes stay down until the block begins"
    assert head.cloud.calls.count("launch") == 1, "only the other set is launched"
    assert len(head.cloud.running) == 2
    assert head.said.count(f"gpu/p5: {SOON}") == 1


def test_the_beginning_of_a_capacity_block_makes_its_nodes_usable_and_starts_its_always_on_nodes(tmp_path):
    head = Controller(tmp_path, always_on=4)
    closed(head)
    head.cloud.shut = {}
    head.run(14)
    assert not head.slurm.reasons()
    assert len(head.cloud.running) == 4
    assert not head.state().shut
    assert not head.state().pauses


def test_shortly_before_a_capacity_block_ends_its_machines_are_terminated_and_its_nodes_show_the_reason(head):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    ends = "Capacity Block cr-1 ends at 2026-12-08T11:30:00.000Z, and EC2 terminates its machines 30 minutes earlier"
    closed(head, ends)
    assert head.cloud.running == []
    assert head.slurm.reasons() == dict.fromkeys(head.nodes(8), ends)
    closed(head, "Capacity Block cr-1 is expired")
    assert set(head.slurm.reasons().values()) == {"Capacity Block cr-1 is expired"}


def test_nodes_are_down_before_their_machines_are_terminated_so_slurm_requeues_their_jobs(head, monkeypatch):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    terminate, down = head.cloud.terminate, list[set[str]]()

    def seen(ids, wanted=()):
        down.append({node for node, its in head.slurm.nodes.items() if "DOWN" in its.flags})
        terminate(ids, wanted)

    monkeypatch.setattr(head.cloud, "terminate", seen)
    closed(head, "Capacity Block cr-1 is expired")
    assert down == [set(head.nodes(8))]


def test_machines_are_terminated_although_slurm_does_not_answer(head, monkeypatch):
    head.slurm.start(("7", head.nodes(2)))
    head.run()
    monkeypatch.setattr(head.slurm, "states", mock.Mock(side_effect=SlurmError("Unable to contact slurm controller")))
    closed(head, "Capacity Block cr-1 is expired")
    assert head.cloud.running == []


def test_a_node_that_failed_for_another_reason_stays_down_until_the_capacity_block_begins(head):
    closed(head)
    state = head.state()
    state.failed["gpu-dy-p5-1"] = {"reason": "slurmd did not answer", "until": head.now + PAUSE_S}
    state.save()
    head.run(200)
    assert head.slurm.reasons() == dict.fromkeys(head.nodes(8), SOON)


def test_a_set_is_open_until_the_cloud_first_answers_and_keeps_its_last_known_state_while_the_cloud_does_not_answer(head):
    head.cloud.hides = BusyError("Throttling", "wait")
    closed(head)
    assert not head.slurm.reasons()
    head.cloud.hides = None
    closed(head)
    head.cloud.hides, head.cloud.shut = BusyError("Throttling", "wait"), {}
    head.run(30)
    assert set(head.slurm.reasons().values()) == {SOON}
    assert "the cloud does not say which capacity there is at the moment: Throttling: wait" in head.said


def test_a_set_that_an_update_removes_is_forgotten(head):
    closed(head)
    head.settings = head.settings._replace(sets={"gpu/p4": head.settings.sets["gpu/p4"]})
    head.cloud.shut = {}
    state = head.run(14)
    assert (state.shut, state.pauses, state.failed) == ({}, {}, {})


def test_nodes_whose_set_no_longer_uses_a_capacity_block_are_usable_within_70_seconds(head):
    closed(head)
    head.cloud.shut = {}  # the stack no longer uses a Capacity Block
    head.run(14)
    assert not head.slurm.reasons()
