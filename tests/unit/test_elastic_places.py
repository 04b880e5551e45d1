"""How Slurm learns where dynamic machines are: busbar asks the cloud and writes topology.conf, and Slurm reads it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from elastic import Controller, KilledError

from scheduler import node_setup
from scheduler.elastic import places
from scheduler.elastic.cloud import BusyError, CloudError
from scheduler.elastic.state import State
from scheduler.slurm_conf import MARK

pytestmark = pytest.mark.usefixtures("no_waiting_for_the_disk")

EMPTY = [
    "SwitchName=cluster-gpu-p4-dynamic Nodes=gpu-dy-p4-[1-8]",
    "SwitchName=cluster-gpu-p5-dynamic Nodes=gpu-dy-p5-[1-8]",
    "SwitchName=cluster-gpu-p4 Switches=cluster-gpu-p4-dynamic",
    "SwitchName=cluster-gpu-p5 Switches=cluster-gpu-p5-dynamic",
    "SwitchName=cluster-gpu Switches=cluster-gpu-p4,cluster-gpu-p5",
    "SwitchName=cluster Switches=cluster-gpu",
]


@pytest.fixture(autouse=True)
def own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_setup.pwd, "getpwnam", lambda _: SimpleNamespace(pw_uid=os.getuid(), pw_gid=os.getgid()))


@pytest.fixture
def head(tmp_path: Path) -> Controller:
    """Return a controller on which an update has written topology.conf."""
    made = Controller(tmp_path)
    made.topology.write_text(places.conf(made.settings.sets, State(str(tmp_path / "none"))))
    return made


def leaves(head: Controller) -> dict[str, str]:
    """Return the nodes of each lowest switch in the file, by the switch's name."""
    lines = [line.split() for line in head.topology.read_text().splitlines() if " Nodes=" in line]
    return {switch.removeprefix("SwitchName=cluster-"): nodes.removeprefix("Nodes=") for switch, nodes in lines}


def running(head: Controller, count: int = 4, runs: int = 13) -> None:
    """Start `count` nodes; machines with odd numbers are below another switch than machines with even numbers."""
    head.cloud.located = {f"i-{at:04}": ("nn-0", f"nn-{'ab'[at % 2]}") for at in range(1, 9)}
    head.slurm.start(("7", head.nodes(count)))
    head.run(runs)


def test_in_each_set_the_nodes_without_a_machine_share_one_switch(head):
    assert head.topology.read_text().splitlines() == [MARK, *EMPTY]


def test_slurm_does_not_read_an_unchanged_topology_again(head):
    """If Slurm reads the file in the same second in which a node registers, Slurm believes that the node has rebooted.

    The machine of a rebooted node is terminated.
    """
    head.slurm.start(("7", head.nodes(2)))
    head.run(60)
    assert head.slurm.reconfigured == 0


def test_slurm_reads_topology_conf_once_after_new_nodes_are_placed_in_it_as_the_cloud_says(head):
    running(head, runs=1)
    assert leaves(head) == {
        "gpu-p4-dynamic": "gpu-dy-p4-[1-8]",
        "gpu-p5-dynamic": "gpu-dy-p5-[5-8]",
        "nn_0-nn_a-nodes": "gpu-dy-p5-[2,4]",
        "nn_0-nn_b-nodes": "gpu-dy-p5-[1,3]",
    }
    told = head.slurm.reconfigured
    head.run(60)
    assert (head.cloud.calls.count("places"), head.slurm.reconfigured) == (1, told)


def test_the_place_of_a_terminated_machine_is_forgotten_and_the_place_of_the_nodes_next_machine_is_looked_up(head):
    running(head)
    head.slurm.idle(*head.nodes(4))
    head.run(14)
    assert head.topology.read_text().splitlines()[1:] == EMPTY
    assert not head.state().places
    head.slurm.start(("8", head.nodes(1)))
    head.run(13)
    assert leaves(head)["nn_0-nn_b-nodes"] == "gpu-dy-p5-1", "the new machine is i-0005"


def test_slurm_does_not_read_topology_conf_while_nodes_start(head):
    running(head, 2)
    told = head.slurm.reconfigured
    head.silent = set(head.nodes(1, "p4"))
    head.slurm.start(("8", head.nodes(1, "p4")))
    head.slurm.idle(*head.nodes(2))
    head.run(60)
    assert head.slurm.reconfigured == told
    head.silent = set()
    head.run(14)
    assert head.slurm.reconfigured == told + 1


def test_a_cloud_that_does_not_know_the_place_of_a_machine_yet_is_asked_again_for_ten_minutes(head):
    head.slurm.start(("7", head.nodes(1)))
    head.run(24)
    assert head.cloud.calls.count("places") == 2, "the cloud is asked once a minute"
    assert not head.state().places
    head.run(110)
    assert head.state().places == {"i-0001": []}
    asked = head.cloud.calls.count("places")
    head.run(60)
    assert head.cloud.calls.count("places") == asked
    assert head.topology.read_text().splitlines()[1:] == EMPTY


@pytest.mark.parametrize("error", [BusyError("Throttling", "wait"), CloudError("UnauthorizedOperation", "no right")])
def test_a_clouds_refusal_to_tell_the_places_of_machines_is_logged_and_leaves_topology_conf_unchanged(head, error):
    def refuses(*_):
        raise error

    head.cloud.places = refuses
    running(head)
    assert head.topology.read_text().splitlines()[1:] == EMPTY
    assert f"the cloud does not say where 4 machines are: {error}" in head.said
    assert len(head.cloud.running) == 4
    head.run(3, seconds=601)
    assert not head.state().places, "a refusal is no answer, so the cloud is asked again"


@pytest.mark.parametrize("text", [None, "# mine\nSwitchName=s Nodes=ALL\n"])
def test_topology_conf_is_written_only_if_busbar_wrote_the_file_before(head, text):
    head.topology.unlink()
    if text:
        head.topology.write_text(text)
    running(head)
    assert "places" not in head.cloud.calls
    assert not head.slurm.reconfigured
    assert (head.topology.read_text() if text else head.topology.exists()) == (text or False)


def test_a_node_that_an_update_removed_is_not_in_topology_conf(head):
    running(head)
    sets = {key: one._replace(dynamic=2) for key, one in head.settings.sets.items()}
    head.settings = head.settings._replace(sets=sets)
    for node in [node for node in head.slurm.nodes if node.rpartition("-")[2] not in {"1", "2"}]:
        del head.slurm.nodes[node]
    head.run(14)
    assert leaves(head) == {
        "gpu-p4-dynamic": "gpu-dy-p4-[1-2]",
        "nn_0-nn_a-nodes": "gpu-dy-p5-2",
        "nn_0-nn_b-nodes": "gpu-dy-p5-1",
    }


def test_a_run_that_is_killed_before_slurm_reads_topology_conf_is_continued(head):
    read = head.slurm.reconfigure

    def killed() -> None:
        raise KilledError

    head.slurm.reconfigure = killed
    with pytest.raises(KilledError):
        running(head)
    head.slurm.reconfigure = read
    head.run(13)
    assert head.slurm.reconfigured == 1
    assert "nn_0-nn_a-nodes" in leaves(head)
