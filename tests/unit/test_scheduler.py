"""Slurm's files from a description of queues and nodes; test_rehearsed_slurm.py shows that the real slurmctld reads them."""

from __future__ import annotations

import re

import pytest

from scheduler import hostlist
from scheduler.cluster import Cluster, Cores, Gpus, Hardware, Node, NodeSet, Queue, dynamic_names
from scheduler.files import digest, files, gres_conf, scripts
from scheduler.slurm_conf import slurm_conf
from scheduler.topology import topology_conf

H100 = Hardware(Cores(2, 48, 2), 2_000_000, Gpus("h100", 8, "/dev/nvidia[0-7]"))
CPU = Hardware(Cores(1, 4, 1), 16_000, Gpus("", 0, ""))
NODES = [Node(f"gpu-st-p5-{at}", f"ip-{at}", f"10.0.0.{at}") for at in (1, 2)]
GPU = Queue("gpu", [NodeSet("p5", H100, NODES, 8, ("efa",))], default=True, idle_min=7, start_timeout_s=900)
SMALL = Queue("small", [NodeSet("c6", CPU, [], 4)])


def cluster(*queues: Queue, **changes) -> Cluster:
    return Cluster("busbar", "head", "10.0.0.9", queues or (GPU, SMALL), False, **changes)


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ([], ""),
        (["head"], "head"),
        (["a-1"], "a-1"),
        (["a-1", "a-2", "a-3", "a-7", "b"], "a-[1-3,7],b"),
        (["a-3", "a-1", "a-2"], "a-[1-3]"),
        (["n08", "n09", "n10", "n11"], "n[10-11,08-09]"),
        (["n", "n1", "n2"], "n,n[1-2]"),
        ([f"q-dy-s-{at}" for at in range(1, 1001)], "q-dy-s-[1-1000]"),
    ],
)
def test_names_of_nodes_are_written_in_slurms_short_notation_and_are_read_back_from_that_notation(names, short):
    assert hostlist.short(names) == short
    assert sorted(hostlist.names(short)) == sorted(names)


def test_dynamic_nodes_of_a_set_share_one_line_while_each_static_node_has_a_line_with_its_address():
    lines = [line for line in slurm_conf(cluster()).splitlines() if line.startswith("NodeName")]
    assert lines == [
        *(
            f"NodeName=gpu-st-p5-{at} NodeHostname=ip-{at} NodeAddr=10.0.0.{at} Sockets=2 CoresPerSocket=48 ThreadsPerCore=2 "
            "RealMemory=1900000 Gres=gpu:h100:8 State=UNKNOWN Weight=1 Feature=static,gpu_nodes,p5,efa"
            for at in (1, 2)
        ),
        (
            "NodeName=gpu-dy-p5-[1-8] Sockets=2 CoresPerSocket=48 ThreadsPerCore=2 RealMemory=1900000 Gres=gpu:h100:8 "
            "State=CLOUD Weight=1000 Feature=dynamic,gpu_nodes,p5,efa"
        ),
        (
            "NodeName=small-dy-c6-[1-4] Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=15200 State=CLOUD "
            "Weight=1000 Feature=dynamic,small_nodes,c6"
        ),
    ]


def test_each_queue_has_its_own_nodes_and_its_idle_time_in_seconds():
    lines = [line for line in slurm_conf(cluster()).splitlines() if line.startswith(("PartitionName", "NodeSet"))]
    assert lines == [
        "NodeSet=gpu_nodes Feature=gpu_nodes",
        "NodeSet=small_nodes Feature=small_nodes",
        "PartitionName=gpu Nodes=gpu_nodes Default=YES MaxTime=INFINITE State=UP SuspendTime=420 ResumeTimeout=900",
        "PartitionName=small Nodes=small_nodes Default=NO MaxTime=INFINITE State=UP SuspendTime=600 ResumeTimeout=1800",
    ]


