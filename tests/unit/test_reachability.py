"""Every node connects to some other nodes on ports that no firewall rule names; unreachable or silent nodes are named."""

from __future__ import annotations

import sys

import pytest

from benchmarks.launch.protocol import Node
from benchmarks.runner import reachability

pytestmark = pytest.mark.programs

NODES = [Node(f"n{index}", f"127.0.0.{index + 1}") for index in range(3)]
LISTENS = [sys.executable, "-u", "-c", reachability.BOOT]
#: A node whose network is closed: it reports a port on which nobody listens.
CLOSED = [
    *LISTENS[:3],
    """import sys, socket; sys.stdin.read(int(sys.stdin.readline())); s = socket.socket(); s.bind(('', 0))
print(s.getsockname()[1]); s.close(); sys.stdin.readline(); print('[]'); sys.stdin.readline()""",
]


def test_nodes_that_reach_each_other_are_not_reported():
    assert reachability.unreachable(NODES, [LISTENS] * 3, 60) == []


def test_reachability_is_not_tested_in_a_cluster_of_one_node():
    assert reachability.unreachable(NODES[:1], [LISTENS], 60) == []


def test_a_node_whose_port_is_closed_is_named_with_the_nodes_that_tried_to_reach_it():
    """Each node tries to reach the head node and the next node in the ring."""
    said = reachability.unreachable(NODES, [LISTENS, CLOSED, LISTENS], 60)
    assert len(said) == 1
    assert said[0].startswith("n0 cannot reach n1 on TCP port ")
    said = reachability.unreachable(NODES, [CLOSED, LISTENS, LISTENS], 60)
    assert [one.partition(" on TCP")[0] for one in said] == ["n1 cannot reach n0", "n2 cannot reach n0"]


def test_a_node_that_does_not_answer_over_ssh_is_named():
    said = reachability.unreachable(NODES, [LISTENS, ["false"], LISTENS], 60)
    assert said == ["n1 did not answer over SSH"]


@pytest.mark.parametrize("silent", ["print(1, flush=True); ", ""])
def test_a_node_that_hangs_is_stopped_at_the_timeout(silent):
    hangs = [sys.executable, "-u", "-c", f"import time; {silent}time.sleep(3600)"]
    said = reachability.unreachable(NODES[:2], [LISTENS, hangs], 1.5)
    assert said
    assert all("n1" in one or "no answer" in one for one in said), said
