"""Slurm on a cluster's machines: names, files, why a node cannot join the cluster, and Slurm's reports on its nodes."""

from __future__ import annotations

import ast
import json
import re
import time
from typing import Any

import pytest
from measurement_line import fits_its_type

from benchmarks.launch.protocol import Node, Schedule
from benchmarks.runner import fanout, schedule, slurm_states
from benchmarks.runner.refusal import Refusal
from catalogue import SERVERS, SHAPES
from scheduler import names, slurm_conf
from scheduler.files import cgroup_conf

NODES = [Node("gpu-a", "10.0.0.1"), Node("gpu-b", "10.0.0.2")]
REQUEST = Schedule("x", 60, NODES, "compute", "NVIDIA H100 80GB HBM3", 8)
#: A healthy node's answer.
FACTS: dict[str, Any] = {
    "lacks": [],
    "controls": True,
    "version": "23.11.4",
    "hostname": "a",
    "uid": 1000,
    "slurm_uid": 64030,
    "root": True,
    "cores": [2, 48, 2],
    "memory_mib": 2_000_000,
    "devices": list(range(8)),
    "cgroups": 2,
    "first_line": None,
    "running": {},
}


def answers(**changes: Any) -> list[dict[str, Any]]:
    """Return two nodes' answers; the second answer has `changes`."""
    return [FACTS, FACTS | {"hostname": "b"} | changes]


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA L40S", "l40s"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA GeForce RTX 4090", "nvidia_geforce_rtx_4090"),
    ],
)
def test_the_gpu_type_in_slurm_is_the_usual_short_name(model, kind):
    assert names.gpu_type(model) == kind


def test_every_gpu_of_the_catalogue_has_a_short_type():
    kinds = {names.gpu_type(row.gpu) for row in [*SHAPES.values(), *SERVERS.values()] if row.gpus}
    assert all(re.fullmatch(r"[a-z]+\d+[a-z]*", kind) for kind in kinds)


@pytest.mark.parametrize("name", ["compute", "gpu-h100", "a", "q_2"])
def test_a_plain_word_is_a_valid_queue_name(name):
    assert not names.refused_queue(name)


@pytest.mark.parametrize("name", ["default", "all", "Compute", "two words", "a,b", "-x", "9", "", "x" * 41, "a=b"])
def test_a_reserved_or_invalid_queue_name_is_refused(name):
    assert names.refused_queue(name)


def test_machines_with_different_hardware_have_different_lines_in_slurm_conf():
    text = slurm_conf.slurm_conf(schedule.cluster_of(REQUEST, answers(cores=[1, 64, 1], memory_mib=1000)))
    assert re.findall(r"NodeName=(\S+) NodeHostname=(\S+) NodeAddr=(\S+) (.+)", text) == [
        (
            *("gpu-a", "a", "10.0.0.1"),
            "Sockets=2 CoresPerSocket=48 ThreadsPerCore=2 RealMemory=1900000 Gres=gpu:h100:8 State=UNKNOWN",
        ),
        (
            *("gpu-b", "b", "10.0.0.2"),
            "Sockets=1 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=950 Gres=gpu:h100:8 State=UNKNOWN",
        ),
    ]


@pytest.mark.parametrize(
    ("version", "groups", "held"),
    [
        ("22.05.8", (2, 2), True),
        ("21.08.5", (2, 2), False),
        ("21.08.5", (1, 1), True),
        ("23.11.4", (2, 1), False),
        ("23.11.4", (0, 0), False),
    ],
)
def test_control_groups_confine_jobs_if_every_node_and_the_version_of_slurm_support_control_groups(version, groups, held):
    found = [FACTS | {"version": version, "cgroups": group, "hostname": name} for group, name in zip(groups, "ab", strict=True)]
    cluster = schedule.cluster_of(REQUEST, found)
    assert cluster.cgroups is held
    assert ("ConstrainDevices=yes" in cgroup_conf(cluster)) is held
    assert ("proctrack/cgroup" in slurm_conf.slurm_conf(cluster)) is held