def test_slurm_never_powers_down_static_nodes():
    assert "SuspendExcNodes=gpu-st-p5-[1-2]\n" in slurm_conf(cluster())
    still = slurm_conf(cluster(GPU, Queue("still", [NodeSet("p5", H100, [Node("x", "x", "10.0.0.7")])])))
    assert re.search(r"PartitionName=still .* SuspendTime=INFINITE", still)


def test_a_cluster_of_static_nodes_has_no_programs_that_start_or_terminate_nodes():
    text = slurm_conf(cluster(Queue("gpu", [NodeSet("p5", H100, NODES)], default=True)))
    assert not re.search("Suspend|Resume|CLOUD|cloud", text)


@pytest.mark.parametrize(("memory", "select", "constrained"), [(True, "CR_CPU_Memory", True), (False, "CR_CPU", False)])
def test_memory_is_scheduled_and_constrained_only_if_requested(memory, select, constrained):
    found = files(cluster(memory=memory)._replace(cgroups=True))
    assert f"SelectTypeParameters={select}\n" in found["slurm.conf"]
    assert ("ConstrainRAMSpace=yes" in found["cgroup.conf"]) is constrained


def test_only_nodes_with_gpus_are_listed_in_gres_conf():
    assert [line for line in gres_conf(cluster()).splitlines() if line.startswith("NodeName")] == [
        "NodeName=gpu-st-p5-1 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
        "NodeName=gpu-st-p5-2 Name=gpu Type=h100 File=/dev/nvidia[0-7]",
        "NodeName=gpu-dy-p5-[1-8] Name=gpu Type=h100 File=/dev/nvidia[0-7]",
    ]


def placed(*places: tuple[str, ...]) -> Queue:
    nodes = [Node(f"n{at}", f"n{at}", f"10.0.0.{at}", place) for at, place in enumerate(places, 1)]
    return Queue("gpu", [NodeSet("p5", H100, nodes, 2)], default=True)


def test_nodes_of_one_place_share_a_switch_while_dynamic_nodes_have_their_own_switch():
    queue = placed(("nn-1", "nn-2.a"), ("nn-1", "nn-2.a"), ("nn-1",))
    assert topology_conf(cluster(queue, topology=True)).splitlines() == [
        "SwitchName=cluster-gpu-p5-dynamic Nodes=gpu-dy-p5-[1-2]",
        "SwitchName=cluster-nn_1-nn_2_a-nodes Nodes=n[1-2]",
        "SwitchName=cluster-nn_1-nodes-nodes Nodes=n3",
        "SwitchName=cluster-gpu-p5 Switches=cluster-gpu-p5-dynamic",
        "SwitchName=cluster-nn_1-nn_2_a Switches=cluster-nn_1-nn_2_a-nodes",
        "SwitchName=cluster-nn_1-nodes Switches=cluster-nn_1-nodes-nodes",
        "SwitchName=cluster-gpu Switches=cluster-gpu-p5",
        "SwitchName=cluster-nn_1 Switches=cluster-nn_1-nn_2_a,cluster-nn_1-nodes",
        "SwitchName=cluster Switches=cluster-gpu,cluster-nn_1",
    ]


def test_every_folder_from_which_slurmd_runs_scripts_has_a_script():
    text = slurm_conf(cluster(scripts=True))
    folders = re.findall(r"^(?:Prolog|Epilog)=/etc/slurm/(\S+)/\*$", text, re.MULTILINE)
    assert sorted(name.partition("/")[0] for name in scripts()) == sorted(folders) == ["epilog.d", "prolog.d"]
    assert all(body.startswith("#!/bin/sh\n") for body in scripts().values())


def test_a_topology_is_written_only_on_request():
    assert sorted(files(cluster())) == ["cgroup.conf", "gres.conf", "slurm.conf"]


def test_a_changed_file_changes_the_digest():
    assert digest(cluster()) == digest(cluster()) != digest(cluster(memory=True))


def test_the_numbers_of_dynamic_nodes_begin_at_one():
    assert dynamic_names("q", "s", 2) == ["q-dy-s-1", "q-dy-s-2"]
