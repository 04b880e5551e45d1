"""The stack file decides what first contact asks every node; the questions share one connection to the jump host."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from catalogue import SHAPES
from catalogue.homes import Homes
from components import remote_scripts
from components.acceptance import ready
from components.inventory import Launcher, PlannedSet
from components.remote_scripts import ssh_way

GPU4 = SHAPES["BM.GPU4.8"]
NEW = PlannedSet(name="gpu", nodes=2, shape=GPU4, launcher=Launcher(Homes(("/opt/mpi",), ("/cuda",), ("/nccl",))))
STANDING = {"ask": True, "first_boot": False}
FACTS = {"facts": remote_scripts.read("facts").source}
HCAS = sorted(GPU4.rdma.hca) if GPU4.rdma else []


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({}, {"hcas": HCAS, "first_boot": True}),
        ({"nodes": 1}, {"hcas": [], "first_boot": True}),
        ({"shape": replace(GPU4, rdma=None)}, {"hcas": [], "first_boot": True}),
        ({"authenticated": True}, {"hcas": HCAS, "first_boot": True, "authenticated": True}),
        ({"ask": True}, {"hcas": HCAS, "first_boot": True, "mpi": [], "row": [GPU4.name, 8, GPU4.gpu]} | FACTS),
        (STANDING, {"hcas": HCAS, "first_boot": False, "mpi": ["/opt/mpi"], "row": [GPU4.name, 8, GPU4.gpu]} | FACTS),
        (STANDING | {"shape": None}, {"hcas": [], "first_boot": False, "mpi": ["/opt/mpi"]} | FACTS),
    ],
)
def test_rails_are_awaited_only_on_several_nodes_and_facts_are_requested_only_if_shape_or_network_is_unknown(
    changes: dict[str, Any], asked: dict[str, Any]
):
    assert ready.request(replace(NEW, **changes), 7) == asked | {"timeout_s": 7}


@pytest.mark.parametrize(
    ("ended", "answers", "at_once", "left"),
    [(None, [255, 0], 32, 0), (255, [255, 255], 8, 2), (None, [255, 255], 8, 0)],
    ids=["the connection is open", "the connection failed", "the connection takes too long"],
)
def test_only_eight_commands_run_at_once_unless_they_share_a_connection_to_the_jump_host(
    monkeypatch, ended, answers, at_once, left
):
    started, ends, clock = [], [], iter([0.0, 1.0, 2.0, 99.0])
    held = SimpleNamespace(poll=lambda: ended, terminate=lambda: ends.append("terminate"), wait=lambda: ends.append("wait"))
    popen = SimpleNamespace(Popen=lambda argv, **_: started.append(argv) or held, DEVNULL=-3)
    monkeypatch.setattr(ssh_way, "subprocess", popen)
    monkeypatch.setattr(ssh_way, "run_here", lambda *_: (answers.pop(0), "", ""))
    monkeypatch.setattr(ssh_way, "time", SimpleNamespace(monotonic=lambda: next(clock), sleep=lambda _: None))
    with ssh_way.passing(["ssh"], {"user": "opc", "address": "203.0.113.5"}) as found:
        assert found == (["ssh", "opc@203.0.113.5"], ["ssh", "-J", "opc@203.0.113.5"], at_once)
        assert (started, ends) == ([["ssh", "-M", "-N", "opc@203.0.113.5"]], [])
    assert ends == ["terminate", "wait"]
    assert len(answers) == left


def test_without_a_jump_host_32_commands_run_at_once():
    with ssh_way.passing(["ssh"], None) as found:
        assert found == ([], ["ssh"], 32)