def test_nothing_is_reported_about_healthy_nodes():
    assert [schedule.problems_of(node, its, REQUEST) for node, its in zip(NODES, answers(), strict=True)] == [[], []]
    assert schedule.together(NODES, answers()) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"lacks": ["slurmd", "munged"]}, "gpu-a has no slurmd, munged; install Slurm and munge on every node"),
        (
            {"first_line": "# our cluster"},
            "gpu-a already has its own Slurm cluster (/etc/slurm/slurm.conf), which is left as it is",
        ),
        ({"running": {"slurmd": None}}, "gpu-a runs slurmd of another Slurm cluster, which is left as it is"),
        ({"running": {"slurmd": slurm_conf.MARK, "slurmctld": "[Unit]"}}, "gpu-a runs slurmctld of another Slurm cluster"),
        ({"slurm_uid": None}, "gpu-a has no user slurm"),
        ({"root": False}, "gpu-a: sudo asks the login user for a password"),
        ({"controls": False}, "gpu-a has no slurmctld, but the head node must be the controller"),
        ({"memory_mib": 0}, "gpu-a: slurmd -C does not report both processors and memory"),
        ({"devices": [0, 1, 3]}, "gpu-a must have 8 GPUs in /dev, from nvidia0 on, but has nvidia0, nvidia1, nvidia3"),
    ],
)
def test_a_node_that_cannot_join_the_cluster_is_named_with_the_reason(change, sentence):
    (found,) = schedule.problems_of(NODES[0], FACTS | change, REQUEST)
    assert found.startswith(sentence)


def test_a_slurm_configuration_that_busbar_wrote_may_be_replaced():
    ours = {"first_line": slurm_conf.MARK, "running": {"slurmctld": slurm_conf.MARK, "slurmd": slurm_conf.MARK}}
    assert schedule.problems_of(NODES[0], FACTS | ours, REQUEST) == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"version": "22.05.8"}, "gpu-b has Slurm 22.05.8, and gpu-a has 23.11.4"),
        ({"uid": 1001}, "the login user has user id 1001 on gpu-b and 1000 on gpu-a; they must be equal"),
        ({"slurm_uid": 981}, "slurm has user id 981 on gpu-b and 64030 on gpu-a; they must be equal"),
        ({"hostname": "a"}, "gpu-a and gpu-b both call themselves a"),
    ],
)
def test_nodes_that_do_not_match_each_other_are_named(change, sentence):
    assert schedule.together(NODES, answers(**change)) == [sentence]


SINFO = """gpu-a|idle|Unknown|Unknown|none
gpu-b|drained|root|2026-11-23T03:20:00|cable 7 | bends
gpu-c|down*|slurm|2026-11-23T03:21:00|Not responding
gpu-d|mixed|Unknown|Unknown|none
"""


def test_a_node_that_accepts_no_jobs_is_named_with_slurms_reason():
    nodes = [Node(f"gpu-{letter}", "") for letter in "abcde"]
    assert slurm_states.unusable(nodes, slurm_states.read(SINFO)) == [
        "gpu-b is drained in Slurm: cable 7 | bends (set by root at 2026-11-23T03:20:00)",
        "gpu-c is down* in Slurm: Not responding (set by slurm at 2026-11-23T03:21:00)",
        "gpu-e is not in this Slurm cluster",
    ]


def test_a_job_is_not_started_on_nodes_that_accept_no_jobs(monkeypatch):
    monkeypatch.setattr(slurm_states, "states", lambda: slurm_states.read(SINFO))
    with pytest.raises(
        Refusal, match=r"gpu-b is drained in Slurm: cable 7 .* state=resume` on the controller returns a node to service"
    ):
        slurm_states.refuse_unusable(NODES)
    slurm_states.refuse_unusable(NODES[:1])


def test_a_controller_that_does_not_answer_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Refusal, match="Slurm cannot be queried on this node"):
        slurm_states.states()
    (tmp_path / "sinfo").write_text("#!/bin/sh\necho 'slurm_load_partitions: Unable to contact slurm controller' >&2; exit 1\n")
    (tmp_path / "sinfo").chmod(0o755)
    with pytest.raises(Refusal, match="does not answer on this node: slurm_load_partitions: Unable to contact"):
        slurm_states.states()


def waited(monkeypatch, *said: str, timeout_s: float = 60) -> list[str]:
    """Return the output of a set-up. Slurm answers each query with the next text of `said`, and in the end repeats the last."""
    texts, heard = [*said], []

    def states() -> dict[str, slurm_states.State]:
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        if not text:
            raise Refusal("Slurm's controller does not answer on this node: refused")
        return slurm_states.read(text)

    monkeypatch.setattr(slurm_states, "states", states)
    monkeypatch.setattr(schedule, "_POLL_S", 0)
    schedule.wait(REQUEST._replace(timeout_s=timeout_s), time.monotonic(), heard.append)
    return heard


