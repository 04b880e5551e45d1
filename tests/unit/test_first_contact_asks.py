"""The stack file decides what first contact asks every node; the questions share one connection to the jump host."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from catalogue import SHAPES
from catalogue.homes import Homes
from components import remote_scripts
from components.acceptance import ready
from components.inventory import Launcher, PlannedSet
from components.remote_scripts import first_contact, ssh_way, wait_for_banner
from components.remote_scripts.node_look import Failed, Seen

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


def clock(monkeypatch, module) -> SimpleNamespace:
    """Give `module` a clock that only its waits advance."""
    made = SimpleNamespace(now=0.0, monotonic=lambda: made.now)
    made.sleep = lambda seconds: vars(made).update(now=made.now + seconds)
    monkeypatch.setattr(module, "time", made)
    return made


def test_after_a_node_failed_for_good_only_the_other_nodes_are_asked_and_only_for_20_more_seconds(monkeypatch):
    """Node a fails at once, b is ready after 12 s, and c never answers."""
    asked, now = [], clock(monkeypatch, first_contact)

    def look(node, _way, _note):
        asked.append(node["name"])
        if node["name"] == "a":
            raise Failed("its first boot failed")
        return Seen("key", {}) if node["name"] == "b" and now.now >= 12 else None

    monkeypatch.setattr(first_contact, "look", look)
    nodes = [{"name": name, "address": f"10.0.0.{at}"} for at, name in enumerate("abc", 1)]
    with pytest.raises(SystemExit) as ended:
        first_contact.Waiting(nodes, SimpleNamespace(deadline=600.0)).end(1)
    assert str(ended.value) == ("2 of 3 nodes are not ready: a (10.0.0.1): its first boot failed; c (10.0.0.3): no contact yet")
    assert asked.count("a") == 1
    assert 20 <= now.now < 22


def test_a_host_that_sends_one_byte_every_three_seconds_keeps_no_try_longer_than_its_time_limit(monkeypatch):
    now = clock(monkeypatch, wait_for_banner)
    tries = []

    class Connection(contextlib.AbstractContextManager):
        def __exit__(self, *_):
            return None

        def settimeout(self, seconds):
            self.limit = seconds

        def recv(self, _):
            now.sleep(min(3, self.limit))
            if self.limit < 3:
                raise TimeoutError("timed out")
            return b"S"

    def connect(_, timeout):
        tries.append(now.now)
        made = Connection()
        made.settimeout(timeout)
        return made

    monkeypatch.setattr(wait_for_banner, "socket", SimpleNamespace(create_connection=connect))
    with pytest.raises(SystemExit, match=r"within 12 s; its last state: no answer on TCP port 22 \(timed out\)"):
        wait_for_banner.main("host", "ready", "failed:", 12)
    assert tries == [0, 5.5, 11]
    assert now.now == 12.5