IDLE = "gpu-a|idle|x|x|none\ngpu-b|idle|x|x|none\n"
LATE = "gpu-a|idle|x|x|none\ngpu-b|unknown*|x|x|none\n"


def test_the_setup_waits_until_the_controller_answers_and_every_node_accepts_jobs(monkeypatch):
    assert waited(monkeypatch, "", LATE, LATE, IDLE) == ["waiting for 1 of 2 nodes: gpu-b is unknown* in Slurm"]


def test_the_setup_stops_at_its_timeout_and_names_the_missing_nodes(monkeypatch):
    with pytest.raises(Refusal, match=r"gpu-b is unknown\* in Slurm after 0 s"):
        waited(monkeypatch, LATE, timeout_s=-1)
    with pytest.raises(Refusal, match="controller does not answer"):
        waited(monkeypatch, "", timeout_s=-1)


def test_a_drained_node_is_not_waited_for(monkeypatch):
    drained = "gpu-a|idle|x|x|none\ngpu-b|draining|root|2026-11-23T03:20:00|cable 7\n"
    with pytest.raises(Refusal, match="gpu-b is draining in Slurm: cable 7"):
        waited(monkeypatch, drained)


class Cluster:
    """Nodes that answer like `slurm_facts` and `node_setup`; `calls` has the requests to `node_setup`, in order."""

    def __init__(self, monkeypatch, found: list[dict[str, Any]], status: int = 0) -> None:
        self.calls: list[tuple[list[str], dict[str, Any]]] = []
        self._found, self._status = found, status
        monkeypatch.setattr(fanout, "keep", lambda _: None)
        monkeypatch.setattr(fanout, "each", self._each)
        monkeypatch.setattr(slurm_states, "states", lambda: slurm_states.read(IDLE))

    def _each(self, nodes, command, stdin, _timeout_s) -> list[fanout.Answer]:
        if "sudo" not in command:
            return [fanout.Answer(0, json.dumps(one), "") for one in self._found]
        given = json.loads(ast.literal_eval(stdin.decode().rpartition("\nmain(")[2].strip()[:-1]))
        self.calls.append(([node.name for node in nodes], given))
        said = json.dumps({} if given["key"] else {"key": "made there"})
        return [fanout.Answer(self._status, said, "no such unit") for _ in nodes]


def test_the_controller_is_set_up_first_and_every_node_gets_the_controllers_key_and_no_files(monkeypatch):
    cluster = Cluster(monkeypatch, answers())
    line = schedule.work(REQUEST, "", lambda _: None)
    assert fits_its_type(line)
    (first, controller), (every, member) = cluster.calls
    assert (first, every) == (["gpu-a"], ["gpu-a", "gpu-b"])
    assert (controller["key"], member["key"]) == ("", "made there")
    assert (sorted(controller["files"]), member["files"]) == (["cgroup.conf", "gres.conf", "slurm.conf"], {})
    assert (list(controller["units"]), list(member["units"])) == (["slurmctld.service"], ["slurmd.service"])
    assert "--conf-server 10.0.0.1:6820" in member["units"]["slurmd.service"]
    about = {"version": "23.11.4", "controller": "gpu-a", "queue": "compute", "nodes": 2, "cgroups": True}
    assert line | about == line
    assert "made there" not in json.dumps(line)


def test_a_change_of_the_controllers_files_changes_the_unit_of_slurmd(monkeypatch):
    units = []
    for memory_mib in (1000, 1000, 2000):
        cluster = Cluster(monkeypatch, answers(memory_mib=memory_mib))
        schedule.work(REQUEST, "", lambda _: None)
        units.append(cluster.calls[1][1]["units"]["slurmd.service"])
    assert units[0] == units[1] != units[2]


def test_nothing_is_set_up_if_one_node_cannot_join_the_cluster(monkeypatch):
    cluster = Cluster(monkeypatch, answers(root=False))
    with pytest.raises(Refusal, match="no Slurm cluster was created: gpu-b: sudo asks"):
        schedule.work(REQUEST, "", lambda _: None)
    assert not cluster.calls


def test_a_failed_setup_names_the_node_and_shows_its_last_output(monkeypatch):
    Cluster(monkeypatch, answers(), status=1)
    with pytest.raises(Refusal, match=r"Slurm was not set up on gpu-a \(no such unit\)"):
        schedule.work(REQUEST, "", lambda _: None)
